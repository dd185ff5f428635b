"""What it costs to store a reference and to look one up, with few entries in the folder and many.

Usage:
  reference_store.py [--stores=N]

Options:
  --stores=N   stores and look-ups at each number of entries [default: 50]

Printed: milliseconds of a store and of a look-up at 100, 1,000, 4,000 and 16,000 entries; then the
seconds of 300, 900 and 2,700 stores into an empty folder, and the exponent of a power law through
them: 1 means that a store costs the same whatever the folder holds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from docopt import docopt

from bench_run.worker.reference_cache import ReferenceCache

ENTRIES = (100, 1_000, 4_000, 16_000)
TOTALS = (300, 900, 2_700)


def key_of(number: int) -> str:
    return f"{number:064x}"


def milliseconds_each(cache: ReferenceCache, outputs: Path, first: int, count: int) -> list[float]:
    """Medians of a store and of a look-up; the stores are numbered from `first`."""
    stored_ms, had_ms = [], []
    for number in range(first, first + count):
        begin = time.perf_counter()
        cache.store(key_of(number), outputs)
        stored_ms.append(1e3 * (time.perf_counter() - begin))
        begin = time.perf_counter()
        assert cache.fetch(key_of(number), ["1.npy"], outputs.parent / f"had-{number}")
        had_ms.append(1e3 * (time.perf_counter() - begin))
    return [statistics.median(stored_ms), statistics.median(had_ms)]


def seconds_of(stores: int, outputs: Path, folder: Path) -> float:
    cache = ReferenceCache(folder)
    begin = time.perf_counter()
    for number in range(stores):
        cache.store(key_of(number), outputs)
    return time.perf_counter() - begin


def main() -> None:
    count = int(docopt(__doc__)["--stores"])
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        outputs = base / "outputs"
        outputs.mkdir()
        np.save(outputs / "1.npy", np.arange(64.0))
        cache = ReferenceCache(base / "cache")
        number = 0
        for entries in ENTRIES:
            while number < entries:
                cache.store(key_of(number), outputs)
                number += 1
            store_ms, fetch_ms = milliseconds_each(cache, outputs, number, count)
            number += count
            print(f"{entries:6,} entries: store {store_ms:.2f} ms, look-up {fetch_ms:.2f} ms")
        seconds = []
        for stores in TOTALS:
            seconds.append(seconds_of(stores, outputs, base / f"cache-{stores}"))
            print(f"{stores:6,} stores: {seconds[-1]:.2f} s")
        exponent = np.polyfit(np.log(TOTALS), np.log(seconds), 1)[0]
        print(f"exponent {exponent:.3f}")


if __name__ == "__main__":
    main()
