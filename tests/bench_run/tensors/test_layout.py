import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.check import distinct_elements
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.model import Tensor
from bench_run.tensors.layout import (
    empty_storage,
    logical_view,
    memory_order,
    storage_size,
    to_storage,
)

ARRAY_TYPES = [name for name, row in DTYPES.items() if row.array_type is not None]


@st.composite
def tensors(draw, data_types=ARRAY_TYPES):
    """Any permuted, padded layout whose elements do not overlap."""
    dims = tuple(draw(st.lists(st.integers(1, 5), max_size=5)))
    strides, step = [0] * len(dims), 1
    for axis in draw(st.permutations(range(len(dims)))):
        strides[axis] = step + draw(st.integers(0, 2))
        step = strides[axis] * dims[axis]
    return Tensor(3, "t", draw(st.sampled_from(data_types)), dims, tuple(strides))


@given(tensors())
def test_a_logical_array_survives_the_way_into_a_storage_and_back(tensor):
    bits = np.arange(tensor.elements) % 120
    array = bits.astype(np.uint8).astype(empty_storage(tensor).dtype).reshape(tensor.dims)
    assert array.tobytes() == logical_view(to_storage(array, tensor), tensor).tobytes()


@given(tensors(data_types=["half", "fp8_e5m2", "int8"]))
def test_every_element_lies_where_its_strides_say(tensor):
    storage = to_storage(np.ones(tensor.dims), tensor)
    indices = itertools.product(*(range(dim) for dim in tensor.dims))
    places = [sum(i * s for i, s in zip(index, tensor.strides, strict=True)) for index in indices]
    assert sorted(places) == np.flatnonzero(storage.astype(np.float32)).tolist()


@given(tensors())
def test_layouts_drawn_without_overlap_keep_their_elements_apart(tensor):
    assert distinct_elements(tensor)


def test_a_view_shares_the_memory_of_its_storage():
    tensor = Tensor(0, "x", "half", (2, 3), (1, 2))
    storage = empty_storage(tensor)
    logical_view(storage, tensor)[1, 2] = 7
    assert storage[1 + 2 * 2] == 7


def test_a_view_of_a_read_only_storage_is_read_only():
    tensor = Tensor(0, "x", "float", (2,), (1,))
    storage = empty_storage(tensor)
    storage.flags.writeable = False
    assert not logical_view(storage, tensor).flags.writeable


@pytest.mark.parametrize("storage", [np.zeros(5, "f4"), np.zeros(6, "f8"), np.zeros((2, 3), "f4")])
def test_a_storage_that_does_not_fit_is_refused_by_the_tensors_name(storage):
    with pytest.raises(ValueError, match=r"x \(uid 9\): expected 6 elements of float32"):
        logical_view(storage, Tensor(9, "x", "float", (2, 3), (3, 1)))


def test_dims_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"expected dims \(2, 3\), got \(3, 2\)"):
        to_storage(np.zeros((3, 2)), Tensor(9, "x", "float", (2, 3), (3, 1)))


def test_types_of_uncertain_packing_are_refused():
    with pytest.raises(UnsupportedGraphError, match="packing of fp4_e2m1"):
        empty_storage(Tensor(1, "", "fp4_e2m1", (4,), (1,)))


def test_an_empty_tensor_has_an_empty_storage():
    tensor = Tensor(1, "", "float", (0, 4), (4, 1))
    assert (storage_size(tensor), logical_view(empty_storage(tensor), tensor).shape) == (0, (0, 4))


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2", "fp8_e4m3_fnuz", "fp8_e5m2_fnuz"])
def test_eight_bit_floats_saturate(name):
    tensor = Tensor(1, "", name, (2,), (1,))
    largest = DTYPES[name].largest
    assert [largest, -largest] == to_storage(np.array([1e30, -1e30]), tensor).astype("f4").tolist()


def test_memory_is_walked_from_the_largest_stride_down():
    assert memory_order((60, 1, 15, 3)) == (0, 2, 3, 1)
