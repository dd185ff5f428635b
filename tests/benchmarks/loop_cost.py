"""What the timing loop itself costs in each sample, on the NumPy engine's fastest graph.

The same plan is run by the real loop and, in the same process, by a bare loop that only reads the
clock around the call. Prints the median sample of both, the loop's own cost per sample (an empty
plan), and its wall time per iteration. Goal: less than 1 µs inside of a sample.

Usage:
  loop_cost.py
"""

from __future__ import annotations

import time

import numpy as np

from bench_run.engines.base import EngineOptions, EngineSpec, PlanAbilities
from bench_run.engines.numpy_engine import open as open_engine
from bench_run.graph.make import make_graphs
from bench_run.measure.loop import SamplingBudget, end_to_end, quiet
from bench_run.tensors.seeded.inputs import make_inputs
from tests.benchmarks.harness import script

COUNT = 20_000


class Nothing:
    """A plan that does nothing: what is left is the loop."""

    abilities = PlanAbilities()

    def run(self) -> None:
        pass


def bare_loop(run):
    samples = []
    for _ in range(COUNT):
        begin = time.perf_counter_ns()
        run()
        samples.append(time.perf_counter_ns() - begin)
    return samples


def real_loop(plan, stream):
    begin = time.perf_counter_ns()
    samples = end_to_end(plan, stream, SamplingBudget(0, COUNT), None, time.perf_counter_ns)
    return samples, (time.perf_counter_ns() - begin) / COUNT


def main() -> None:
    engine = open_engine(EngineSpec("numpy", "numpy"), EngineOptions())
    graph = make_graphs("add: dims=2x2")[0]
    plan = engine.plan(engine.build(graph, {}))
    plan.upload(make_inputs(graph, 0))
    with quiet():
        bare = np.median(bare_loop(plan.run))
        samples, wall = real_loop(plan, engine.stream)
        empty, beside = real_loop(Nothing(), engine.stream)
        floor = np.median(bare_loop(Nothing().run))
    real = np.median(samples)
    print(f"fastest graph, bare loop:      {bare:8.0f} ns a sample")
    print(f"fastest graph, real loop:      {real:8.0f} ns a sample, {wall:.0f} ns of wall time")
    print(f"empty plan, real loop:         {np.median(empty):8.0f} ns, bare loop {floor:.0f} ns")
    print(f"wall time of the loop alone:   {beside:8.0f} ns an iteration")
    print(f"cost of the loop in a sample:  {real - bare:8.0f} ns (goal: below 1000)")
    assert real - bare < 1000


if __name__ == "__main__":
    script(main)
