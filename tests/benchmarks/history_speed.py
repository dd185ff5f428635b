"""Time of bench-compare history over a large archive, and its page in a browser.

    python -m tests.benchmarks.history_speed [--builds 365] [--cases 150] [--keep FOLDER]

Documents of 5 rounds × 20 iterations, with a few steps, are written to a folder; then the command
runs twice: the first time makes the index, the second reads it. The page is opened in Chromium
where there is one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench_compare.history import make

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")


def steps(builds: int, cases: int):
    """Slow-downs of 3 to 20 %, and one that is undone."""
    every = range(0, cases, 7)
    return [
        *((place, builds // 2 + place % 5 * 9, 1.03 + 0.01 * (place % 17)) for place in every),
        *((1, at, factor) for at, factor in ((builds // 4, 1.2), (builds // 3, 1 / 1.2))),
    ]


def command(folder: Path, *words: str) -> str:
    """How long it took, and the processor time of it and its processes."""
    began, before = time.perf_counter(), os.times()
    program = [sys.executable, "-m", "bench_compare", "history", str(folder), "-q", *words]
    done = subprocess.run(program, capture_output=True, text=True)
    if done.returncode == 1:
        raise SystemExit(done.stderr)
    wall_s, after = time.perf_counter() - began, os.times()
    cpu_s = after[2] + after[3] - before[2] - before[3]
    return f"{wall_s:.1f} s ({cpu_s:.1f} s of processor time)"


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


def main(argv: list[str]) -> None:
    words = dict(zip(argv[::2], argv[1::2], strict=True))
    builds, cases = int(words.get("--builds", 365)), int(words.get("--cases", 150))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(words.get("--keep", temporary)) / "archive"
        if not folder.exists():
            make.archive(
                folder, builds=builds, cases=cases, steps=steps(builds, cases), rounds=5, count=20
            )
        page = folder.parent / "trend.html"
        (folder / "history.sqlite").unlink(missing_ok=True)
        print(f"{builds} documents of {cases} cases: first {command(folder)}", flush=True)
        print(f"again {command(folder)}", flush=True)
        print(f"with the page {command(folder, '--html', str(page))}", flush=True)
        print(f"page {page.stat().st_size / 1e6:.2f} MB")
        if CHROMIUM.exists() and DRIVER.exists():
            print(f"open in {opened(page) / 1000:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
