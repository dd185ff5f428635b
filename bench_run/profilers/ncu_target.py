"""The process that the counters are read from: one case, run once between two marks."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from bench_run.engines import engine_module
from bench_run.profilers.ncu import Profiled
from bench_run.streams.cuda_driver import driver
from bench_run.tensors.data import inputs_of

WARMUP = 3


def main(path: str) -> int:
    case = pickle.loads(Path(path).read_bytes())  # noqa: S301 - written by our own parent
    assert isinstance(case, Profiled)
    engine = engine_module(case.spec.name).open(case.spec, case.options)
    plan = engine.plan(engine.build(case.graph, case.variant))
    plan.upload(inputs_of(case.graph, case.data))
    for _ in range(WARMUP):
        plan.run()
    engine.stream.synchronize()
    driver().call("cuProfilerStart")
    plan.run()
    engine.stream.synchronize()
    driver().call("cuProfilerStop")
    plan.close()
    engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
