"""The program that runs under a profiler: one case, with separable iterations.

``python -m bench_run.profilers.target WAY FILE``: the way is a row of `WAYS`, the file is one of
`base.save`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import BenchRunError
from bench_run.profilers.base import ITERATIONS, REST_NS, prepare

if TYPE_CHECKING:
    from bench_run.engines.base import Plan
    from bench_run.streams.base import Stream

WARMUP = 3


def run_between_rests(plan: Plan, stream: Stream, _folder: Path) -> None:
    """Run the iterations, after the first run, for a profiler that records the whole process."""
    for _ in range(ITERATIONS):
        stream.synchronize()
        time.sleep(REST_NS / 1e9)
        plan.run()


def run_between_marks(plan: Plan, stream: Stream, _folder: Path) -> None:
    """Run once between two marks, for Nsight Compute."""
    from bench_run.streams.cuda_driver import driver

    for _ in range(WARMUP):
        plan.run()
    stream.synchronize()
    driver().call("cuProfilerStart")
    plan.run()
    stream.synchronize()
    driver().call("cuProfilerStop")


def run_between_orders(plan: Plan, stream: Stream, folder: Path) -> None:
    """Run the iterations between an order to count and one to stop, for `perf stat`."""
    for _ in range(WARMUP):
        plan.run()
    stream.synchronize()
    with (folder / "control").open("w") as orders, (folder / "answer").open() as answers:
        for order in ("enable", "disable"):
            orders.write(f"{order}\n")
            orders.flush()
            answers.readline()
            for _ in range(ITERATIONS if order == "enable" else 0):
                plan.run()
            stream.synchronize()


WAYS = {"rests": run_between_rests, "marks": run_between_marks, "pipes": run_between_orders}


def main(way: str, path: str) -> int:
    try:
        with prepare(path) as (plan, stream):
            WAYS[way](plan, stream, Path(path).parent)
    except BenchRunError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
