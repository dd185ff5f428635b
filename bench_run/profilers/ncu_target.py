"""The program that runs under Nsight Compute: one case, run once between two marks.

``python -m bench_run.profilers.ncu_target FILE``: the file is one of `base.save`.
"""

from __future__ import annotations

import sys

from bench_run.profilers.base import prepare
from bench_run.streams.cuda_driver import driver

WARMUP = 3


def main(path: str) -> int:
    with prepare(path) as (plan, stream):
        for _ in range(WARMUP):
            plan.run()
        stream.synchronize()
        driver().call("cuProfilerStart")
        plan.run()
        stream.synchronize()
        driver().call("cuProfilerStop")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
