"""Element-wise operations: one node type, many modes. See graphs/FORMAT.md.

Flops per element of the output: the arithmetic steps of the formula, where one evaluation of a
special function (exp, tanh, erf, a root …) is one step, whatever it costs, and so are a comparison
and a selection. Moving data and truth values is not arithmetic: 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_run.graph.operations.base import NodeView, Operation, Parameter, Port, expect_dims

if TYPE_CHECKING:
    from bench_run.graph.model import Tensor


@dataclass(frozen=True)
class PointwiseMode:
    arity: int
    flops: int
    """Flops per output element."""
    hints: tuple[str, ...] = ()
    """Role of the data of each operand (`base.HINTS`); empty: general."""
    attributes: tuple[str, ...] = ()
    """Parameters the mode looks at."""
    backward: bool = False
    """in_0 is dy and in_1 the input of the forward operation."""
    family: str = ""
    """Family of op specs made from this row alone; empty: `graph/make/recipes/pointwise.py` has
    separate rows for the mode."""
    summary: str = ""
    """Computation of such an op spec, as a formula or in words."""
    aliases: tuple[str, ...] = ()
    """Its other names."""

    def hint(self, operand: int) -> str:
        return self.hints[operand] if operand < len(self.hints) else "general"


_RELU = ("relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope")
_POSITIVE = ("positive",)
_BOTH = ("condition", "condition")
_COMPARED = ("compared", "compared")

POINTWISE_MODES: dict[str, PointwiseMode] = {
    "abs": PointwiseMode(1, 1, family="math", summary="|x|"),
    "add": PointwiseMode(2, 1, family="arithmetic", summary="x + b"),
    "add_square": PointwiseMode(2, 2, family="arithmetic", summary="x + b²"),
    "binary_select": PointwiseMode(3, 1, ("general", "general", "condition")),
    "ceil": PointwiseMode(1, 1, family="math", summary="smallest integer above"),
    "cmp_eq": PointwiseMode(2, 1, _COMPARED, family="logic", summary="x = b"),
    "cmp_ge": PointwiseMode(2, 1, _COMPARED, family="logic", summary="x ≥ b"),
    "cmp_gt": PointwiseMode(2, 1, _COMPARED, family="logic", summary="x > b"),
    "cmp_le": PointwiseMode(2, 1, _COMPARED, family="logic", summary="x ≤ b"),
    "cmp_lt": PointwiseMode(2, 1, _COMPARED, family="logic", summary="x < b"),
    "cmp_neq": PointwiseMode(2, 1, _COMPARED, family="logic", summary="x ≠ b"),
    "div": PointwiseMode(2, 1, ("general", "positive"), family="arithmetic", summary="x / b"),
    "elu_bwd": PointwiseMode(2, 4, attributes=("elu_alpha",), backward=True),
    "elu_fwd": PointwiseMode(1, 4, attributes=("elu_alpha",)),
    "erf": PointwiseMode(1, 1, family="math", summary="error function"),
    "exp": PointwiseMode(1, 1, family="math", summary="exp x"),
    "floor": PointwiseMode(1, 1, family="math", summary="largest integer below"),
    "gelu_approx_tanh_bwd": PointwiseMode(2, 19, backward=True),
    "gelu_approx_tanh_fwd": PointwiseMode(1, 9),
    "gelu_bwd": PointwiseMode(2, 11, backward=True),
    "gelu_fwd": PointwiseMode(1, 5),
    "gen_index": PointwiseMode(1, 0, attributes=("axis_tensor_uid",)),
    "identity": PointwiseMode(1, 0, family="math", summary="copy"),
    "log": PointwiseMode(1, 1, _POSITIVE, family="math", summary="ln x"),
    "logical_and": PointwiseMode(2, 0, _BOTH, family="logic", summary="x and b"),
    "logical_not": PointwiseMode(1, 0, ("condition",)),
    "logical_or": PointwiseMode(2, 0, _BOTH, family="logic", summary="x or b"),
    "max_op": PointwiseMode(
        2, 1, family="arithmetic", summary="larger of x and b", aliases=("max",)
    ),
    "min_op": PointwiseMode(
        2, 1, family="arithmetic", summary="smaller of x and b", aliases=("min",)
    ),
    "mul": PointwiseMode(2, 1, family="arithmetic", summary="x · b"),
    "neg": PointwiseMode(1, 1, family="math", summary="-x"),
    "reciprocal": PointwiseMode(1, 1, _POSITIVE, family="math", summary="1 / x"),
    "relu_bwd": PointwiseMode(2, 2, ("general", "clipped"), attributes=_RELU, backward=True),
    "relu_fwd": PointwiseMode(1, 1, ("clipped",), attributes=_RELU),
    "rsqrt": PointwiseMode(1, 2, _POSITIVE, family="math", summary="1 / sqrt(x)"),
    "sigmoid_bwd": PointwiseMode(2, 7, backward=True),
    "sigmoid_fwd": PointwiseMode(1, 4),
    "sin": PointwiseMode(1, 1, family="math", summary="sin x"),
    "softplus_bwd": PointwiseMode(2, 6, attributes=("softplus_beta",), backward=True),
    "softplus_fwd": PointwiseMode(1, 5, attributes=("softplus_beta",)),
    "sqrt": PointwiseMode(1, 1, _POSITIVE, family="math", summary="square root"),
    "sub": PointwiseMode(2, 1, family="arithmetic", summary="x - b"),
    "swish_bwd": PointwiseMode(2, 11, attributes=("swish_beta",), backward=True),
    "swish_fwd": PointwiseMode(1, 5, attributes=("swish_beta",)),
    "tan": PointwiseMode(1, 1, ("unit",), family="math", summary="tan x"),
    "tanh_bwd": PointwiseMode(2, 4, backward=True),
    "tanh_fwd": PointwiseMode(1, 1),
}
"""Modes by the spelling of the file. `unset` (number 0 of hipDNN's enum) is not an operation."""

OPERANDS = ("in_0", "in_1", "in_2")


def broadcast_dims(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the common shape of operands broadcast by lengths 1, aligned right; None if they do
    not fit."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for lengths in zip(*padded, strict=True):
        longer = {length for length in lengths if length != 1}
        if len(longer) > 1:
            return None
        result.append(longer.pop() if longer else 1)
    return tuple(result)


def check(view: NodeView) -> None:
    lower, upper = view.attribute("relu_lower_clip"), view.attribute("relu_upper_clip")
    lower = 0 if lower is None else lower
    if upper is not None and lower > upper:
        raise view.parameter_error("relu_upper_clip", f"is {upper}, below the lower clip, {lower}")
    name = view.attribute("operation")
    mode = POINTWISE_MODES.get(name)
    if mode is None:
        raise view.parameter_error("operation", f"is {name}, expected an operation")
    operands: list[Tensor] = []
    for index, port in enumerate(OPERANDS):
        operand = view.get(port)
        if (operand is None) == (index < mode.arity):
            state = "is missing" if operand is None else "is one too many"
            raise view.port_error(port, f"{state}: {name} takes {mode.arity}")
        if operand is not None:
            operands.append(operand)
    dims = broadcast_dims(*(tensor.dims for tensor in operands))
    if dims is None:
        shapes = ", ".join(str(list(tensor.dims)) for tensor in operands)
        raise view.port_error("in_1", f"does not broadcast: the operands have dims {shapes}")
    expect_dims(view, "out_0", dims, "the operands broadcast")
    axis = view.attribute("axis_tensor_uid")
    if name == "gen_index" and (axis is None or not 0 <= axis < len(dims)):
        what = f"is {axis}, expected an axis from 0 to {len(dims) - 1}"
        raise view.parameter_error("axis_tensor_uid", what)


def count_flops(view: NodeView) -> int:
    return POINTWISE_MODES[view.attribute("operation")].flops * view["out_0"].elements


_NUMBERS = (*_RELU, "swish_beta", "elu_alpha", "softplus_beta")

ROWS = (
    Operation(
        type="PointwiseAttributes",
        name="pointwise",
        family="pointwise",
        inputs=(Port("in_0"), Port("in_1", required=False), Port("in_2", required=False)),
        outputs=(Port("out_0"),),
        parameters=(
            Parameter(
                "operation", "enum", required=True, choices=("unset", *sorted(POINTWISE_MODES))
            ),
            # Despite its name in the file the number of an axis, for gen_index.
            Parameter("axis_tensor_uid", "int"),
            *(Parameter(name, "float") for name in _NUMBERS),
        ),
        place="inputs",
        check=check,
        flops=count_flops,
    ),
)
