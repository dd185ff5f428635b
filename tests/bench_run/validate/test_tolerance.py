import json

import numpy as np
import pytest

from bench_run.errors import GraphError, UsageError
from bench_run.graph.dtypes import DTYPES, array_type
from bench_run.graph.layouts import packed
from bench_run.graph.model import Graph, Node, Tensor
from bench_run.graph.operations import make_node
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view, to_storage
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.outputs import compare
from bench_run.validate.tolerance import (
    Circumstances,
    Tolerance,
    read_overrides,
    sidecar_of,
    tolerances,
)

FLOATS = ("float", "half", "bfloat16")
LENGTHS = (64, 576, 4608)
SIDE = 24


def tensor(uid, data_type, *dims, **fields):
    return Tensor(uid, f"t{uid}", data_type, dims, packed(dims), **fields)


def graph(nodes, *tensors):
    return Graph("g", "float", "float", "float", tensors, tuple(nodes))


def matmul(data_type, terms, side=SIDE):
    node = make_node("matmul", {"a": 0, "b": 1}, {"c": 2})
    tensors = (tensor(0, data_type, side, terms), tensor(1, data_type, terms, side))
    return graph([node], *tensors, tensor(2, data_type, side, side))


def operands(of):
    made = make_inputs(of, 0)
    return {uid: logical_view(storage, of.by_uid[uid]) for uid, storage in made.items()}


def one_by_one(a, b, accumulator):
    """Σ a·b, one term after another in the accumulator's type."""
    products = a.astype("f8")[:, :, None] * b.astype("f8")[None]
    return np.add.accumulate(products.astype(accumulator), axis=1, dtype=accumulator)[:, -1]


def cut_to(array, bits):
    """Rounded to so many significand bits."""
    fraction, exponent = np.frexp(array.astype("f8"))
    return np.ldexp(np.rint(fraction * 2.0**bits) / 2.0**bits, exponent)


ARITHMETIC = {
    "float one by one": lambda a, b: one_by_one(a, b, np.float32),
    "float blocked": lambda a, b: a.astype("f4") @ b.astype("f4"),
    "half one by one": lambda a, b: one_by_one(a, b, np.float16),
    "bfloat16 one by one": lambda a, b: one_by_one(a, b, array_type("bfloat16")),
    "tf32 operands": lambda a, b: cut_to(a, 11) @ cut_to(b, 11),
    "bfloat16 operands": lambda a, b: cut_to(a, 8) @ cut_to(b, 8),
}


def mismatched(of, result, **circumstances):
    """Elements of a result, rounded to the output's type, that are outside of the tolerance."""
    (output,) = of.outputs
    data = operands(of)
    tolerance = tolerances(of, circumstances=Circumstances(**circumstances))[output.uid]
    return compare(
        to_storage(result(data), output), evaluate(of, data)[output.uid], output, tolerance
    ).mismatched


def matmul_mismatched(data_type, terms, arithmetic, **circumstances):
    return mismatched(
        matmul(data_type, terms),
        lambda data: ARITHMETIC[arithmetic](data[0], data[1]),
        **circumstances,
    )


@pytest.mark.parametrize("arithmetic", ["float one by one", "float blocked"])
@pytest.mark.parametrize("data_type", FLOATS)
@pytest.mark.parametrize("terms", LENGTHS)
def test_float_sums_are_right_in_any_order(arithmetic, data_type, terms):
    assert matmul_mismatched(data_type, terms, arithmetic) == 0


@pytest.mark.parametrize("arithmetic", ["half one by one", "bfloat16 one by one"])
@pytest.mark.parametrize("data_type", FLOATS)
@pytest.mark.parametrize("terms", [16, *LENGTHS])
def test_sums_in_a_narrow_type_are_found(arithmetic, data_type, terms):
    assert matmul_mismatched(data_type, terms, arithmetic) > 0


@pytest.mark.parametrize("data_type", ["half", "bfloat16"])
@pytest.mark.parametrize("terms", LENGTHS)
def test_sums_in_the_operands_narrow_type_are_right_in_fast_math_alone(data_type, terms):
    wrong = {
        math: matmul_mismatched(data_type, terms, f"{data_type} one by one", math=math)
        for math in ("fp32", "tf32", "fast")
    }
    assert [count > 0 for count in wrong.values()] == [True, True, False]


@pytest.mark.parametrize("arithmetic", ["tf32 operands", "bfloat16 operands"])
@pytest.mark.parametrize("terms", [16, *LENGTHS])
def test_rounded_operands_are_found_in_strict_float(arithmetic, terms):
    assert matmul_mismatched("float", terms, arithmetic) > 0


@pytest.mark.parametrize(
    ("math", "arithmetic"), [("tf32", "tf32 operands"), ("fast", "bfloat16 operands")]
)
@pytest.mark.parametrize("terms", LENGTHS)
def test_rounded_operands_are_right_where_they_were_asked_for(math, arithmetic, terms):
    assert matmul_mismatched("float", terms, arithmetic, math=math) == 0


@pytest.mark.parametrize("data_type", FLOATS)
@pytest.mark.parametrize("terms", LENGTHS)
def test_a_bias_of_one_unit_in_the_last_place_is_found(data_type, terms):
    unit = DTYPES[data_type].unit_roundoff
    wrong = mismatched(
        matmul(data_type, terms),
        lambda data: (
            (data[0].astype("f8") @ data[1].astype("f8")) * (1 + 2 * unit * _ulps(data_type))
        ),
    )
    assert wrong > 0


@pytest.mark.parametrize("data_type", ["half", "bfloat16"])
@pytest.mark.parametrize("terms", LENGTHS)
def test_a_bias_of_one_unit_is_found_against_a_rounded_reference_too(data_type, terms):
    def biased(data):
        exact = data[0].astype("f8") @ data[1].astype("f8")
        return exact + np.spacing(exact.astype(array_type(data_type))).astype("f8")

    assert mismatched(matmul(data_type, terms), biased, rounded_reference=True) > 0


@pytest.mark.parametrize("data_type", FLOATS)
@pytest.mark.parametrize("terms", LENGTHS)
def test_float_sums_are_right_against_a_rounded_reference(data_type, terms):
    assert matmul_mismatched(data_type, terms, "float one by one", rounded_reference=True) == 0


def _ulps(data_type):
    """Float results of long sums have errors of several units; biased sums must stand out."""
    return 1 if data_type != "float" else 1000


@pytest.mark.parametrize("data_type", FLOATS)
def test_one_wrong_element_is_found(data_type):
    def planted(data):
        result = data[0].astype("f8") @ data[1].astype("f8")
        result[3, 5] += 0.02 * np.sqrt(576)
        return result

    assert mismatched(matmul(data_type, 576), planted) == 1


def test_one_missing_term_of_a_sum_is_found():
    def without_last(data):
        return data[0][:, :-1].astype("f8") @ data[1][:-1].astype("f8")

    assert mismatched(matmul("float", 4608), without_last) > 0


@pytest.mark.parametrize("init", [2.0**-10, 1.0, 64.0])  # powers of two: roundings stay
def test_bounds_follow_the_size_of_the_data(init):
    of = matmul("float", 576)
    data = {uid: storage * np.float32(init) for uid, storage in make_inputs(of, 0).items()}
    measured = tolerances(of, circumstances=Circumstances(inputs=data))[2]
    usual = tolerances(of)[2]
    assert measured.atol == pytest.approx(usual.atol * init**2, rel=1e-6)


def test_a_rounded_reference_may_be_as_wrong_as_the_result():
    of = matmul("half", 576)
    one, two = (
        tolerances(of, circumstances=Circumstances(rounded_reference=flag))[2]
        for flag in (False, True)
    )
    assert (two.rtol, two.atol) == (2 * one.rtol, 2 * one.atol)


def test_a_rounded_intermediate_is_allowed_for():
    def chain(inner):
        nodes = [
            make_node("matmul", {"a": 0, "b": 1}, {"c": 2}),
            make_node("pointwise", {"in_0": 2, "in_1": 3}, {"out_0": 4}, {"operation": "add"}),
        ]
        ends = (tensor(0, "half", 8, 64), tensor(1, "half", 64, 8))
        middle = tensor(2, inner, 8, 8, virtual=True)
        return graph(nodes, *ends, middle, tensor(3, "half", 1, 8), tensor(4, "half", 8, 8))

    half, single = (tolerances(chain(inner))[4] for inner in ("half", "float"))
    assert half.atol > 4 * single.atol


def test_integers_are_exact():
    of = matmul("int8", 64)
    exact = Tolerance(0.0, 0.0, "default: exact")
    assert tolerances(of)[2] == exact


@pytest.mark.parametrize(
    ("data_type", "number"),
    [("float", 1e-5), ("half", 1e-2), ("bfloat16", 1e-2), ("double", 1e-3), ("fp8_e4m3", 1e-3)],
)
def test_hipdnns_table_gives_one_number_for_both(data_type, number):
    row = tolerances(matmul(data_type, 8), "hipdnn")[2]
    assert (row.rtol, row.atol, row.validator) == (number, number, "allclose")


def test_hipdnns_table_takes_the_largest_of_the_nodes():
    nodes = [
        make_node("matmul", {"a": 0, "b": 1}, {"c": 2}),
        make_node("layernorm", {"x": 2}, {"y": 3}, {"normalized_dim_count": 1}),
    ]
    tensors = (tensor(uid, "float", 8, 8, virtual=uid == 2) for uid in range(4))
    assert tolerances(graph(nodes, *tensors), "hipdnn")[3].rtol == 1e-4


def test_hipdnn_holds_rms_norm_to_a_root_mean_square():
    node = make_node("rmsnorm", {"x": 0, "scale": 1, "epsilon": 2}, {"y": 3})
    of = graph([node], *(tensor(uid, "bfloat16", 4) for uid in range(4)))
    assert tolerances(of, "hipdnn")[3].rms == 8e-3


def test_the_command_line_wins():
    row = tolerances(
        matmul("half", 8), "default", 0.5, None, overrides={"": {"rtol": 1, "atol": 2}}
    )[2]
    assert (row.rtol, row.atol, row.source) == (0.5, 2, "command line")


def test_an_unknown_policy_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="no policy 'loose'; choose from default, hipdnn"):
        tolerances(matmul("half", 8), "loose")


def test_an_operation_without_a_rule_falls_back():
    node = Node("CustomOpAttributes", "", "float", {"input_0": 0}, {"output_0": 1}, {})
    row = tolerances(graph([node], tensor(0, "half", 4), tensor(1, "half", 4)))[1]
    assert row.source == "fallback: no formulas for one of the operations"


def sidecar(folder, content):
    path = sidecar_of(str(folder / "conv.json"))
    path.write_text(json.dumps(content))
    return path


def test_a_sidecar_changes_all_outputs_or_one_by_name_or_uid(tmp_path):
    content = {"rtol": 0.1, "tensors": {"t2": {"atol": 0.2}}, "reason": "cancels"}
    row = tolerances(matmul("half", 8), overrides=read_overrides(sidecar(tmp_path, content)))[2]
    assert (row.rtol, row.atol, row.source) == (0.1, 0.2, "sidecar")


def test_a_sidecar_may_ask_for_a_root_mean_square(tmp_path):
    path = sidecar(tmp_path, {"tensors": {"2": {"rms": 1e-4}}})
    assert tolerances(matmul("half", 8), overrides=read_overrides(path))[2].rms == 1e-4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "expected an object"),
        ({"rtoll": 1}, "rtoll: unknown; known are rtol"),
        ({"rtol": -1}, "finite number of at least 0"),
        ({"rtol": True}, "expected a number"),
        ({"tensors": {"y": 1}}, "an object for each tensor"),
        (
            {"tensors": {"y": {"validator": "loose"}}},
            r"tensors\.y\.validator: no validator 'loose'",
        ),
    ],
)
def test_a_wrong_sidecar_names_file_and_key(tmp_path, content, words):
    with pytest.raises(GraphError, match=rf"conv\.tolerance\.json.*{words}"):
        read_overrides(sidecar(tmp_path, content))
