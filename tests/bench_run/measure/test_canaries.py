"""What is written right before an iteration: canaries in outputs, one new value in an input."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import bench_run
from bench_run.graph.make import make_graphs
from bench_run.measure.canaries import CANARY_BYTES, HostCanaries, find_places
from bench_run.tensors.layout import fill_with_poison, storage_size, storage_type


class Plan:
    def __init__(self, size=64):
        self.x, self.y = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)

    def locate(self, *, upcoming):
        return {2: self.y[:]}  # a new view each time, as PyTorch's are

    def canaries(self):
        inputs = {1: self.x.view(np.uint8)}
        return HostCanaries(self.locate, {2: [0, 8, 64]}, inputs, {1: 4}, Random(0))


def test_a_run_that_writes_its_output_leaves_no_canary():
    plan = Plan()
    canaries = plan.canaries()
    for _ in range(9):
        canaries.before()
        canaries.touch()
        plan.y[...] = 1
        canaries.after()
    assert (9, 0) == (canaries.looked, canaries.untouched)


def test_a_run_that_writes_nothing_leaves_the_canary():
    plan = Plan()
    canaries = plan.canaries()
    for _ in range(9):
        canaries.before()
        canaries.touch()
        canaries.after()
    assert (9, 9) == (canaries.looked, canaries.untouched)


def test_no_two_iterations_have_the_same_inputs():
    plan = Plan(4096)
    canaries, seen = plan.canaries(), set()
    for _ in range(50):
        canaries.before()
        canaries.touch()
        seen.add(plan.x.tobytes())
    assert len(seen) > 45


def test_one_element_of_the_inputs_differs_and_they_are_restored():
    plan = Plan(4096)
    usual, canaries = plan.x.copy(), plan.canaries()
    for _ in range(50):
        canaries.before()
        canaries.touch()
        assert (plan.x != usual).sum() <= 1
    canaries.restore()
    assert np.array_equal(usual, plan.x)


GRAPHS = [
    ("relu_fwd: dims=8x8 dtype=float", True),
    ("add: dims=4x16 dtype=half", True),
    ("relu_fwd: dims=1x1 dtype=float", False),
]


@pytest.mark.parametrize(("op", "has"), GRAPHS)
def test_canaries_lie_within_what_was_written(op, has):
    (tensor,) = make_graphs(op)[0].outputs
    storage = np.zeros(storage_size(tensor), storage_type(tensor))
    places = find_places(tensor, storage, np.random.default_rng(0))
    assert has == bool(places)
    assert all(0 <= at <= storage.nbytes - CANARY_BYTES for at in places)


def test_what_an_engine_leaves_alone_by_right_is_not_watched():
    (tensor,) = make_graphs("relu_fwd: dims=8x8 dtype=float")[0].outputs
    storage = np.zeros(storage_size(tensor), storage_type(tensor))
    fill_with_poison(storage, tensor.data_type)
    assert [] == find_places(tensor, storage, np.random.default_rng(0))


def test_outputs_that_rightly_do_not_follow_the_inputs_pass():
    document = bench_run.run(
        [],
        op=["gen_index: dims=8x8 axis=1", "cmp_gt: dims=4x4"],
        engine=["numpy"],
        init=["constant:1"],
        rounds=1,
        iterations=2,
    )
    assert {"passed"} == {case.validation.status for case in document.cases}
