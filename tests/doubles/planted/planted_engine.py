"""An engine whose executions are a known number of repeats of the same work: ``planted:13`` takes
30 % longer than ``planted:10``, whatever else the machine does. The work is the NumPy engine's.

Registered through the entry-point group `bench_run.engines` (see `compare_planted.py`).
"""

from __future__ import annotations

from bench_run.engines import numpy_engine
from bench_run.engines.base import Availability, EngineSpec

NAME = "planted"
SUMMARY = "repeats NumPy's work as often as its id says; for benchmarks of verdicts"
INSTALL = "nothing to install"


def probe():
    return Availability(True, "always there")


def open(spec, options):  # noqa: A001 - the protocol's name
    return Repeating(int(spec.id), numpy_engine.open(EngineSpec("numpy", "numpy"), options))


class Repeating:
    def __init__(self, times, engine):
        self.times = times
        self.engine = engine
        self.facts = engine.facts
        self.stream = engine.stream

    def variants(self, graph):
        return self.engine.variants(graph)

    def build(self, graph, variant):
        return self.engine.build(graph, variant)

    def plan(self, built):
        return RepeatingPlan(self.times, self.engine.plan(built))

    def peak_bytes(self):
        return self.engine.peak_bytes()

    def close(self):
        self.engine.close()


class RepeatingPlan:
    def __init__(self, times, plan):
        self.times = times
        self.plan = plan

    def run(self):
        for _ in range(self.times):
            self.plan.run()

    def __getattr__(self, name):
        return getattr(self.plan, name)
