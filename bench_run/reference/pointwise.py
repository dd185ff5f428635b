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

from bench_run.reference.common import Array, Arrays, Outputs, broadcasts, refusal
from bench_run.reference.threads import Part, cut, do_each

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Node


# SciPy's special functions. SciPy is loaded when one of them is called: it takes longer than many
# a graph, and most graphs need none.


def erf(x: Array) -> Array:
    from scipy import special

    found: Array = special.erf(x)
    return found


def expit(x: Array) -> Array:
    """The logistic function 1/(1 + e⁻ˣ)."""
    from scipy import special

    found: Array = special.expit(x)
    return found


def ndtr(x: Array) -> Array:
    """The normal distribution's cumulative function Φ(x)."""
    from scipy import special

    found: Array = special.ndtr(x)
    return found


# Parameters of activations, with hipDNN's defaults filled in.


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


SQRT_2_PI = np.sqrt(2.0 / np.pi)


def relu_gradient(p: Parameters, dy: Array, x: Array) -> Array:
    """x ≤ L: s; x > U: 0; else 1, so also at U and at NaN. Where the factor is 0, so is dx, even
    if dy is infinite or NaN."""
    low = p.slope * dy if p.slope else 0.0
    return np.where(x <= p.lower, low, np.where(x > p.upper, 0.0, dy))


def elu_gradient(p: Parameters, dy: Array, x: Array) -> Array:
    """x > 0: 1; else α·eˣ."""
    return dy * np.where(x > 0, 1.0, p.elu_alpha * np.exp(x))


def gelu_gradient(_p: Parameters, dy: Array, x: Array) -> Array:
    """Φ(x) + x·φ(x)."""
    density = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    return np.asarray(dy * (ndtr(x) + x * density))


def gelu_tanh_gradient(_p: Parameters, dy: Array, x: Array) -> Array:
    """½(1 + t) + ½x(1 − t²)·√(2/π)·(1 + 3·0.044715x²), t the forward's tanh."""
    t = np.tanh(SQRT_2_PI * (x + 0.044715 * x**3))
    inner = SQRT_2_PI * (1.0 + 3.0 * 0.044715 * x * x)
    return np.asarray(dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner))


def sigmoid_gradient(_p: Parameters, dy: Array, x: Array) -> Array:
    """σ(x)·(1 − σ(x)), the latter as σ(−x)."""
    return np.asarray(dy * expit(x) * expit(-x))


def softplus_gradient(p: Parameters, dy: Array, x: Array) -> Array:
    """σ(βx)."""
    return np.asarray(dy * expit(p.softplus_beta * x))


def swish_gradient(p: Parameters, dy: Array, x: Array) -> Array:
    """σ(βx) + βx·σ(βx)·(1 − σ(βx))."""
    z = p.swish_beta * x
    return np.asarray(dy * expit(z) * (1.0 + z * expit(-z)))


def tanh_gradient(_p: Parameters, dy: Array, x: Array) -> Array:
    """1 − tanh²x, as 1/cosh²x: no cancellation for large x."""
    return np.asarray(dy / np.cosh(x) ** 2)


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

BLOCK_ELEMENTS = 2**16
"""Elements of a result that are computed at a time."""


def pointwise(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    mode = str(node.attributes.get("operation"))
    dims = outputs["out_0"].dims
    if mode == "gen_index":
        return {"out_0": gen_index(node, dims)}
    if mode not in MODES:
        raise refusal(node, f"no pointwise mode {mode!r}; known are {', '.join(sorted(MODES))}")
    arity, function = MODES[mode]
    ports = tuple(f"in_{i}" for i in range(arity))
    if any(port not in inputs for port in ports):
        raise refusal(node, f"mode {mode} needs {', '.join(ports)}")
    given = (inputs[port] for port in ports)
    operands = [x.astype(np.int64) if x.dtype.kind == "b" else x for x in given]
    for port, operand in zip(ports, operands, strict=True):
        if not broadcasts(operand.shape, dims):
            raise refusal(node, f"{port} of {operand.shape} does not broadcast to {dims}")
    return {"out_0": _in_blocks(partial(_saturated, function, parameters(node)), operands, dims)}


def _saturated(function: Function, given: Parameters, *operands: Array) -> Array:
    """Integers beyond 64 bits become the end of the range, as in narrower types (`rounding.py`),
    where NumPy would wrap."""
    found = function(given, *operands)
    if found.dtype != np.int64 or all(_is_small(operand) for operand in operands):
        return found
    real = np.asarray(function(given, *(operand.astype(np.float64) for operand in operands)))
    limits = np.iinfo(np.int64)
    beyond = (np.abs(real) > 1.001 * 2.0**63) | (
        (np.abs(real) > 2.0**62) & ((real < 0) != (found < 0))
    )
    return np.where(beyond, np.where(real < 0, limits.min, limits.max), found)


def _is_small(operand: Array) -> bool:
    """Products of two such numbers, plus a third, are within 64 bits."""
    if operand.dtype != np.int64 or operand.size == 0:
        return True
    return bool(operand.min() > -(2**31) and operand.max() < 2**31)


def _in_blocks(function: Function, operands: list[Array], dims: tuple[int, ...]) -> Array:
    """The function block by block: intermediate results then stay in the cache."""
    wide = [np.broadcast_to(operand, dims) for operand in operands]
    if prod(dims) <= BLOCK_ELEMENTS:
        return function(*wide)
    parts = list(cut(dims, BLOCK_ELEMENTS))
    first = function(*(operand[parts[0]] for operand in wide))
    result = np.empty(dims, first.dtype)
    result[parts[0]] = first

    def fill(part: Part) -> None:
        result[part] = function(*(operand[part] for operand in wide))

    do_each(fill, parts[1:])
    return result


def gen_index(node: Node, dims: tuple[int, ...]) -> Array:
    """gen_index: each element is its own index along the axis."""
    axis = node.attributes.get("axis", node.attributes.get("axis_tensor_uid"))
    if axis is None or not 0 <= axis < len(dims):
        raise refusal(node, f"gen_index needs an axis from 0 to {len(dims) - 1}, not {axis!r}")
    shape = tuple(length if i == axis else 1 for i, length in enumerate(dims))
    return np.broadcast_to(np.arange(dims[axis], dtype=np.int64).reshape(shape), dims)


def relu(p: Parameters, x: Array) -> Array:
    """x ≤ L: s·(x − L) + L, which is L for s = 0 even at x = −∞; x ≥ U: U; else x."""
    low = p.slope * (x - p.lower) + p.lower if p.slope else p.lower
    return np.where(x <= p.lower, low, np.where(x >= p.upper, p.upper, x))


def elu(p: Parameters, x: Array) -> Array:
    """x > 0: x; else α·(eˣ − 1)."""
    return np.where(x > 0, x, p.elu_alpha * np.expm1(x))


def gelu_tanh(_p: Parameters, x: Array) -> Array:
    """½x·(1 + tanh(√(2/π)·(x + 0.044715x³)))."""
    t = np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3))
    return np.asarray(0.5 * x * (1.0 + t))


def swish(p: Parameters, x: Array) -> Array:
    """x·σ(βx)."""
    return np.asarray(x * expit(p.swish_beta * x))


def softplus(p: Parameters, x: Array) -> Array:
    """ln(1 + e^{βx})/β."""
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
    "sigmoid_fwd": expit,
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
    "add_square": lambda a, b: a + b * b,
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
    """in_2 ? in_0 : in_1, cuDNN's order; hipDNN's reference has its booleans in in_2 too."""
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
