"""Changed documents through the whole command, in a process of its own with a limit of memory.

    python -m tests.benchmarks.compare_mutated [--count 20000] [--seed 0]

Each document is changed as the fuzz target "comparisons" changes it, compared with the one that it
came from, and every report is written. Prints what was found (a traceback, a complaint that is not
one line, an answer without a word), the exit codes and the most memory that the process took.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz.run import attempt, changed

LIMIT_BYTES = 1 << 30
MOST = 20
"""Findings after which it ends."""


def child(count: int, seed: int) -> int:
    begin, found = time.monotonic(), 0
    attempt("comparisons", changed("comparisons", seed, 0))  # libraries are mapped before the limit
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + LIMIT_BYTES, mapped + LIMIT_BYTES))
    for number in range(count):
        trace = attempt("comparisons", changed("comparisons", seed, number))
        if trace is not None:
            found += 1
            print(f"input {number} (seed {seed}): {trace}", flush=True)
        if found >= MOST:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    taken = time.monotonic() - begin
    print(f"{number + 1} documents, {found} findings, at most {peak} MiB, {taken:.0f} s")
    return 1 if found else 0


def main(argv: list[str]) -> int:
    words = dict(zip(argv[::2], argv[1::2], strict=True))
    count, seed = words.get("--count", "20000"), words.get("--seed", "0")
    code = f"from tests.benchmarks.compare_mutated import child; exit(child({count}, {seed}))"
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], check=False)
    if done.returncode < 0:
        print(f"crashed: signal {-done.returncode}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
