"""A case whose large tensors hold one value has a note that says so."""

from __future__ import annotations

import numpy as np
import pytest

from bench_run.tensors.uniform import uniform_notes
from tests.conformance.sketch import Sketch

SIZE = 1 << 19


def notes_of(x, y, size=SIZE):
    s = Sketch("relu", "float")
    a, b = s.tensor(1, size), s.tensor(1, size)
    graph = s.node("PointwiseAttributes", {"in_0": a}, {"out_0": b}, operation="relu_fwd").graph()
    return uniform_notes(graph, {a: x}, {b: y})


def random(size=SIZE):
    return np.random.default_rng(0).standard_normal(size).astype(np.float32)


def test_a_constant_output_is_named():
    (note,) = notes_of(random(), np.zeros(SIZE, np.float32))
    assert note.startswith("output ")
    assert "100 % of it is 0.0; memory that compresses makes this faster" in note


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_saturated_output_is_named(value):
    (note,) = notes_of(random(), np.where(np.arange(SIZE) % 51, value, 1).astype(np.float32))
    assert f"98 % of it is {value}" in note


def test_a_constant_input_is_named():
    (note,) = notes_of(np.ones(SIZE, np.float32), random())
    assert note.startswith("input ")


def test_half_zeros_as_a_relu_leaves_them_are_nothing_to_name():
    assert notes_of(random(), np.maximum(random(), 0)) == ()


def test_a_tensor_that_fits_into_a_cache_is_not_named():
    assert notes_of(np.ones(64, np.float32), np.ones(64, np.float32), size=64) == ()
