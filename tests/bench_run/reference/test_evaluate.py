"""Walking a graph: types of results, rounding of intermediates, refusals."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from bench_run.errors import GraphError, UnsupportedGraphError
from bench_run.reference import OPERATIONS, evaluate


def doubled_chain(build, middle_type, virtual, x):
    """y = (x + x) + x with the first sum in a tensor of `middle_type`."""
    b = build()
    uid = b.input(x)
    middle = b.tensor(x.shape, middle_type, virtual=virtual)
    y = b.tensor(x.shape, "float")
    b.node("PointwiseAttributes", {"in_0": uid, "in_1": uid}, {"out_0": middle}, operation="add")
    b.node("PointwiseAttributes", {"in_0": middle, "in_1": uid}, {"out_0": y}, operation="add")
    return b.run(), middle, y


def test_outputs_are_float64_and_not_rounded_to_their_type(run_node):
    x = np.array([1.0], np.float32)
    third = np.array([3.0], np.float32)
    y = run_node(
        "PointwiseAttributes",
        {"in_0": x, "in_1": third},
        {"out_0": ((1,), "half")},
        operation="div",
    )["out_0"]
    assert (y.dtype, y.item()) == (np.float64, 1.0 / 3.0)


@pytest.mark.parametrize(
    ("data_type", "numpy_type"), [("half", np.float16), ("bfloat16", ml_dtypes.bfloat16)]
)
def test_a_virtual_tensor_is_rounded_to_its_own_type(build, data_type, numpy_type):
    x = np.array([1.0009765625 + 2**-20], np.float64)
    results, middle, y = doubled_chain(build, data_type, True, x)
    rounded = float((2 * x).astype(numpy_type).astype(np.float64)[0])
    assert middle not in results
    assert results[y].item() == rounded + x.item()


def test_an_output_read_downstream_is_rounded_for_the_reader_only(build):
    x = np.array([0.1], np.float64)
    results, middle, y = doubled_chain(build, "half", False, x)
    assert results[middle].item() == 0.2
    assert results[y].item() == float(np.float16(0.2)) + 0.1


def test_any_strides_of_the_inputs_give_the_same_result(run_node, normal, permuted):
    x = normal(3, 4, 5)
    for order in range(6):
        y = run_node(
            "PointwiseAttributes",
            {"in_0": permuted(x, order)},
            {"out_0": x.shape},
            operation="exp",
        )["out_0"]
        np.testing.assert_array_equal(y, np.exp(x))


def test_inputs_of_every_array_type_are_read_exactly(run_node):
    values = [0.0, 1.0, 2.0, 4.0]
    types = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
    types += [ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz]
    types += [np.int8, np.uint8, np.int32, np.int64]
    for kind in types:
        x = np.array(values).astype(kind)
        y = run_node(
            "PointwiseAttributes", {"in_0": x}, {"out_0": ((4,), "double")}, operation="identity"
        )["out_0"]
        assert y.tolist() == values


def test_constants_come_from_the_graph_in_their_own_type(build):
    b = build()
    x = b.input(np.zeros(2))
    tenth = b.tensor((1,), "half", value=0.1)
    y = b.tensor((2,))
    b.node("PointwiseAttributes", {"in_0": x, "in_1": tenth}, {"out_0": y}, operation="add")
    assert b.run()[y].tolist() == [float(np.float16(0.1))] * 2


def test_a_float_result_in_an_integer_tensor_loses_its_fraction(run_node):
    x = np.array([2.9, -2.9, np.nan, np.inf])
    y = run_node(
        "PointwiseAttributes", {"in_0": x}, {"out_0": ((4,), "int32")}, operation="identity"
    )["out_0"]
    assert y.dtype == np.int64
    assert y.tolist() == [2, -2, 0, np.iinfo(np.int32).max]


def test_a_missing_input_is_named(build):
    b = build()
    x, y = b.tensor((2,)), b.tensor((2,))
    b.node("PointwiseAttributes", {"in_0": x}, {"out_0": y}, operation="abs")
    with pytest.raises(GraphError, match=r"tensor 0 \(t0\)") as caught:
        b.run()
    assert "no data" in str(caught.value)


def test_data_of_another_shape_is_refused(build):
    b = build()
    x, y = b.tensor((2,)), b.tensor((2,))
    b.node("PointwiseAttributes", {"in_0": x}, {"out_0": y}, operation="abs")
    with pytest.raises(GraphError, match="shape") as caught:
        evaluate(b.graph, {x: np.zeros(3)})
    assert caught.value.where == "tensor 0 (t0)"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"type": "NoSuchAttributes"}, "no formula for this node type"),
        ({"out": ((2,), "fp4_e2m1")}, "packing of fp4_e2m1"),
        ({"out": (3,)}, "does not broadcast"),
        ({"operation": "unset"}, "no pointwise mode"),
        ({"port": "out_1"}, "out"),
    ],
)
def test_what_has_no_meaning_is_refused_with_the_node(build, change, words):
    b = build()
    x = b.input(np.zeros(2))
    out = change.get("out", (2,))
    y = b.tensor(*out) if isinstance(out[-1], str) else b.tensor(out)
    b.node(
        change.get("type", "PointwiseAttributes"),
        {"in_0": x},
        {"out_0": y} if "port" not in change else {"out_0": y, change["port"]: b.tensor((2,))},
        operation=change.get("operation", "abs"),
    )
    with pytest.raises(UnsupportedGraphError, match=words) as caught:
        b.run()
    assert str(caught.value).startswith("n (")


def test_ragged_tensors_are_refused(build):
    b = build()
    x, y = b.tensor((2,), ragged_offset_uid=7), b.tensor((2,))
    b.node("PointwiseAttributes", {"in_0": x}, {"out_0": y}, operation="abs")
    with pytest.raises(UnsupportedGraphError, match="ragged") as caught:
        b.run()
    assert "in_0" in str(caught.value)


def test_custom_operations_are_refused_by_their_id(run_node):
    with pytest.raises(UnsupportedGraphError, match="my_op") as caught:
        run_node("CustomOpAttributes", {}, {"output_0": (1,)}, custom_op_id="my_op")
    assert "plugin" in str(caught.value)


def test_every_node_type_of_the_format_has_a_row():
    assert len(OPERATIONS) == 23
