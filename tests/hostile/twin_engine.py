"""An engine with two devices on any machine; ``twin:slow`` takes five times as long while the other
one measures, as devices that share power or a bus may.

Registered for the tests through the entry-point group `bench_run.engines`. Results are the NumPy
engine's; each run takes a millisecond of the host's clock.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import replace
from pathlib import Path

from bench_run.engines import numpy_engine
from bench_run.engines.base import Availability, EngineAbilities, EngineSpec, ModuleAbilities
from bench_run.machine.device_lock import lock_folder

NAME = "twin"
SUMMARY = "two devices; for tests"
INSTALL = "nothing to install"
RUN_S = 0.001
TRACE = "TWIN_TRACE"
"""Names a file to which each plan writes when it ran."""


def probe():
    return Availability(True, "always there")


def preload(spec):
    return True


ABILITIES = ModuleAbilities(preload=preload)


def open(spec, options):  # noqa: A001 - the protocol's name
    inner = numpy_engine.open(EngineSpec("numpy", "numpy"), replace(options, device=0))
    return Twin(inner, options.device, spec.id == "slow")


class Twin:
    abilities = EngineAbilities(devices=2)

    def __init__(self, inner, device, slow):
        self.inner = inner
        self.stream = inner.stream
        self.facts = replace(inner.facts, device=f"TWIN-{device}", device_index=device)
        self.other = lock_folder() / f"TWIN-{1 - device}.lock" if slow else None

    def variants(self, graph):
        return ({},)

    def build(self, graph, variant):
        return self.inner.build(graph, variant)

    def plan(self, built):
        return TwinPlan(self, self.inner.plan(built))

    def peak_bytes(self):
        return None

    def close(self):
        self.inner.close()


class TwinPlan:
    def __init__(self, engine, inner):
        self.engine = engine
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def run(self):
        begin = time.time()
        self.inner.run()
        end = time.perf_counter() + RUN_S * (5 if self.engine.other and self.is_disturbed() else 1)
        while time.perf_counter() < end:
            pass
        if TRACE in os.environ:
            line = f"{self.engine.facts.device} {os.getpid()} {begin} {time.time()}\n"
            with Path(os.environ[TRACE]).open("a") as trace:
                trace.write(line)

    def is_disturbed(self):
        """Whether somebody measures on the other device: its lock is held alone."""
        try:
            with self.engine.other.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False
