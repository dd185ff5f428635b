"""An engine with two devices that only waits, as long as two H200s were seen to take.

`two_gpus_simulated.py` registers it. Graphs are told apart by their first dimension, which is a row
of `ROWS`; whoever waits takes no processor, so that a machine without cores for 20 workers shows
what turns and order cost.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import replace
from pathlib import Path

from bench_run.engines import numpy_engine
from bench_run.engines.base import Availability, EngineAbilities, EngineSpec, ModuleAbilities
from bench_run.measure import clock_wait
from bench_run.streams.host import HostStream

NAME = "timed"
SUMMARY = "two devices that wait; for simulations"
INSTALL = "nothing to install"
SCALE, FOLDER = "TIMED_SCALE", "TIMED_FOLDER"
"""Variables: how much longer everything takes than on the GPUs, and a folder for what processes
tell each other."""
ROWS = (
    (273, 0.7),
    (258, 1.1),
    (302, 6.3),
    (367, 2.3),
    (19, 3.3),
    (96, 5.1),
    (64, 2.4),
    (48, 2.2),
    (66, 2.9),
    (397, 5.1),
    (474, 1.2),
    (151, 46.6),
    (52, 3.0),
    (122, 1.2),
    (55, 1.0),
    (218, 14.2),
    (189, 1.5),
    (352, 10.4),
    (304, 1.7),
)
"""Milliseconds of building, and of all samples of a round, for the graphs of `two_gpus.py`: means
of four runs with `cudnn` on two H200s (2026-11-22)."""
IMPORT_S, OPEN_S, OPEN_IN_TURN_S, TURNS = 0.7, 0.3, 0.15, 10
"""Importing libraries, and opening a device: a part of it in turn with other processes of the host,
in so many steps (10 at once were seen to take 2.0 s, 20 at once 3.7 s, each of them)."""
COPIES_S, FIRST_BUILD_S = 0.05, 0.25
"""What a visit does on the device before it measures, and what building takes longer for the first
one of a process."""
VISIT_S, RESTS, COOLING = 0.025, 3.5, 2.5
"""What measuring takes beside samples, and with their rests in shares of them; how long the clock
is low afterwards."""
RUNS = 30
"""Of a round, warm-up among them."""
HIGHEST_MHZ = 1980.0


def probe():
    return Availability(True, "always there")


def wait(seconds):
    time.sleep(seconds * float(os.environ.get(SCALE, "1")))


def preload(spec):
    wait(IMPORT_S)
    return True


ABILITIES = ModuleAbilities(preload=preload)


def open(spec, options):  # noqa: A001 - the protocol's name
    for _ in range(TURNS):  # those that open at once all get on, and end together
        wait(OPEN_S / TURNS)
        with (Path(os.environ[FOLDER]) / "opening").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            wait(OPEN_IN_TURN_S / TURNS)
    return Timed(options)


class Stream(HostStream):
    """Its clock is low for a while after work."""

    def __init__(self, device):
        super().__init__()
        self._low = Path(os.environ[FOLDER]) / device

    def heat(self, seconds):
        seconds *= float(os.environ.get(SCALE, "1"))
        self._low.write_text(str(time.monotonic() + seconds))

    @property
    def abilities(self):
        return replace(super().abilities, probe_clock_mhz=self._probe_clock_mhz)

    def _probe_clock_mhz(self):
        try:
            low = time.monotonic() < float(self._low.read_text())
        except (OSError, ValueError):  # nothing ran yet, or it is being written
            low = False
        return HIGHEST_MHZ / 2 if low else HIGHEST_MHZ


class Timed:
    abilities = EngineAbilities(devices=2)

    def __init__(self, options):
        name = f"TIMED-{options.device}"
        self.inner = numpy_engine.open(EngineSpec("numpy", "numpy"), replace(options, device=0))
        self.stream = Stream(name)
        self.facts = replace(self.inner.facts, device=name, device_index=options.device)
        self.is_fresh = True
        clock_wait._reachable_mhz[name] = HIGHEST_MHZ

    def variants(self, graph):
        return ({},)

    def build(self, graph, variant):
        return graph, self.inner.build(graph, variant)

    def plan(self, built):
        graph, inner = built
        row = ROWS[(graph.inputs[0].dims[0] - 1) % len(ROWS)]
        wait(row[0] / 1e3 + (FIRST_BUILD_S if self.is_fresh else 0))
        self.is_fresh = False
        return TimedPlan(self, self.inner.plan(inner), row[1] / 1e3)

    def peak_bytes(self):
        return None

    def close(self):
        wait(0.15)
        self.inner.close()


class TimedPlan:
    def __init__(self, engine, inner, samples_s):
        self.engine, self.inner, self.samples_s = engine, inner, samples_s
        self.runs = 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def upload(self, inputs):
        self.inner.upload(inputs)
        wait(COPIES_S)

    def run(self):
        self.inner.run()
        self.runs += 1
        if 1 < self.runs <= 1 + RUNS:
            wait((VISIT_S + RESTS * self.samples_s) / RUNS)
        if self.runs == 1 + RUNS:
            self.engine.stream.heat(COOLING * self.samples_s)
