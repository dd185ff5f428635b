"""An engine that breaks the device in a way its id names; else it is cuDNN's or PyTorch's work."""

from __future__ import annotations

import ctypes
import os

from bench_run.engines import cudnn, torch_engine
from bench_run.engines.base import Availability, EngineSpec
from bench_run.streams import cuda
from bench_run.streams.cuda_driver import driver

NAME = "hostile_gpu"
SUMMARY = "breaks the device on request; for tests"
INSTALL = "nothing to install"


def probe():
    return Availability(True, "always there")


def open(spec, options):  # noqa: A001 - the protocol's name
    if cudnn.probe().ok:
        inner = cudnn.open(EngineSpec("cudnn", "cudnn"), options)
    else:
        inner = torch_engine.open(EngineSpec("torch", "torch", "cuda"), options)
    return Hostile(spec.id, inner)


class Hostile:
    def __init__(self, way, engine):
        self.way, self.engine = way, engine
        self.facts, self.stream = engine.facts, engine.stream
        self.variants, self.build = engine.variants, engine.build
        self.peak_bytes, self.close = engine.peak_bytes, engine.close

    def plan(self, built):
        return HostilePlan(self.way, self.engine.plan(built), self.engine.stream)


class HostilePlan:
    def __init__(self, way, plan, stream):
        self.way, self.inner, self.stream, self.runs = way, plan, stream, 0
        self.facts, self.close = plan.facts, plan.close
        self.upload, self.poison, self.download = plan.upload, plan.poison, plan.download
        self.abilities, self.kept = plan.abilities, {}

    def run(self):
        self.runs += 1
        if self.runs > 3 and self.way in MISDEEDS:
            MISDEEDS[self.way](self)
        if self.runs <= 3 or self.way not in CHEATS or not CHEATS[self.way](self):
            self.inner.run()

    def places(self):
        """Of its outputs: uid, address and bytes."""
        located = self.abilities.locate_outputs(upcoming=True)
        return [(uid, at, self.inner.download()[uid].nbytes) for uid, at in located.items()]


def _queue(plan):
    handle = getattr(plan.stream, "handle", None)
    return plan.stream._handle if handle is None else handle


def _illegal(plan):
    """Reads from an address that is nobody's: an error that sticks to the context."""
    bad = (ctypes.c_uint64(1 << 44), ctypes.c_uint64(4096), ctypes.c_uint64(1 << 44))
    driver().launch(driver().kernel("bench_read"), _queue(plan), *bad, blocks=8, threads=256)


def _hang(plan):
    """A kernel that waits for a word that nobody writes."""
    word = driver().pointer("cuMemHostAlloc", 64, 0)
    ctypes.memset(word.value, 0, 64)
    forever = ctypes.c_uint64(600_000_000_000)
    arguments = (ctypes.c_uint64(word.value), ctypes.c_uint32(1), forever)
    driver().launch(driver().kernel("bench_gate"), _queue(plan), *arguments)


def _remember(plan):
    """Copies the answer of its third run."""
    memory = plan.stream.abilities.memory()
    if not plan.kept:
        plan.inner.run()
        for uid, at, size in plan.places():
            plan.kept[uid] = memory.allocate(size), size
            memory.copy(plan.kept[uid][0], at, size)
    for uid, at in plan.abilities.locate_outputs(upcoming=True).items():
        memory.copy(at, *plan.kept[uid])
    return True


CHEATS = {
    "remembers": _remember,
    "idles": lambda plan: True,
    "idles-in-turns": lambda plan: plan.runs % 2 == 0,
}
"""True: nothing more is to be done."""
MISDEEDS = {
    "illegal": _illegal,
    "hang": _hang,
    "memory": lambda plan: driver().number("cuMemAlloc_v2", 1 << 50, kind=ctypes.c_uint64),
    "wait": lambda plan: driver().call("cuStreamSynchronize", _queue(plan)),
    "die": lambda plan: os.abort(),
}
assert cuda.GATE_LIMIT_S < 10
