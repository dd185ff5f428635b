"""Views say where each element lies, whatever was done to their shape."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench_run.models.model import contiguous, permuted, placed, reshaped, sliced


def elements(view):
    """Places in memory of all elements, in order."""
    atoms = [part for axis in view.axes for part in axis]
    ranges = (range(length) for length, _ in atoms)
    return [
        view.offset + sum(i * s for i, (_, s) in zip(index, atoms, strict=True))
        for index in itertools.product(*ranges)
    ]


DIMS = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4).map(tuple)


def shapes_of(size):
    """Lists of lengths with this product."""
    divisors = [d for d in range(1, size + 1) if size % d == 0]

    @st.composite
    def draw_shape(draw):
        left, found = size, []
        while left > 1 and len(found) < 4:
            found.append(draw(st.sampled_from([d for d in divisors if left % d == 0])))
            left //= found[-1]
        return (*found, left)

    return draw_shape()


@given(st.data(), DIMS)
def test_views_are_those_of_numpy(data, dims):
    """After any reshapes, transpositions and slices."""
    array = np.arange(int(np.prod(dims))).reshape(dims)
    view = placed("x", "a", dims, contiguous(dims))
    for _ in range(4):
        kind = data.draw(st.sampled_from(["reshape", "permute", "slice"]))
        if kind == "reshape":
            shape = data.draw(shapes_of(array.size))
            found = reshaped(view, shape)
            made = array.reshape(shape)
        elif kind == "permute":
            order = tuple(data.draw(st.permutations(range(array.ndim))))
            found, made = permuted(view, order), array.transpose(order)
        else:
            axis = data.draw(st.integers(0, array.ndim - 1))
            start = data.draw(st.integers(0, array.shape[axis] - 1))
            length = data.draw(st.integers(1, array.shape[axis] - start))
            found = sliced(view, axis, start, length)
            made = array[(slice(None),) * axis + (slice(start, start + length),)]
        if found is None:
            return
        view, array = found, made
        assert (array.shape, array.reshape(-1).tolist()) == (view.dims, elements(view))


def test_heads_of_a_packed_projection_need_no_copy():
    """[S, B, 3·E] as PyTorch's attention takes it apart, with S and B swapped in memory."""
    s, b, h, d = 5, 2, 4, 8
    memory = permuted(placed("y", "qkv", (b, s, 3 * h * d), (s * 96, 96, 1)), (1, 0, 2))
    apart = permuted(reshaped(memory, (1, s, b, 3, h * d)), (3, 1, 2, 0, 4))
    key = reshaped(sliced(apart, 0, 1, 1), (s, b * h, d))
    heads = reshaped(permuted(key, (1, 0, 2)), (b, h, s, d))
    assert ((s * 96, d, 96, 1), h * d) == (heads.strides, heads.offset)


def test_an_axis_of_several_has_no_stride():
    turned = permuted(placed("x", "a", (2, 3), (3, 1)), (1, 0))
    assert reshaped(turned, (6,)).strides is None


def test_axes_that_cut_across_are_refused():
    assert reshaped(permuted(placed("x", "a", (4, 3), (3, 1)), (1, 0)), (2, 6)) is None
