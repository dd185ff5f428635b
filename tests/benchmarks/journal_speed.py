"""Whether saving costs the size of what is saved: 10,000 cases of 1,000 iterations.

    python tests/benchmarks/journal_speed.py [CASES [ROUNDS]]

Appends CASES cases (10,000) of 1,000 samples to a journal, one line for each of ROUNDS rounds (1),
and prints the time of every thousand cases, the slope over the run, the total, and what reading
and sealing take. Linear means that the last thousand cost what the first did.
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench_schema import files
from bench_schema.journal import Journal, journal_path, read_journal, seal
from json_speed import STORED, make_case

NOW = "2026-03-01T10:00:00+01:00"
BLOCKS = 10


def lines_of(case):
    """The parts of a case as a run saves them."""
    for index, round_ in enumerate(case.rounds):
        init = {name: values[index : index + 1] for name, values in case.init.items()}
        yield replace(case, rounds=(round_,), init=init, summary={}, achieved=None)


def append_all(out, template, cases, rounds):
    """Seconds of each block of cases; making the cases is not part of them."""
    seconds = []
    block = max(cases // BLOCKS, 1)
    for first in range(0, cases, block):
        made = [make_case(template, first + number, rounds) for number in range(block)]
        parts = [part for case in made for part in lines_of(case)]
        start = time.perf_counter()
        for part in parts:
            out.append_case(part)
        seconds.append(time.perf_counter() - start)
        print(f"cases {first:6d} to {first + block - 1:6d} {seconds[-1]:8.3f} s", flush=True)
    return seconds


def timed(name, action):
    start = time.perf_counter()
    result = action()
    print(f"{name:<24}{time.perf_counter() - start:8.3f} s", flush=True)
    return result


def main(cases=10_000, rounds=1):
    stored = files.read(STORED)
    run = replace(stored.run, complete=False, finished=None)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "run.json"
        path = journal_path(output)
        with Journal.create(path, replace(stored, cases=(), run=run)) as out:
            seconds = append_all(out, stored.cases[0], cases, rounds)
        slope = np.polyfit(range(len(seconds)), seconds, 1)[0] * len(seconds) / np.mean(seconds)
        print(f"{'saved in all':<24}{sum(seconds):8.3f} s, {path.stat().st_size / 1e6:.1f} MB")
        print(f"drift from first to last block {slope:+.0%} of a block (0 % is linear)")
        timed("read the journal", lambda: read_journal(path))
        timed("seal", lambda: seal(path, output, finished=NOW))
        timed("read the document", lambda: files.read(output))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
