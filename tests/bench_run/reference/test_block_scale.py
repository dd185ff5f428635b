"""Block-scaled quantisation and back, by hand and as a round trip."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import UnsupportedGraphError
from tests.support import examples

DEQUANTIZE, QUANTIZE = "BlockScaleDequantizeAttributes", "BlockScaleQuantizeAttributes"


def test_each_element_is_multiplied_by_the_scale_of_its_block(run_node):
    x = np.arange(10.0).reshape(2, 5)
    scale = np.array([[1.0, 10.0, 100.0], [2.0, 4.0, 8.0]])
    y = run_node(DEQUANTIZE, {"x": x, "scale": scale}, {"y": (2, 5)}, block_size=(2,))["y"]
    assert y.tolist() == [[0, 1, 20, 30, 400], [10, 12, 28, 32, 72]]


def test_block_sizes_apply_to_the_trailing_axes(run_node):
    x = np.ones((3, 2))
    scale = np.array([[1.0, 2.0], [3.0, 4.0]])
    y = run_node(DEQUANTIZE, {"x": x, "scale": scale}, {"y": (3, 2)}, block_size=(2, 1))["y"]
    assert y.tolist() == [[1, 2], [1, 2], [3, 4]]


def test_negative_scales_are_exponents(run_node):
    inputs = {"x": np.array([8.0, 8.0]), "scale": np.array([3.0])}
    y = run_node(DEQUANTIZE, inputs, {"y": (2,)}, block_size=(2,), is_negative_scale=True)["y"]
    assert y.tolist() == [1.0, 1.0]


def test_scales_of_type_e8m0_are_powers_of_two(run_node):
    scale = np.array([126, 127, 130], np.uint8).view(ml_dtypes.float8_e8m0fnu)
    inputs = {"x": np.ones(3, ml_dtypes.float8_e4m3fn), "scale": scale}
    y = run_node(DEQUANTIZE, inputs, {"y": ((3,), "float")}, block_size=(1,))["y"]
    assert y.tolist() == [0.5, 1.0, 8.0]


def quantized(run_node, x, scale_type="fp8_e8m0", **more):
    x = np.asarray(x)
    axis = more.get("axis", x.ndim - 1)
    block = more["block_size"]
    dims = tuple(-(-n // block) if i == axis else n for i, n in enumerate(x.shape))
    outputs = {"y": (x.shape, "fp8_e4m3"), "scale": (dims, scale_type)}
    return run_node(QUANTIZE, {"x": x}, outputs, **more)


def test_the_scale_is_the_next_power_of_two_that_fits_the_block(run_node):
    got = quantized(run_node, [448.0, 1.0, 449.0, 2.0, 0.0, 0.0], block_size=2)
    assert got["scale"].tolist() == [1.0, 2.0, 2.0**-127]
    assert got["y"].tolist() == [448.0, 1.0, 224.5, 1.0, 0.0, 0.0]


def test_a_block_of_zeros_with_a_float_scale_stays_zero(run_node):
    got = quantized(run_node, [0.0, 0.0], "float", block_size=2)
    assert (got["scale"].tolist(), got["y"].tolist()) == ([0.0], [0.0, 0.0])


def test_blocks_lie_along_the_axis(run_node):
    got = quantized(run_node, [[448.0, 1.0], [896.0, 2.0], [1.0, 4.0]], axis=0, block_size=2)
    assert got["scale"].tolist() == [[2.0, 2.0**-7], [2.0**-8, 2.0**-6]]


@settings(max_examples=examples(30), deadline=None)
@given(
    values=st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=70),
    block=st.integers(1, 33),
    scale_type=st.sampled_from(["fp8_e8m0", "float", "half"]),
)
def test_dequantising_gives_back_what_was_quantised(values, block, scale_type, run_node):
    x = np.array(values)
    got = quantized(run_node, x, scale_type, block_size=block)
    assert np.abs(got["y"]).max() <= 448.0
    inputs = {"x": got["y"], "scale": got["scale"]}
    back = run_node(DEQUANTIZE, inputs, {"y": x.shape}, block_size=(block,))["y"]
    np.testing.assert_allclose(back, x, rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize(
    ("more", "words"),
    [({"block_size": 2, "transpose": True}, "transpose"), ({"block_size": 2, "axis": 3}, "axis 3")],
)
def test_quantising_without_a_certain_meaning_is_refused(run_node, more, words):
    with pytest.raises(UnsupportedGraphError, match=words) as caught:
        quantized(run_node, [1.0, 2.0], **more)
    assert QUANTIZE in str(caught.value)


def test_a_scale_of_other_dims_is_refused(run_node):
    inputs = {"x": np.ones(4), "scale": np.ones(3)}
    with pytest.raises(UnsupportedGraphError, match="needs") as caught:
        run_node(DEQUANTIZE, inputs, {"y": (4,)}, block_size=(2,))
    assert DEQUANTIZE in str(caught.value)
