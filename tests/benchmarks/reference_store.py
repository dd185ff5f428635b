"""What it costs to store a reference and to look one up, with few entries in the folder and many.

Usage:
  reference_store.py [--stores=N]

Options:
  --stores=N   stores and look-ups at each number of entries [default: 100]

Printed: milliseconds of processor time of a store and of a look-up at 100, 1,000, 4,000 and 16,000
entries, with their ratio to those at 100; then the seconds of 300, 900 and 2,700 stores into an
empty folder, and the exponent of a power law through them: 1 means that a store costs the same
whatever the folder holds.

Processor time (of this process, the kernel's part included) counts neither the work of others nor
waits for the disk. What is compared takes turns store by store, so that a slow spell of the machine
hits all of it alike: in turns the wall clock gives the same exponent (0.98 on a busy machine), one
folder after the other it gave 0.64 and 1.08. The folders are in `TMPDIR`: the file system has its
part in the time.
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


def stored_ms(cache: ReferenceCache, number: int, outputs: Path) -> float:
    begin = time.process_time_ns()
    cache.store(key_of(number), outputs)
    return (time.process_time_ns() - begin) / 1e6


def fetched_ms(cache: ReferenceCache, number: int, target: Path) -> float:
    begin = time.process_time_ns()
    assert cache.fetch(key_of(number), ["1.npy"], target)
    return (time.process_time_ns() - begin) / 1e6


def print_each(base: Path, outputs: Path, count: int) -> None:
    """Medians of `count` stores and look-ups at each number of entries."""
    caches = {entries: ReferenceCache(base / f"filled-{entries}") for entries in ENTRIES}
    for entries, cache in caches.items():
        for number in range(entries):
            cache.store(key_of(number), outputs)
    stores_ms: dict[int, list[float]] = {entries: [] for entries in ENTRIES}
    fetches_ms: dict[int, list[float]] = {entries: [] for entries in ENTRIES}
    for turn in range(count):
        for entries, cache in caches.items():
            number = entries + turn
            stores_ms[entries].append(stored_ms(cache, number, outputs))
            had = base / f"had-{entries}-{turn}"
            fetches_ms[entries].append(fetched_ms(cache, number, had))
    few = [statistics.median(table[ENTRIES[0]]) for table in (stores_ms, fetches_ms)]
    for entries in ENTRIES:
        store, fetch = (statistics.median(table[entries]) for table in (stores_ms, fetches_ms))
        print(
            f"{entries:6,} entries: store {store:.3f} ms ({store / few[0]:.2f}), "
            f"look-up {fetch:.3f} ms ({fetch / few[1]:.2f})"
        )


def seconds_each(base: Path, outputs: Path) -> list[float]:
    """Seconds of each of `TOTALS` stores into an empty folder. All fill folders one after another
    until each has stored as often as the largest: nine folders, three and one."""
    most = max(TOTALS)
    lanes_ms = dict.fromkeys(TOTALS, 0.0)
    for turn in range(most):
        for total in TOTALS:
            cache = ReferenceCache(base / f"lane-{total}-{turn // total}")
            lanes_ms[total] += stored_ms(cache, turn % total, outputs)
    return [lanes_ms[total] / 1e3 * total / most for total in TOTALS]


def main() -> None:
    count = int(docopt(__doc__)["--stores"])
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        outputs = base / "outputs"
        outputs.mkdir()
        np.save(outputs / "1.npy", np.arange(64.0))
        ReferenceCache(base / "first").store(key_of(0), outputs)  # loads what a store needs
        print_each(base, outputs, count)
        seconds = seconds_each(base, outputs)
        for total, spent_s in zip(TOTALS, seconds, strict=True):
            print(f"{total:6,} stores: {spent_s:.2f} s")
        exponent = np.polyfit(np.log(TOTALS), np.log(seconds), 1)[0]
        print(f"exponent {exponent:.3f}")


if __name__ == "__main__":
    main()
