"""Time of bench-compare history over a large archive, and its page in a browser.

Usage:
  history_speed.py [--builds=N] [--cases=N] [--keep=FOLDER]

Options:
  --builds=N     [default: 365]
  --cases=N      of a build [default: 150]
  --keep=FOLDER  for the archive and its page

Documents of 5 rounds × 20 iterations, with a few steps, are written to a folder; then the command
runs twice: the first time makes the index, the second reads it. The page is opened in Chromium
where there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench_compare.history import make
from tests.benchmarks.harness import cost, folder, script

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")


def steps(builds: int, cases: int):
    """Slow-downs of 3 to 20 %, and one that is undone."""
    every = range(0, cases, 7)
    return [
        *((place, builds // 2 + place % 5 * 9, 1.03 + 0.01 * (place % 17)) for place in every),
        *((1, at, factor) for at, factor in ((builds // 4, 1.2), (builds // 3, 1 / 1.2))),
    ]


def command(archive: Path, *words: str) -> str:
    """How long it took, and the processor time of it and its processes."""
    program = [sys.executable, "-m", "bench_compare", "history", str(archive), "-q", *words]
    found = cost(program, codes=(0, 2))
    return f"{found.wall_s:.1f} s ({found.processor_s:.1f} s of processor time)"


def opened(page: Path) -> float:
    """Milliseconds until the page says that it is ready."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    try:
        driver.get(page.as_uri())
        return float(driver.execute_script("return document.documentElement.dataset.ready"))
    finally:
        driver.quit()


def main(builds: int, cases: int, keep: str | None) -> None:
    with folder(keep) as kept:
        archive, page = kept / "archive", kept / "trend.html"
        if not archive.exists():
            made = {"steps": steps(builds, cases), "rounds": 5, "count": 20}
            make.archive(archive, builds=builds, cases=cases, **made)
        (archive / "history.sqlite").unlink(missing_ok=True)
        print(f"{builds} documents of {cases} cases: first {command(archive)}", flush=True)
        print(f"again {command(archive)}", flush=True)
        print(f"with the page {command(archive, '--html', str(page))}", flush=True)
        print(f"page {page.stat().st_size / 1e6:.2f} MB")
        if CHROMIUM.exists() and DRIVER.exists():
            print(f"open in {opened(page) / 1000:.2f} s")


if __name__ == "__main__":
    script(main)
