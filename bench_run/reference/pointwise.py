"""Element-wise operations: every mode, right-aligned broadcasting on dims of length 1.

Inputs `in_0`, `in_1`, `in_2` by arity, output `out_0`; backward modes take in_0 = dy and
in_1 = x, the *input* of the forward activation, as hipDNN's captured graphs do. Integers stay
integers where the mode maps them to integers, so that they are exact; booleans count as 0 and 1.
NaN propagates, through max_op and min_op too.
Source: hipDNN's pointwise node; formulas that its reference does not show are the usual ones
(cuDNN's pointwise modes), with the defaults ReLU lower clip 0, upper clip ∞, slope 0, α = β = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.meaning import axis_of, refusal
from bench_run.reference.common import Array, Arrays, Outputs, broadcasts
from bench_run.reference.threads import Part, cut, do_each, in_parts

if TYPE_CHECKING:
    from bench_run.graph.model import Node


def erf(x: Array) -> Array:
    from scipy import special

    result: Array = special.erf(x)
    return result


def ndtr(x: Array) -> Array:
    """Return the normal distribution's cumulative function Φ(x)."""
    from scipy import special

    result: Array = special.ndtr(x)
    return result


@dataclass(frozen=True)
class Parameters:
    lower: float = 0.0
    upper: float = math.inf
    slope: float = 0.0
    swish_beta: float = 1.0
    elu_alpha: float = 1.0
    softplus_beta: float = 1.0


KEYS = {
    "relu_lower_clip": "lower",
    "relu_upper_clip": "upper",
    "relu_lower_clip_slope": "slope",
    "swish_beta": "swish_beta",
    "elu_alpha": "elu_alpha",
    "softplus_beta": "softplus_beta",
}
"""Name here by name in hipDNN's JSON."""


def parameters(node: Node) -> Parameters:
    given = {key: node.attributes.get(key) for key in KEYS}
    return Parameters(**{KEYS[key]: float(v) for key, v in given.items() if v is not None})


# Gradients of activations: dx from dy and x, the input of the forward activation.
#
# Each is dy times the derivative of the forward formula in `pointwise`.
# Source: hipDNN's pointwise node (ReLU, sigmoid, tanh); the derivative where it shows none.


SQRT_2_PI = math.sqrt(2.0 / math.pi)
CUBE = 0.044715


def sigmoid(x: Array, beta: float = 1.0) -> Array:
    """Compute σ(βx) = 1/(1 + e^{−βx})."""
    return np.asarray(1.0 / (1.0 + np.exp(-beta * x)))


def relu_gradient(p: Parameters, dy: Array, x: Array) -> Array:
    """Compute dy times: s if x ≤ L; 0 if x > U; otherwise 1, so also at U and at NaN. If the factor
    is 0, so is dx, even if dy is infinite or NaN."""
    low = p.slope * dy if p.slope else 0.0
    return np.where(x <= p.lower, low, np.where(x > p.upper, 0.0, dy))


def elu_gradient(p: Parameters, dy: Array, x: Array) -> Array:
    """Compute dy times: 1 if x > 0, otherwise α·eˣ."""
    return dy * np.where(x > 0, 1.0, p.elu_alpha * np.exp(np.minimum(x, 0.0)))


def gelu_gradient(_p: Parameters, dy: Array, x: Array) -> Array:
    """Compute dy·(Φ(x) + x·φ(x))."""
    density = np.exp(-0.5 * np.square(x)) * (1.0 / math.sqrt(2.0 * math.pi))
    return np.asarray(dy * (ndtr(x) + x * density))


def gelu_tanh_gradient(_p: Parameters, dy: Array, x: Array) -> Array:
    """Compute dy·(σ(2u) + x·2·σ(2u)·σ(−2u)·u′) with u as in `gelu_tanh` and
    u′ = √(2/π)·(1 + 3·0.044715x²)."""
    square = np.square(x)
    u = SQRT_2_PI * (x * (1.0 + CUBE * square))
    slope = 2.0 * SQRT_2_PI * (1.0 + 3.0 * CUBE * square)
    return np.asarray(dy * (sigmoid(u, 2.0) * (1.0 + x * slope * sigmoid(u, -2.0))))


def sigmoid_gradient(_p: Parameters, dy: Array, x: Array) -> Array:
    """Compute dy·σ(x)·(1 − σ(x))."""
    return np.asarray(dy * sigmoid(x) * sigmoid(x, -1.0))


def softplus_gradient(p: Parameters, dy: Array, x: Array) -> Array:
    """Compute dy·σ(βx)."""
    return np.asarray(dy * sigmoid(x, p.softplus_beta))


def swish_gradient(p: Parameters, dy: Array, x: Array) -> Array:
    """Compute dy·(σ(βx) + βx·σ(βx)·(1 − σ(βx)))."""
    slope = 1.0 + p.swish_beta * (x * sigmoid(x, -p.swish_beta))
    return np.asarray(dy * sigmoid(x, p.swish_beta) * slope)


def tanh_gradient(_p: Parameters, dy: Array, x: Array) -> Array:
    """Compute dy·(1 − tanh²x), as dy/cosh²x: no cancellation for large x."""
    return np.asarray(dy / np.square(np.cosh(x)))


BACKWARD: Mapping[str, Callable[..., Array]] = {
    "elu_bwd": elu_gradient,
    "gelu_approx_tanh_bwd": gelu_tanh_gradient,
    "gelu_bwd": gelu_gradient,
    "relu_bwd": relu_gradient,
    "sigmoid_bwd": sigmoid_gradient,
    "softplus_bwd": softplus_gradient,
    "swish_bwd": swish_gradient,
    "tanh_bwd": tanh_gradient,
}


Function = Callable[..., Array]

PORTS = ("in_0", "in_1", "in_2")
BLOCK_ELEMENTS = 2**16
"""Elements of a result that are computed at a time."""


def pointwise(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    mode = str(node.attributes.get("operation"))
    dims = outputs["out_0"].dims
    if mode == "gen_index":
        return {"out_0": gen_index(node, dims)}
    arity, function = MODES[mode]
    operands = [inputs[port] for port in PORTS[:arity]]
    kinds = {operand.dtype.kind for operand in operands}
    for port, operand in zip(PORTS, operands, strict=False):
        if operand.shape != dims and not broadcasts(operand.shape, dims):
            raise refusal(node, f"{port} of {operand.shape} does not broadcast to {dims}")
    function = PLAIN.get(mode) or partial(function, parameters(node))
    if kinds != {"f"}:
        operands = [x.astype(np.int64) if x.dtype.kind == "b" else x for x in operands]
        function = partial(_saturated, function)
    elif mode in ONE_PASS and not in_parts():
        return {"out_0": _spread(function(*operands), dims)}
    return {"out_0": _in_blocks(function, operands, dims)}


def _spread(result: Array, dims: tuple[int, ...]) -> Array:
    return result if result.shape == dims else np.broadcast_to(result, dims)


def _saturated(function: Function, *operands: Array) -> Array:
    """Limit integers beyond 64 bits to the end of the range, as in narrower types (`rounding.py`),
    where NumPy would wrap."""
    found = function(*operands)
    if found.dtype != np.int64 or all(_is_small(operand) for operand in operands):
        return found
    real = np.asarray(function(*(operand.astype(np.float64) for operand in operands)))
    limits = np.iinfo(np.int64)
    beyond = (np.abs(real) > 1.001 * 2.0**63) | (
        (np.abs(real) > 2.0**62) & ((real < 0) != (found < 0))
    )
    return np.where(beyond, np.where(real < 0, limits.min, limits.max), found)


def _is_small(operand: Array) -> bool:
    """Return True if products of two such numbers, plus a third, fit in 64 bits."""
    if operand.dtype != np.int64 or operand.size == 0:
        return True
    return bool(operand.min() > -(2**31) and operand.max() < 2**31)


def _in_blocks(function: Function, operands: list[Array], dims: tuple[int, ...]) -> Array:
    """Apply the function block by block, along the memory of the first operand that is not spread:
    intermediate results then stay in the cache."""
    if prod(dims) <= BLOCK_ELEMENTS:
        return _spread(function(*operands), dims)
    wide = [np.broadcast_to(operand, dims) for operand in operands]
    model = next((x for x in operands if x.shape == dims), wide[0])
    order = sorted(range(len(dims)), key=lambda axis: -model.strides[axis])
    along = [operand.transpose(order) for operand in wide]
    parts = list(cut(along[0].shape, BLOCK_ELEMENTS))
    first = function(*(operand[parts[0]] for operand in along))
    result = np.empty(along[0].shape, first.dtype)
    result[parts[0]] = first

    def fill(part: Part) -> None:
        result[part] = function(*(operand[part] for operand in along))

    do_each(fill, parts[1:])
    return result.transpose(sorted(range(len(dims)), key=order.__getitem__))


def gen_index(node: Node, dims: tuple[int, ...]) -> Array:
    """Compute each element's own index along the axis."""
    axis = axis_of(node)
    assert axis is not None
    shape = tuple(length if i == axis else 1 for i, length in enumerate(dims))
    return np.broadcast_to(np.arange(dims[axis], dtype=np.int64).reshape(shape), dims)


def relu(p: Parameters, x: Array) -> Array:
    """Compute x ≤ L: s·(x − L) + L, which is L for s = 0 even at x = −∞; x ≥ U: U; otherwise x."""
    if p.slope == 0:
        y = np.maximum(x, p.lower)
    else:
        y = np.where(x <= p.lower, p.slope * (x - p.lower) + p.lower, x)
    return y if p.upper == math.inf else np.minimum(y, p.upper)


def elu(p: Parameters, x: Array) -> Array:
    """Compute x > 0: x; otherwise α·(eˣ − 1)."""
    return np.where(x > 0, x, p.elu_alpha * np.expm1(np.minimum(x, 0.0)))


def gelu_tanh(_p: Parameters, x: Array) -> Array:
    """Compute ½x·(1 + tanh u) = x·σ(2u) with u = √(2/π)·(x + 0.044715x³)."""
    return np.asarray(x * sigmoid(SQRT_2_PI * (x * (1.0 + CUBE * np.square(x))), 2.0))


def swish(p: Parameters, x: Array) -> Array:
    """Compute x·σ(βx)."""
    return np.asarray(x * sigmoid(x, p.swish_beta))


def softplus(p: Parameters, x: Array) -> Array:
    """Compute ln(1 + e^{βx})/β."""
    return np.asarray(np.logaddexp(0.0, p.softplus_beta * x) / p.softplus_beta)


UNARY: Mapping[str, Function] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "erf": erf,
    "exp": np.exp,
    "floor": np.floor,
    "gelu_fwd": lambda x: x * ndtr(x),  # ½x(1 + erf(x/√2)) without its cancellation
    "identity": np.positive,
    "log": np.log,
    "logical_not": np.logical_not,
    "neg": np.negative,
    "reciprocal": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sigmoid_fwd": sigmoid,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh_fwd": np.tanh,
}
ACTIVATIONS: Mapping[str, Function] = {
    "elu_fwd": elu,
    "gelu_approx_tanh_fwd": gelu_tanh,
    "relu_fwd": relu,
    "softplus_fwd": softplus,
    "swish_fwd": swish,
}
BINARY: Mapping[str, Function] = {
    "add": np.add,
    "add_square": lambda a, b: a + np.square(b),
    "cmp_eq": np.equal,
    "cmp_ge": np.greater_equal,
    "cmp_gt": np.greater,
    "cmp_le": np.less_equal,
    "cmp_lt": np.less,
    "cmp_neq": np.not_equal,
    "div": np.divide,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "max_op": np.maximum,
    "min_op": np.minimum,
    "mul": np.multiply,
    "sub": np.subtract,
}


def select(_p: Parameters, a: Array, b: Array, condition: Array) -> Array:
    """Compute in_2 ? in_0 : in_1, cuDNN's order; hipDNN's reference has its booleans in in_2
    too."""
    return np.where(condition != 0, a, b)


def _plain(function: Function) -> Function:
    return lambda _parameters, *operands: function(*operands)


MODES: Mapping[str, tuple[int, Function]] = {
    **{mode: (1, _plain(function)) for mode, function in UNARY.items()},
    **{mode: (1, function) for mode, function in ACTIVATIONS.items()},
    **{mode: (2, _plain(function)) for mode, function in BINARY.items()},
    **{mode: (2, function) for mode, function in BACKWARD.items()},
    "binary_select": (3, select),
}
"""Arity and function by mode; `gen_index`, which reads no values, stands apart."""
PLAIN: Mapping[str, Function] = {**UNARY, **BINARY}
ONE_PASS = {mode for mode, row in PLAIN.items() if isinstance(row, np.ufunc)} | {"relu_fwd"}
"""Modes without intermediate results."""
