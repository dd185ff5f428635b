"""Chains that are replayed: a gap between kernels of a graph, another between graphs, both planted.

Every row is measured by the functions that measure on a device, on one whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from bench_run.measure.kernel_pass import Recorded, choose_clock
from bench_run.measure.loop import Measured
from bench_run.streams.cupti import KernelRecord
from tests.bench_compare import build
from tests.bench_compare.compose import worlds
from tests.bench_run.measure.replayed import Device, DevicePlan

INNER, BETWEEN = 290, 910
STEP = 32
"""Of the clock behind the records."""
NAMES = [f"l{n}" for n in range(12)]
KERNELS = {name: (9000 + 700 * n,) if n % 3 else (5000, 1200 + n) for n, name in enumerate(NAMES)}


def seams(kernels):
    """What caches make of a kernel that follows its writer: of the reader's first one."""
    return {name: int(0.02 * kernels[name][0]) for name in NAMES[1:]}


def of_pair(writer, reader):
    first, *rest = KERNELS[reader]
    return (*KERNELS[writer], first + seams(KERNELS)[reader], *rest)


def device_rounds(kernels, states, noise, generator, refuses=False):
    """As a case's rounds have it: records by steps of the clock, gaps from queues. `refuses`: no
    graph of several executions can be captured."""
    found = []
    for index, state in enumerate(states):
        real = [k * state * np.exp(generator.normal(0, noise)) for k in kernels]
        device = Device(INNER, BETWEEN, refuses=refuses)
        groups, at = [], 0
        for _ in range(5):
            group = []
            for name, duration in enumerate(real):
                recorded = STEP * round((duration + generator.uniform(-STEP, STEP) / 2) / STEP)
                group.append(KernelRecord(f"k{name}", at, at + recorded))
                at += recorded + 400  # recording stretches the gaps
            groups.append(group)
        events = Recorded(Measured({}, {"device_ns": [1] * 5}, "iterations"))
        stated = choose_clock(DevicePlan(device, real), device, events, groups, flushes=False)
        one = build.round_(index, {"device_ns": stated.measured.series["device_ns"]})
        found.append(replace(one, device_bound_ns=stated.bound_ns, device_timing="kernel records"))
    return found


def replayed_world():
    return worlds.World({name: {"e": sum(KERNELS[name])} for name in NAMES})


def cases(states, noise, generator, refuses=False):
    world = replayed_world()
    for made in worlds.parts(world).cases:
        if made.graph.layers:
            pair = made.graph.name.partition(":")[2].split("+")
            kernels = of_pair(*pair)
        else:
            kernels = KERNELS[made.graph.name]
        yield replace(made, rounds=tuple(device_rounds(kernels, states, noise, generator, refuses)))


def whole():
    """Kernels of the chain."""
    found = list(KERNELS[NAMES[0]])
    for writer, reader in pairwise(NAMES):
        found += of_pair(writer, reader)[len(KERNELS[writer]) :]
    return found


def truth():
    """One graph: every kernel, a gap less than kernels, no gap between graphs."""
    return sum(whole()) + (len(whole()) - 1) * INNER


def predicted(folder, noise, states, seed):
    generator = np.random.default_rng(seed)
    document = build.document(list(cases(states, noise, generator)))
    return worlds.composed(replayed_world(), folder, document).chosen.time


def test_the_gap_between_graphs_is_in_no_prediction(tmp_path):
    found = predicted(tmp_path, 0.0, (1.0,) * 3, 1)
    assert found.value == pytest.approx(truth(), rel=2e-3)
    wrong = (len(NAMES) - 1) * (BETWEEN - INNER) / 2  # each pair's gap as the mean of both
    assert abs(found.value - truth()) < wrong / 10


@pytest.mark.long
def test_intervals_of_replayed_chains_hold_where_rows_and_rounds_are_noisy(tmp_path):
    """Each document in a state of its own; the clock's bound is part of the interval."""
    held, errors = 0, []
    for seed in range(12):
        states = np.random.default_rng(100 + seed).normal(1, 0.004, 5)
        found = predicted(tmp_path, 0.003, states, seed)
        held += found.low <= truth() <= found.high
        errors.append(abs(np.log(found.value / truth())))
    assert (held >= 11, np.median(errors) < 0.01) == (True, True)
