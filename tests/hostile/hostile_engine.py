"""An engine of a stranger that can die in every way, and be wrong in every way.

Registered for the tests through the entry-point group `bench_run.engines`. The id says what it
does: ``hostile:segfault``. Everything else is the NumPy engine's work.
"""

from __future__ import annotations

import ctypes
import hashlib
import locale
import os
import pickle
import random
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench_run.engines import numpy_engine
from bench_run.engines.base import Availability, EngineSpec, ModuleAbilities, PlanAbilities

NAME = "hostile"
SUMMARY = "misbehaves on request; for tests"
INSTALL = "nothing to install"

_leaked = []


def probe():
    return Availability(True, "always there")


def preload(spec):
    if spec.id == "hang-preload":
        time.sleep(1000)
    return "fork" in spec.options


ABILITIES = ModuleAbilities(preload=preload)


def open(spec, options):  # noqa: A001 - the protocol's name
    if spec.id == "exit-on-open":
        os._exit(7)
    if spec.id == "blocks-on-open":
        _block(None)
    inner = numpy_engine.open(EngineSpec("numpy", "numpy"), replace(options, replay=False))
    return Hostile(spec.id or "fine", inner, options.replay)


class Hostile:
    def __init__(self, way, engine, replay=False):
        self.way = way
        self.replay = replay
        self.engine = engine
        self.facts = engine.facts
        self.stream = engine.stream

    def variants(self, graph):
        if self.way == "all":
            return {"plan": "quick"}, {"plan": "stuck"}
        return self.engine.variants(graph)

    def build(self, graph, variant):
        if self.way == "hang-build" or variant.get("plan") == "stuck":
            time.sleep(1000)
        return graph, self.engine.build(graph, variant)

    def plan(self, built):
        graph, inner = built
        if self.way == "hang-plan":
            time.sleep(1000)
        return HostilePlan(self.way, graph, self.engine.plan(inner), self.replay)

    def peak_bytes(self):
        return self.engine.peak_bytes()

    def close(self):
        self.engine.close()


class HostilePlan:
    def __init__(self, way, graph, plan, replay=False):
        self.replay = replay
        self.way = way
        self.graph = graph
        self.plan = plan
        self.facts = plan.facts
        self.runs = 0
        self.answer = self.key = None
        self.inputs = {}
        self.poison, self.close = plan.poison, plan.close
        self.locate_outputs = plan.locate_outputs
        self.changed_inputs = plan.changed_inputs

    @property
    def abilities(self):
        told = PlanAbilities(changed_inputs=self.changed_inputs)
        if self.way in LAZY_OUT_OF_REACH or self.way in WRONG:
            return told  # what it gives away is what it downloads
        return replace(told, locate_outputs=self._locate_outputs)

    def _locate_outputs(self, *, upcoming):
        """As some ways of being cunning change it meanwhile."""
        return self.locate_outputs(upcoming=upcoming)

    def upload(self, inputs):
        self.inputs = inputs
        self.plan.upload(inputs)

    def run(self):
        self.runs += 1
        MISDEEDS.get(self.way, lambda _: None)(self)
        if self.way in CUNNING and CUNNING[self.way](self):
            return
        lazy = LAZY.get(self.way.removesuffix("-out-of-reach"))
        if self.way != "unwritten" and not (lazy and lazy(self)):
            self.plan.run()

    def download(self):
        outputs = self.plan.download()
        if self.way == "wrong" or (self.way == "wrong-later" and self.runs > 3):
            for storage in outputs.values():
                storage[storage.size // 2] += 1
        if self.way == "one-element":
            _one_element(outputs)
        if self.way == "bias":
            outputs = {uid: np.nextafter(s, s.dtype.type(np.inf)) for uid, s in outputs.items()}
        if self.way == "half-sums":
            outputs = {self.graph.outputs[0].uid: self._half_sums()}
        return outputs

    def _half_sums(self):
        """The product of two row-major half matrices, added up in half."""
        a, b = (self.inputs[t.uid].reshape(t.dims) for t in self.graph.inputs)
        total = np.zeros((a.shape[0], b.shape[1]), np.float16)
        for k in range(a.shape[1]):
            total = total + a[:, k : k + 1] * b[k : k + 1]
        return total.reshape(-1)


def _one_element(outputs):
    """The last element of the first output, off by 64 units in its last place."""
    storage = next(iter(outputs.values()))
    storage[-1] += 64 * np.spacing(storage[-1])


def _flood(_):
    for _ in range(2000):
        sys.stderr.write("x" * 1000 + "\n")
    sys.stderr.write("my last words\n")
    os._exit(3)


def _spawn(_):
    """Starts a program once, as a compiler daemon would be."""
    if not _leaked:
        _leaked.append(subprocess.Popen(["sleep", "86399"]))


def _grow(_):
    """Takes a quarter of a gigabyte again and again, and never gives it back."""
    while True:
        _leaked.append(np.ones(1 << 25))


def _spawn_and_die(plan):
    _spawn(plan)
    os._exit(3)


def _daemon(_):
    """Starts a program once that leaves the session, the environment and its parent behind."""
    if _leaked:
        return
    middle = os.fork()
    if middle == 0:
        subprocess.Popen(["sleep", "86399"], start_new_session=True, env={})
        os._exit(0)
    os.waitpid(middle, 0)
    _leaked.append(middle)


def _daemon_and_die(plan):
    _daemon(plan)
    os._exit(3)


def _fork(_):
    if os.fork() == 0:
        time.sleep(30)  # holds every descriptor of its parent
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_template(_):
    """What this process was forked from, if it was: its guardian was too."""
    import psutil

    parents = psutil.Process().parents()
    forked = [each for each in parents if "bench_run.worker.life" in each.cmdline()]
    if forked:
        forked[-1].kill()
        time.sleep(30)


def _pipes():
    """The sockets of this process: one of them leads to the run."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                found.append(int(name))
        except OSError:
            continue
    return found


def _say(data):
    def say(_):
        for descriptor in _pipes():
            os.write(descriptor, data)
        time.sleep(0.1)

    return say


def _say_and_hang(data):
    return lambda plan: (_say(data)(plan), time.sleep(1000))


def _flood_with_messages(_):
    """Says for ever that a phase begins."""
    from bench_run.worker.messages import PhaseStarted
    from bench_run.worker.wire import encode

    data = encode(PhaseStarted("measure"))
    while True:
        for descriptor in _pipes():
            os.write(descriptor, len(data).to_bytes(4, "big") + data)


class _Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["HOSTILE_BOMB"],)


def _bomb(plan):
    data = pickle.dumps(_Bomb())
    _say(len(data).to_bytes(4, "big") + data)(plan)


def _fork_and_return(plan):
    if plan.runs == 1:
        os.fork()


def _raise(_):
    raise ValueError("a bug of the engine")


def _fails_silently(plan):
    """A launch fails once, and no launch after it does anything."""
    return plan.runs > 17


def _scribbles(plan):
    """Computes in the memory of an input."""
    graph = plan.graph
    plan.plan.run()
    inner = plan.plan.homes[graph.inputs[0].uid]
    inner[...] = inner + 1
    return True


def _block(_):
    """Puts a file where a folder is, and a folder where none is, once."""
    path = Path(os.environ["HOSTILE_BLOCKS"])
    if path.is_file() or _leaked:
        return
    _leaked.append(path)
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("")
    else:
        path.mkdir()


def _half(plan):
    """Computes the first half of the output, the rest is left as it was."""
    graph = plan.graph
    home = plan.plan.homes[graph.outputs[0].uid]
    kept = home.copy()
    plan.plan.run()
    home[home.size // 2 :] = kept[home.size // 2 :]
    return plan.runs > 0


def _home(plan):
    return plan.plan.homes[plan.graph.outputs[0].uid]


def _remember(plan):
    """Copies its first answer."""
    if plan.answer is None:
        plan.plan.run()
        plan.answer = _home(plan).copy()
    _home(plan)[...] = plan.answer
    return True


def _patch_the_judge(plan):
    """Is wrong by one percent, and replaces what compares outputs in this process."""
    from bench_run.validate import outputs

    honest = outputs._difference
    outputs._difference = lambda _flat, expected, *rest: honest(
        expected.astype(_flat.dtype), expected, *rest
    )
    plan.plan.run()
    _home(plan)[...] *= 1.01
    return True


def _widen_threads(plan):
    """Works on all processors of the machine, however few it was given."""
    os.sched_setaffinity(0, range(os.cpu_count()))
    block = bytes(1 << 23)

    def work():
        os.sched_setaffinity(0, range(os.cpu_count()))
        hashlib.sha256(block)  # other threads may run meanwhile

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return False


CUNNING = {
    "remembers": _remember,
    "patches-the-judge": _patch_the_judge,
    "widens-its-threads": _widen_threads,
}
"""Ways of looking right; true: nothing more is to be done."""
LAZY = {
    "lazy-after-the-first": lambda plan: plan.runs > 1,
    "lazy-every-second": lambda plan: plan.runs % 2 == 0,
    "lazy-every-tenth": lambda plan: plan.runs % 10 == 0,
    "lazy-at-random": lambda plan: plan.runs > 1 and random.random() < 0.1,
    "lazy-from-the-twelfth": lambda plan: plan.runs >= 12,
    "lazy-only-when-timed": lambda plan: 12 <= plan.runs < 30,
    "lazy-after-a-failure": _fails_silently,
    "lazy-in-half": _half,
    "lazy-under-replay": lambda plan: plan.replay and plan.runs > 1,
    "lazy-in-bursts": lambda plan: plan.runs % 20 in (13, 14),
    "lazy-last-iterations": lambda plan: plan.runs > 28,
    "scribbles": _scribbles,
}
"""Ways of doing nothing, by the number of the run; true: this run is left out."""
WRONG = ("wrong", "wrong-later", "one-element", "bias", "half-sums")
"""Ways of downloading what was not computed."""
LAZY_OUT_OF_REACH = tuple(f"{way}-out-of-reach" for way in LAZY)
"""The same by an engine that does not say where its outputs lie."""

MISDEEDS = {
    "half-a-message": _say_and_hang(b"\0\0"),
    "long-message": _say_and_hang((1000).to_bytes(4, "big") + b"x"),
    "endless-message": _say_and_hang(b"\xff" * 8),
    "noise": _say(bytes(range(255, -1, -1)) * 8),
    "no-such-message": _say(b"\0\0\0\x02\x93\xc0"),
    "bomb": _bomb,
    "messages-without-end": _flood_with_messages,
    "fork-and-return": _fork_and_return,
    "spawn": _spawn,
    "spawn-and-die": _spawn_and_die,
    "daemon": _daemon,
    "daemon-and-die": _daemon_and_die,
    "daemon-and-hang": lambda plan: (_daemon(plan), time.sleep(1000)),
    "segfault": lambda _: ctypes.string_at(0),
    "abort": lambda _: os.abort(),
    "exit0": lambda _: os._exit(0),
    "sys-exit": lambda _: sys.exit(0),
    "hang": lambda _: time.sleep(1000),
    "flood": _flood,
    "fork": _fork,
    "kill-template": _kill_template,
    "bug": _raise,
    "grow": _grow,
    "memory": lambda _: (_ for _ in ()).throw(MemoryError("no more")),
    "print": lambda _: print("noise on stdout", flush=True),
    "locale": lambda _: locale.setlocale(locale.LC_ALL, "C"),
    "leak": lambda _: _leaked.append(os.open(os.devnull, os.O_RDONLY)),
    "close-descriptors": lambda _: os.closerange(3, 64),
    "blocks": _block,
    "slow": lambda _: time.sleep(0.002),
}
