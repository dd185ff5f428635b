"""Sets of inputs differ where they should, keep to the rules of the data, and are the same wherever
they are made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench_run.graph.make import make_graphs
from bench_run.tensors.data import Data, inputs_of
from bench_run.tensors.layout import logical_view, same_bytes
from bench_run.tensors.rotation import input_sets, most_sets


def sets_of(op, data=None):
    graph = make_graphs(op)[0]
    data = data or Data(0)
    return graph, input_sets(graph, data, inputs_of(graph, data))


def differing(graph, usual, other):
    views = ((logical_view(usual[t.uid], t), logical_view(other[t.uid], t)) for t in graph.inputs)
    return [float(np.mean(a != b)) for a, b in views]


def test_the_sets_differ_everywhere_in_a_quarter_and_in_a_few_elements():
    graph, (usual, *others) = sets_of("add: dims=128x256 dtype=float")
    found = [differing(graph, usual, other) for other in others]
    assert [1.0] * 2 == pytest.approx(found[0], abs=1e-3)
    assert [0.25] * 2 == pytest.approx(found[1], abs=1e-3)
    assert [1 / 512] * 2 == pytest.approx(found[2], abs=1e-4)


def test_each_input_keeps_its_values():
    graph, (usual, moved, *_) = sets_of("matmul: m=16 n=8 k=24 dtype=half")
    for tensor in graph.inputs:
        assert np.array_equal(np.sort(usual[tensor.uid]), np.sort(moved[tensor.uid]))


def test_gaps_between_elements_stay_as_they_are():
    graph = make_graphs("relu_fwd: dims=8x6 dtype=float")[0]
    wide = tuple(replace(t, strides=(9, 1)) for t in graph.tensors)
    graph = replace(graph, tensors=wide)
    inputs = inputs_of(graph, Data(0))
    (tensor,) = graph.inputs
    inputs[tensor.uid][:] = -7.0  # in the gaps
    logical_view(inputs[tensor.uid], tensor)[...] = np.arange(48.0).reshape(8, 6)
    usual, moved, *_ = input_sets(graph, Data(0), inputs)
    assert (usual[tensor.uid] == -7.0).tolist() == (moved[tensor.uid] == -7.0).tolist()
    assert 1.0 == differing(graph, usual, moved)[0]


def test_inputs_that_follow_from_one_another_are_drawn_together():
    graph, (_, *others) = sets_of("batchnorm_bwd: n=2 c=3 h=4 w=4 dtype=float")
    assert 3 == len(others)
    for place, other in enumerate(others, 1):
        again = inputs_of(graph, Data(place))
        assert all(same_bytes(again[uid], other[uid]) for uid in other)


def test_the_same_sets_are_made_everywhere():
    _, first = sets_of("conv_fwd: n=1 c=4 h=8 w=8 k=4 r=3 s=3 pad=1 dtype=float")
    _, again = sets_of("conv_fwd: n=1 c=4 h=8 w=8 k=4 r=3 s=3 pad=1 dtype=float")
    for one, other in zip(first, again, strict=True):
        assert all(same_bytes(one[uid], other[uid]) for uid in one)


def test_where_all_values_are_equal_there_is_one_set():
    _, sets = sets_of("add: dims=8x8 dtype=float", Data(0, ("constant:1",)))
    assert 1 == len(sets)


@pytest.mark.parametrize(
    ("op", "count"),
    [
        ("add: dims=64x64 dtype=float", 4),
        ("add: dims=4096x4096 dtype=float", 2),
        ("add: dims=32768x32768 dtype=float", 1),
        ("matmul: m=2048 n=2048 k=2048 dtype=half", 2),
        ("matmul: m=8192 n=8192 k=8192 dtype=half", 2),
    ],
)
def test_large_inputs_and_long_references_have_fewer_sets(op, count):
    assert count == most_sets(make_graphs(op)[0])
