"""An engine that gets slower with its version, as a build of a library may: NumPy's work, done as
often as ``SLOWED`` says for a graph's first operation (``matmul=3,conv_fwd=4``; twice for all
others). ``SLOWED_VERSION`` is what it calls itself.

Registered through the entry-point group `bench_run.engines`.
"""

from __future__ import annotations

import os
from dataclasses import replace

from bench_run.engines import numpy_engine
from bench_run.engines.base import Availability, EngineAbilities, EngineSpec

NAME = "slowed"
SUMMARY = "repeats NumPy's work, more often from version to version; for histories"
INSTALL = "nothing to install"
TIMES = 2


def probe():
    return Availability(True, "always there")


def open(spec, options):  # noqa: A001 - the protocol's name
    return Slowed(numpy_engine.open(EngineSpec("numpy", "numpy"), options))


def repeats(graph):
    """Of the first kind in ``SLOWED`` that the graph has."""
    rows = (word.split("=") for word in os.environ.get("SLOWED", "").split(",") if word)
    kinds = [node.type.lower() for node in graph.nodes]
    return next((int(n) for name, n in rows if any(name in kind for kind in kinds)), TIMES)


class Slowed:
    abilities = EngineAbilities()

    def __init__(self, engine):
        version = os.environ.get("SLOWED_VERSION", "1.0")
        self.engine = engine
        self.facts = replace(engine.facts, libraries={**engine.facts.libraries, "slowed": version})
        self.stream = engine.stream

    def variants(self, graph):
        return self.engine.variants(graph)

    def build(self, graph, variant):
        return graph, self.engine.build(graph, variant)

    def plan(self, built):
        graph, made = built
        return SlowedPlan(repeats(graph), self.engine.plan(made))

    def peak_bytes(self):
        return self.engine.peak_bytes()

    def close(self):
        self.engine.close()


class SlowedPlan:
    def __init__(self, times, plan):
        self.times = times
        self.plan = plan

    def run(self):
        for _ in range(self.times):
            self.plan.run()

    @property
    def abilities(self):
        return replace(self.plan.abilities, share=self.share)

    def share(self, homes):
        """Memory is that of the plans within."""
        within = {uid: replace(home, plan=home.plan.plan) for uid, home in homes.items()}
        return self.plan.share(within)

    def __getattr__(self, name):
        return getattr(self.plan, name)
