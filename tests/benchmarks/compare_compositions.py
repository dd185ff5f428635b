"""Random compositions of documents and policies through the whole command, in process.

Usage:
  compare_compositions.py [--count=N] [--first=N] [--processes=N] [--only=KIND]

Options:
  --count=N      compositions with bad news, and as many without [default: 10000]
  --first=N      number of the first one: to go on, or to repeat a finding [default: 0]
  --processes=N  that share the work [default: 2]
  --only=KIND    bad or sound: only these

`tests.bench_compare.worlds` says what a composition is. Bad news must not exit 0, no news must not
exit 2, and nothing may end in a traceback. Prints what does, how often each exit code came, and the
seconds that it took.
"""

from __future__ import annotations

import collections
import multiprocessing
import tempfile
import time
import traceback
from pathlib import Path

from tests.bench_compare.worlds import answered
from tests.benchmarks.harness import script

SHARE = 50
"""Compositions that a process does between two looks at what is left."""


def tried(share):
    """(exit codes, findings, processor seconds) of some compositions."""
    bad, seeds = share
    codes, findings, began = collections.Counter(), [], time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            try:
                world = answered(seed, bad, Path(folder) / "world")
            except Exception:  # whatever it is, it is a finding
                codes["traceback"] += 1
                findings.append(f"seed {seed}: {traceback.format_exc()}")
                continue
            codes[world.code] += 1
            if world.code not in ((1, 2) if bad else (0, 1)):
                findings.append(world.text)
    return codes, findings, time.process_time() - began


def main(count: int, first: int, processes: int, only: str | None) -> None:
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for kind, bad in (("bad", True), ("sound", False)):
            if only not in (None, kind):
                continue
            starts = range(first, first + count, SHARE)
            shares = [(bad, range(one, min(one + SHARE, first + count))) for one in starts]
            codes, spent_s, wrong, began = collections.Counter(), 0.0, 0, time.monotonic()
            for found, findings, took_s in pool.imap_unordered(tried, shares):
                codes += found
                spent_s += took_s
                wrong += len(findings)
                for finding in findings:
                    print(f"{kind}: {finding}", flush=True)
            exits = ", ".join(f"exit {code}: {number}" for code, number in codes.most_common())
            print(
                f"{count} {kind} compositions: {wrong} answered wrongly; {exits}; "
                f"{time.monotonic() - began:.0f} s, {spent_s:.0f} s of processors",
                flush=True,
            )


if __name__ == "__main__":
    script(main)
