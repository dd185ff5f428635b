"""Graphs on data types beside the four floats, by name."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.conformance.sketch import Sketch, convolution

NARROW = ("fp8_e4m3", "fp8_e5m2", "fp8_e4m3_fnuz", "fp8_e5m2_fnuz")
WHOLE = ("int8", "uint8", "int32", "int64")


def elementwise(mode, types, out, compute="float"):
    s = Sketch(mode, "float", compute=compute)
    inputs = {f"in_{i}": s.tensor(2, 5, 3, 4, dtype=kind) for i, kind in enumerate(types)}
    y = s.tensor(2, 5, 3, 4, dtype=out)
    return s.node("PointwiseAttributes", inputs, {"out_0": y}, operation=mode).graph()


def matmul(types, out, compute="float"):
    s = Sketch("matmul", "float", compute=compute)
    a, b = s.tensor(5, 16, dtype=types[0]), s.tensor(16, 6, dtype=types[1])
    c = s.tensor(5, 6, dtype=out)
    return s.node("MatmulAttributes", {"a": a, "b": b}, {"c": c}).graph()


def conv(dtype, out, compute="float"):
    s = Sketch("conv", dtype, "last", compute)
    sizes = ((2, 4, 6, 6), (8, 4, 3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    convolution("Fwd", s, *sizes)
    s.tensors[-1] = replace(s.tensors[-1], data_type=out)
    return s.graph()


def reduction(mode, dtype, compute):
    s = Sketch("reduction", dtype, compute=compute)
    ports = {"in": s.tensor(3, 4, 5)}, {"out": s.tensor(3, 1, 5)}
    return s.node("ReductionAttributes", *ports, mode=mode).graph()


TYPED = {
    **{f"{t}_to_float": partial(elementwise, "identity", (t,), "float") for t in NARROW + WHOLE},
    **{f"float_to_{t}": partial(elementwise, "identity", ("float",), t) for t in NARROW + WHOLE},
    **{f"add_{t}": partial(elementwise, "add", (t, t), t) for t in NARROW},
    **{f"add_{t}": partial(elementwise, "add", (t, t), t, "int32") for t in WHOLE},
    "double_in_float": partial(elementwise, "add", ("double", "float"), "double"),
    "half_and_float": partial(elementwise, "mul", ("half", "float"), "half"),
    "half_to_float": partial(elementwise, "exp", ("half",), "float"),
    "bfloat16_and_half": partial(elementwise, "add", ("bfloat16", "half"), "float"),
    "compare_to_boolean": partial(elementwise, "cmp_gt", ("float", "float"), "boolean"),
    "add_int64_wide": partial(elementwise, "add", ("int64", "int64"), "int64", "int64"),
    "compare_integers": partial(elementwise, "cmp_le", ("int32", "int32"), "boolean", "int32"),
    "boolean_and": partial(elementwise, "logical_and", ("boolean",) * 2, "boolean", "boolean"),
    "boolean_not": partial(elementwise, "logical_not", ("boolean",), "boolean", "boolean"),
    "select_by_boolean": partial(elementwise, "binary_select", ("half", "half", "boolean"), "half"),
    "max_of_integers": partial(elementwise, "max_op", ("int32", "int32"), "int32", "int32"),
    **{f"matmul_{t}": partial(matmul, (t, t), "half") for t in NARROW},
    "matmul_mixed_fp8": partial(matmul, ("fp8_e4m3", "fp8_e5m2"), "bfloat16"),
    "matmul_half_to_float": partial(matmul, ("half", "half"), "float"),
    "matmul_int8": partial(matmul, ("int8", "int8"), "int32", "int32"),
    "conv_fp8": partial(conv, "fp8_e4m3", "half"),
    "conv_int8": partial(conv, "int8", "int32", "int32"),
    "conv_half_to_float": partial(conv, "half", "float"),
    "sum_of_int32": partial(reduction, "add", "int32", "int32"),
    "sum_of_half_in_float": partial(reduction, "add", "half", "float"),
}
