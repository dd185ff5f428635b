"""Calls that become operators of our own table (`bench-run help operators`), or several nodes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench_run.models.arguments import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.models.arguments import Arguments, Made, Word


def own(
    a: Arguments,
    operator: str,
    operands: tuple[Any, ...] | None = None,
    words: Mapping[str, Word] | None = None,
    only: Mapping[str, Any] | None = None,
) -> Made:
    """Make an operator of the table, with parameters of its spec. `only`: attributes that the
    operator has in one way."""
    for name, value in (only or {}).items():
        found = a.get(name, default=value)
        if found != value:
            refuse(f"{name}={found}: {operator} has {name}={value}")
    given = {word: a.get(*names, default=usual) for word, (*names, usual) in (words or {}).items()}
    given = {word: value for word, value in given.items() if value is not None}
    return "own", (a.x,) if operands is None else operands, {"operator": operator, "words": given}


def pair(a: Arguments, operator: str) -> Made:
    """Make an operator of two operands."""
    return own(a, operator, (a.x, a.get(1, "other")))


def along(a: Arguments, operator: str, **only: Any) -> Made:
    """Make an operator along an axis, which reduces it or not."""
    axis = a.axis(int(a.number("axis", "dim", 1) or 0))
    made = own(a, operator, only=only)
    return made[0], made[1], {**made[2], "words": {"axis": axis}}


def mod(a: Arguments) -> Made:
    return pair(a, "fmod" if a.get("fmod") else "mod")


def selu(a: Arguments) -> Made:
    usual = {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}
    given = {name: float(a.get(name, default=value)) for name, value in usual.items()}
    if all(math.isclose(given[name], value, rel_tol=1e-6) for name, value in usual.items()):
        return own(a, "selu")
    return "scaled_elu", (a.x,), given


def celu(a: Arguments) -> Made:
    return "celu", (a.x,), {"alpha": float(a.get("alpha", default=1.0))}


def thresholded(a: Arguments) -> Made:
    return "thresholded_relu", (a.x,), {"alpha": float(a.get("alpha", default=1.0))}


def is_infinite(a: Arguments) -> Made:
    return own(a, "isinf", only={"detect_negative": 1, "detect_positive": 1})


def compare(a: Arguments, kind: str) -> Made:
    if a.get("broadcast") or a.get("axis"):
        refuse()
    return kind, (a.x, *(() if kind == "logical_not" else (a.get(1, "other"),))), {}


def prelu(a: Arguments) -> Made:
    """Make a PReLU: PyTorch's slopes are those of the channels, ONNX's are broadcast."""
    return "prelu", (a.x, a.get(1, "weight")), {"by_channel": "weight" in a.values}


def where(a: Arguments) -> Made:
    return "where", (a.get(0, "condition"), a.get(1, "self"), a.get(2, "other")), {}


def gather_elements(a: Arguments) -> Made:
    """Make a choice of one column in each row."""
    index = a.shape(a.get(1))
    if a.axis(a.get("axis", default=0)) != 1 or len(a.dims) != 2 or index != (a.dims[0], 1):
        refuse("other than one column of each row of a matrix")
    return own(a, "pick", (a.x, a.get(1)))


def top(a: Arguments) -> Made:
    found = a.numbers("k", 1) or ()
    count = found[0] if len(found) == 1 else refuse()
    words = {"k": int(count), "axis": a.axis(a.get("axis", default=-1))}
    words["largest"] = bool(a.get("largest", default=1))
    return "topk", (a.x,), {**words, "places": a.places}


def concat(a: Arguments) -> Made:
    operands = a.get("tensors") or [a.values[n] for n in range(len(a.values)) if n in a.values]
    rank = a.rank(operands[0])
    axis = a.axis(a.get("axis", "dim", default=1 if a.opset < 4 else 0), rank)
    if len(operands) == 1:
        return "identity", tuple(operands), {}
    return "concat", tuple(operands), {"axis": axis}


def ordered(a: Arguments) -> Made:
    """Make the places of the elements in ascending order."""
    if a.get("descending"):
        refuse("it sorts from the largest")
    a.get("stable")
    return along(replace(a, values={"dim": -1, **a.values}), "argsort")


def roll(a: Arguments) -> Made:
    """Make a shift around an axis; without axes one of all elements as a row."""
    shifts, axes = a.numbers("shifts") or (), a.numbers("dims") or ()
    pairs = zip((a.axis(n) for n in axes), shifts, strict=True) if axes else [(None, shifts[0])]
    return "roll", (a.x,), {"shifts": tuple(pairs)}


def resize(a: Arguments, mode: str = "nearest") -> Made:
    """Make an image of other lengths. ONNX's ways to place the elements agree with ours for the
    nearest element from the left, and between elements for whole factors."""
    mode = a.get("mode", default=mode)
    usual = "half_pixel" if a.opset > 10 and a.places else "asymmetric"
    ways = (
        a.get("coordinate_transformation_mode", default=usual),
        a.get("nearest_mode", default="round_prefer_floor" if a.opset > 10 else "floor"),
    )
    a.get(1, 2, 3, "scales", "output_size", "scale_factors")
    from_left = not a.places or ways == ("asymmetric", "floor")
    by_half = not a.places or ways[0] in ("half_pixel", "pytorch_half_pixel")
    if mode not in ("nearest", "linear") or a.get("align_corners"):
        refuse(f"mode={mode}" + ", with aligned corners" * bool(a.get("align_corners")))
    if mode == "linear" and not by_half:
        refuse(f"coordinate_transformation_mode={ways[0]}")
    if mode == "nearest" and not from_left and ways != ("half_pixel", "round_prefer_floor"):
        refuse(f"coordinate_transformation_mode={ways[0]}, nearest_mode={ways[1]}")
    return "resize", (a.x,), {"mode": mode, "from_left": from_left}


def grouped_product(a: Arguments) -> Made:
    """Make the products of groups of rows, each with a matrix of its own: experts."""
    if a.get("offs") is None or a.get("bias") is not None or a.rank(a.get("mat2")) != 3:
        refuse("other than rows in groups, each with a matrix")
    if a.rank(a.x) != 2 or a.get("out_dtype") is not None:
        refuse("other than rows in groups, each with a matrix")
    return "grouped_product", (a.x, a.get("mat2"), a.get("offs")), {}


def space(a: Arguments, operator: str) -> Made:
    mode = a.get("mode", default="DCR").lower()
    return (
        "own",
        (a.x,),
        {"operator": operator, "words": {"block": a.get("blocksize"), "mode": mode}},
    )


def triangle(a: Arguments) -> Made:
    if a.get("upper", default=1) or a.number("k", 1):
        refuse("the upper triangle, or one beside the diagonal")
    return own(a, "tril")


def lp_normalization(a: Arguments) -> Made:
    p = a.get("p", default=2)
    if p not in (1, 2):
        refuse(f"p={p}")
    return "lp_norm", (a.x,), {"axis": a.axis(a.get("axis", default=-1)), "p": p}


def instance_norm(a: Arguments) -> Made:
    words = {"groups": int(a.dims[1]), "eps": float(a.get("epsilon", default=1e-5))}
    return "group_norm", (a.x, a.get(1), a.get(2)), words


def recurrent(a: Arguments, operator: str) -> Made:
    """Make a recurrent layer of one direction without lengths of its sequences."""
    if a.get("direction", default="forward") != "forward":
        refuse(f"its direction is {a.get('direction')}")
    for place, what in ((4, "lengths of its sequences"), (7, "peepholes")):
        if a.get(place) is not None:
            refuse(f"it has {what}")
    usual = {"rnn": ["Tanh"], "lstm": ["Sigmoid", "Tanh", "Tanh"], "gru": ["Sigmoid", "Tanh"]}
    if a.get("activations", default=usual[operator]) != usual[operator] or a.get("clip"):
        refuse("activations of its own")
    if a.get("input_forget"):
        refuse("its gates are coupled (input_forget)")
    if operator == "gru" and not a.get("linear_before_reset"):
        refuse("linear_before_reset=0: our GRU multiplies after the product, as PyTorch's")
    operands = tuple(a.get(place) for place in (0, 1, 2, 3, 5, 6))
    words = {"operator": operator, "places": a.places, "by_batch": bool(a.get("layout"))}
    return "recurrent", operands, words


def loss(a: Arguments, kind: str) -> Made:
    """Make a loss of classes, which may have axes after those."""
    if a.get(2) is not None or a.get("ignore_index") is not None:
        refuse("weights of the classes, or one that is left out")
    words = {"reduction": a.get("reduction", default="mean")}
    return kind, (a.x, a.get(1)), words


def attention(a: Arguments) -> Made:
    """Make ONNX's attention: heads of their own axis, or within the last one."""
    if len(a.outputs) > 1:
        refuse("its further results (caches, scores)")
    past = [n for n in (4, 5, 6) if a.get(n) is not None]
    if past:
        refuse("keys and values of the past, or lengths of the sequences")
    if a.get("softcap"):
        refuse("a softcap of the scores")
    words = {
        "heads": (a.get("q_num_heads"), a.get("kv_num_heads")),
        "causal": bool(a.get("is_causal")),
        "scale": a.get("scale"),
    }
    return "attention", tuple(a.get(n) for n in range(4)), words


def swiglu(a: Arguments) -> Made:
    return "swiglu", (a.x, a.get(1)), {"beta": float(a.get("alpha", default=1.0))}


PLAIN = (
    *(
        (ours, onnx, f"{ours}* {onnx.lower()}*")
        for ours, onnx in (("cos", "Cos"), ("cosh", "Cosh"))
    ),
    *((f"arc{f}", f"A{f}", f"a{f}* arc{f}*") for f in ("sin", "cos", "tan")),
    *((f"arc{f}h", f"A{f}h", f"a{f}h* arc{f}h*") for f in ("sin", "cos", "tan")),
    ("sinh", "Sinh", "sinh*"),
    ("round", "Round", "round*"),
    ("sign", "Sign", "sign*"),
    ("mish", "Mish", "mish*"),
    ("softsign", "Softsign", ""),
    ("hard_swish", "HardSwish", "hardswish*"),
    ("isnan", "IsNaN", "isnan"),
)
"""Operators of one operand without parameters: ours, ONNX's, ATen's."""
COMPARED = (
    ("cmp_eq", "Equal", "eq.Tensor eq.Scalar"),
    ("cmp_gt", "Greater", "gt.Tensor gt.Scalar"),
    ("cmp_ge", "GreaterOrEqual", "ge.Tensor ge.Scalar"),
    ("cmp_lt", "Less", "lt.Tensor lt.Scalar"),
    ("cmp_le", "LessOrEqual", "le.Tensor le.Scalar"),
    ("logical_and", "And", "logical_and bitwise_and.Tensor"),
    ("logical_or", "Or", "logical_or bitwise_or.Tensor"),
    ("logical_xor", "Xor", "logical_xor bitwise_xor.Tensor"),
    ("logical_not", "Not", "logical_not bitwise_not"),
)
HARD_SIGMOID: Mapping[str, Word] = {"alpha": ("alpha", "", 0.2), "beta": ("beta", "", 0.5)}
LRN: Mapping[str, Word] = {
    "size": ("size", "", None),
    "alpha": ("alpha", "", 0.0001),
    "beta": ("beta", "", 0.75),
    "bias": ("bias", "", 1.0),
}
