"""Ways of an engine that wants to look right without working. Each is called in place of a run,
with the plan; true means that nothing more is to be done."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import tempfile
import threading
import time

import numpy as np


def _home(plan):
    return plan.plan.homes[plan.graph.outputs[0].uid]


def _work(plan):
    plan.plan.run()
    plan.answer = _home(plan).copy()


def remember(plan):
    """Copies its first answer."""
    if plan.answer is None:
        _work(plan)
    else:
        _home(plan)[...] = plan.answer
    return True


def remember_by_content(plan):
    """Copies its answer for as long as the inputs are what they were."""
    homes = plan.plan.homes
    key = hashlib.sha256(b"".join(homes[t.uid].tobytes() for t in plan.graph.inputs)).digest()
    if plan.key != key:
        plan.key = key
        _work(plan)
    _home(plan)[...] = plan.answer
    return True


def mend(plan):
    """Writes only those elements that somebody changed since."""
    if plan.answer is None:
        _work(plan)
    home = _home(plan)
    changed = np.flatnonzero(home.view(np.uint32) != plan.answer.view(np.uint32))
    home[changed] = plan.answer[changed]
    return True


def watch(plan):
    """Works only where somebody changed its outputs."""
    if plan.answer is None or not np.array_equal(_home(plan), plan.answer):
        _work(plan)
    return True


def leave_to_a_thread(plan):
    """Returns before the work is done."""
    threading.Thread(target=lambda: (time.sleep(0.002), plan.plan.run())).start()
    return plan.runs > 1


def change_and_restore_inputs(plan):
    """Computes with an input that is easier."""
    home = plan.plan.homes[plan.graph.inputs[0].uid]
    before = home.copy()
    home[...] = 0
    plan.plan.run()
    home[...] = before
    return True


def reallocate(plan):
    """Moves its outputs after the first run; those it told of stay as they are."""
    if plan.runs == 1:
        _work(plan)
        old = {t.uid: plan.plan.homes[t.uid].copy() for t in plan.graph.outputs}
        plan.locate_outputs = lambda *, upcoming: old
        return True
    return False


def decoy(plan):
    """Tells of memory that it fills with its first answer, and gives that out."""
    if plan.answer is None:
        _work(plan)
        plan.decoy = plan.answer.copy()
        uid = plan.graph.outputs[0].uid
        plan.locate_outputs = lambda *, upcoming: {uid: plan.decoy}
    plan.decoy[...] = plan.answer
    _home(plan)[...] = plan.answer
    return True


def _readable(path):
    # Other runs of this machine write and remove their files meanwhile.
    with contextlib.suppress(OSError, ValueError, EOFError):
        yield np.load(path).reshape(-1)


def find_expected(plan):
    """Looks for what it is compared with."""
    if plan.answer is None:
        _work(plan)
    scratch = glob.glob(f"{tempfile.gettempdir()}/bench-run-*/outputs/*/*.npy")
    found = [array for path in scratch for array in _readable(path)]
    same_size = [array for array in found if array.size == plan.answer.size]
    fitting = [array for array in same_size if np.allclose(array, plan.answer, atol=1e-3)]
    _home(plan)[...] = (fitting or [plan.answer])[0]
    return True


def stop_the_clock(plan):
    """Replaces the clock of the module `time`, and takes two milliseconds."""
    time.perf_counter_ns = lambda: 0
    time.perf_counter = lambda: 0.0
    time.sleep(0.002)
    return False


def patch_the_judge(plan):
    """Is wrong by one percent, and replaces what compares outputs in this process."""
    from bench_run.validate import outputs

    honest = outputs._difference
    outputs._difference = lambda _flat, expected, *rest: honest(
        expected.astype(_flat.dtype), expected, *rest
    )
    plan.plan.run()
    _home(plan)[...] *= 1.01
    return True


def widen_threads(plan):
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
    "widens-its-threads": widen_threads,
    "patches-the-judge": patch_the_judge,
    "remembers": remember,
    "remembers-by-content": remember_by_content,
    "mends": mend,
    "watches": watch,
    "leaves-to-a-thread": leave_to_a_thread,
    "restores-inputs": change_and_restore_inputs,
    "reallocates": reallocate,
    "decoy": decoy,
    "finds-expected": find_expected,
    "stops-the-clock": stop_the_clock,
}
