"""The program that runs under a profiler which sees all of its process: rests between iterations
tell their records apart.

``python -m bench_run.profilers.target FILE``: the file is one of `base.save`.
"""

from __future__ import annotations

import sys
import time

from bench_run.errors import BenchRunError
from bench_run.profilers.base import ITERATIONS, REST_NS, prepare


def main(path: str) -> int:
    """One run to load and warm up, then the iterations."""
    try:
        with prepare(path) as (plan, stream):
            plan.poison()
            for _ in range(1 + ITERATIONS):
                stream.synchronize()
                time.sleep(REST_NS / 1e9)
                plan.run()
    except BenchRunError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
