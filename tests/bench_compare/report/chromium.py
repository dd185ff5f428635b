"""Headless Chromium, driven by selenium, without a network: what tests of pages share."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1400,900",
)
PATIENCE_S = 30


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if not (CHROMIUM.exists() and DRIVER.exists()):
        pytest.skip(f"no {CHROMIUM} or {DRIVER} here")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    driver.set_script_timeout(PATIENCE_S)
    yield driver
    driver.quit()


def look(browser, address, width=1400, scheme="light", height=900):
    """Opens an address at a width, in a scheme of colours, and waits until it can be used."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": wanted})
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(address)
    until(lambda: browser.execute_script("return document.documentElement.dataset.ready"))
    return browser


def until(holds):
    """Waits for something true and returns it; fails when it does not come."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.03)
    return pytest.fail("waited in vain")


def find(browser, selector):
    return browser.find_element("css selector", selector)


def texts(browser, selector):
    return [node.text for node in browser.find_elements("css selector", selector)]


def problems(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"]


def wait_for_case(browser, case):
    script = "const it = document.getElementById('panel'); return it.open && it.dataset.case"
    return until(lambda: browser.execute_script(script) == case)


def drawn(browser, selector="#overview .chart"):
    """What plotly draws there, as data and layout."""
    script = """const node = document.querySelector(arguments[0]);
        return node?.data ? {data: node.data, layout: node.layout} : null"""
    return until(lambda: browser.execute_script(script, selector))
