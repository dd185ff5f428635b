"""An engine of a stranger whose plans take times that are known, on a clock of its own.

``known`` runs its default plan, ``known:all`` each plan by name. No time passes: a plan's work
moves the stream's clock by its true time with noise. ``known+drift`` becomes slower with every
execution of anything; ``known+apart`` runs plans by name as ``known:all`` only.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import psutil

from bench_run.engines import numpy_engine
from bench_run.engines.base import (
    Availability,
    EngineAbilities,
    EngineSpec,
    ModuleAbilities,
    PlanAbilities,
    PlanFacts,
)
from bench_run.streams.host import HostStream

NAME = "known"
SUMMARY = "has known times; for tests"
INSTALL = "nothing to install"
ABILITIES = ModuleAbilities(knobs="made up")

TIMES_NS = {
    "usual": 1_000_000,
    "best": 500_000,
    "near": 500_500,
    "moody": 500_250,
    "slow": 700_000,
    "hopeless": 4_500_000,
    "wrong": 250_000,
    "crash": 400_000,
    "hang": 350_000,
}
"""True times of the plans; the first is the default. All are longer than the sum itself takes, so
the clock of the run does not contradict them."""
WORKSPACES = {"best": 4096, "near": 1024}
NOISE, VISIT_NOISE = 0.004, 0.0005
DRIFT = 2e-5
"""By which everything is slower after each execution."""
STOP = int(os.environ.get("KNOWN_STOP", 0))
"""Number of the plan of a process at which the run is asked to end; 0: never."""
SURVIVED = 6
"""Executions after which the plan ``crash`` ends its process."""


def probe():
    return Availability(True, "always there")


def open(spec, options):  # noqa: A001 - the protocol's name
    inner = numpy_engine.open(EngineSpec("numpy", "numpy"), replace(options, cache="hot"))
    kind = Known if "apart" in spec.options else KnownBeside
    return kind(spec, options, inner)


class KnownStream(HostStream):
    clock = "events"
    gate_depth = 512

    def __init__(self, drifts):
        super().__init__()
        self.now, self.drifts, self.executions = 0.0, drifts, 0
        self.draw = np.random.default_rng(7)

    def mark(self):
        return self.now

    def gate(self):
        return nullcontext()

    def work(self, ns):
        self.executions += 1
        drift = 1 + DRIFT * self.executions if self.drifts else 1.0
        self.now += ns * drift * np.exp(NOISE * self.draw.standard_normal())


class Known:
    def __init__(self, spec, options, engine):
        self.spec, self.options, self.engine = spec, options, engine
        self.plans_made = 0
        self.stream = KnownStream("drift" in spec.options)
        version = os.environ.get("KNOWN_VERSION", "1.0")
        self.facts = replace(engine.facts, libraries={"known": version})

    @property
    def abilities(self):
        return EngineAbilities(knob_values=self.knob_values)

    def variants(self, graph):
        return tuple({"plan": name} for name in TIMES_NS) if self.spec.id == "all" else ({},)

    def knob_values(self, graph, variant):
        return {"SPEED": ("1", "2", "4")}

    def build(self, graph, variant):
        factor = float(variant.get("knob:SPEED", 1))
        return graph, self.engine.build(graph, {}), variant.get("plan", "usual"), factor

    def plan(self, built):
        _, inner, name, factor = built
        self.plans_made += 1
        if self.plans_made == STOP:
            run = next(p for p in psutil.Process().parents() if "tune" in p.cmdline())
            run.send_signal(signal.SIGTERM)
            time.sleep(1)
        if name == "hang":
            time.sleep(1000)
        return KnownPlan(self.engine.plan(inner), name, TIMES_NS[name] / factor, self.stream)

    def peak_bytes(self):
        return None

    def close(self):
        self.engine.close()


class KnownBeside(Known):
    @property
    def abilities(self):
        return replace(super().abilities, plans=self.plans)

    def plans(self, graph):
        return tuple({"plan": name} for name in TIMES_NS)


class KnownPlan:
    abilities = PlanAbilities()

    def __init__(self, plan, name, true_ns, stream):
        self.plan, self.name, self.stream = plan, name, stream
        self.runs = 0
        visit = np.exp(VISIT_NOISE * stream.draw.standard_normal())
        self.true_ns = true_ns * visit
        self.facts = PlanFacts({"plan": name}, WORKSPACES.get(name, 8192), 64)
        self.upload, self.poison, self.close = plan.upload, plan.poison, plan.close

    def run(self):
        self.runs += 1
        if self.name == "crash" and self.runs > SURVIVED:
            os._exit(7)
        self.plan.run()
        self.stream.work(self.true_ns)

    def download(self):
        outputs = self.plan.download()
        for storage in outputs.values():
            if self.name == "wrong":
                storage[0] += 1
            if self.name == "moody" and self.runs > 1:
                storage[0] = np.nextafter(storage[0], np.float32(np.inf))
        return outputs
