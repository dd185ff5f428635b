"""Elementwise operations: one function of arrays for each mode.

Backward modes take dy and the forward input. A mode's numbers are arguments under their names in
the graph, with the defaults that an absent one means. Sigmoids and tanh are written so that
nothing cancels: σ(−x) for 1 − σ(x), 1/cosh²x for 1 − tanh²x.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bench_run.engines.numpy_engine.common import refusal
from bench_run.graph.operations import POINTWISE_MODES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.engines.numpy_engine.common import Array
    from bench_run.graph.operations import NodeView

ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBE = 0.044715


def refuse(node: NodeView) -> None:
    mode = node.attribute("operation")
    if mode not in MODES:
        raise refusal(node, f"no pointwise mode {mode!r}; known are {', '.join(sorted(MODES))}")


def pointwise(
    node: NodeView, in_0: Array, in_1: Array | None = None, in_2: Array | None = None
) -> dict[str, Array]:
    mode = node.attribute("operation")
    numbers = {name: node.attribute(name) for name in POINTWISE_MODES[mode].attributes}
    given = {name: number for name, number in numbers.items() if number is not None}
    return {"out_0": MODES[mode](*(x for x in (in_0, in_1, in_2) if x is not None), **given)}


def select(yes: Array, no: Array, condition: Array) -> Array:
    return np.where(condition != 0, yes, no)


def sigmoid(x: Array, beta: float = 1.0) -> Array:
    """1/(1 + e^{−βx})."""
    return 1.0 / (1.0 + np.exp(-beta * x))


def sigmoid_backward(dy: Array, x: Array) -> Array:
    return dy * sigmoid(x) * sigmoid(x, -1.0)


def swish(x: Array, swish_beta: float = 1.0) -> Array:
    return x * sigmoid(x, swish_beta)


def swish_backward(dy: Array, x: Array, swish_beta: float = 1.0) -> Array:
    """dy·σ(βx)·(1 + βx·σ(−βx))."""
    slope = 1.0 + swish_beta * (x * sigmoid(x, -swish_beta))
    return dy * sigmoid(x, swish_beta) * slope


def tanh_backward(dy: Array, x: Array) -> Array:
    return dy / np.square(np.cosh(x))


def relu(
    x: Array,
    relu_lower_clip: float = 0.0,
    relu_upper_clip: float = math.inf,
    relu_lower_clip_slope: float = 0.0,
) -> Array:
    """x ≤ L: s·(x − L) + L; x ≥ U: U; else x."""
    if relu_lower_clip_slope == 0:
        y = np.maximum(x, relu_lower_clip)
    else:
        below = (x - relu_lower_clip) * relu_lower_clip_slope + relu_lower_clip
        y = np.where(x <= relu_lower_clip, below, x)
    return y if relu_upper_clip == math.inf else np.minimum(y, relu_upper_clip)


def relu_backward(
    dy: Array,
    x: Array,
    relu_lower_clip: float = 0.0,
    relu_upper_clip: float = math.inf,
    relu_lower_clip_slope: float = 0.0,
) -> Array:
    """dy times (x ≤ L: s; x > U: 0; else 1); 0 selects 0."""
    zero = np.zeros_like(dy)
    below = dy * relu_lower_clip_slope if relu_lower_clip_slope else zero
    return np.where(x <= relu_lower_clip, below, np.where(x > relu_upper_clip, zero, dy))


def elu(x: Array, elu_alpha: float = 1.0) -> Array:
    """x > 0: x; else α·(eˣ − 1)."""
    return np.where(x > 0, x, elu_alpha * np.expm1(np.minimum(x, 0.0)))


def elu_backward(dy: Array, x: Array, elu_alpha: float = 1.0) -> Array:
    """dy times (x > 0: 1; else α·eˣ)."""
    return np.where(x > 0, dy, dy * (elu_alpha * np.exp(np.minimum(x, 0.0))))


def softplus(x: Array, softplus_beta: float = 1.0) -> Array:
    """ln(1 + e^{βx})/β."""
    return np.logaddexp(x * softplus_beta, np.zeros_like(x)) * (1.0 / softplus_beta)


def softplus_backward(dy: Array, x: Array, softplus_beta: float = 1.0) -> Array:
    return dy * sigmoid(x, softplus_beta)


def erf(x: Array) -> Array:
    from scipy import special  # half a second, for two modes

    values: Array = special.erf(x)
    return values


def normal_cdf(x: Array) -> Array:
    from scipy import special

    values: Array = special.ndtr(x)
    return values


def gelu(x: Array) -> Array:
    """x·Φ(x)."""
    return x * normal_cdf(x)


def gelu_backward(dy: Array, x: Array) -> Array:
    """dy·(Φ(x) + x·φ(x))."""
    density = np.exp(-0.5 * np.square(x)) * (1.0 / math.sqrt(2.0 * math.pi))
    return dy * (normal_cdf(x) + x * density)


def gelu_tanh(x: Array) -> Array:
    """½x(1 + tanh u) = x·σ(2u), u = √(2/π)·(x + 0.044715x³)."""
    u = ROOT_2_OVER_PI * (x * (1.0 + CUBE * np.square(x)))
    return x * sigmoid(u, 2.0)


def gelu_tanh_backward(dy: Array, x: Array) -> Array:
    """dy·(σ(2u) + x·2·σ(2u)·σ(−2u)·u′), u′ = √(2/π)·(1 + 3·0.044715x²)."""
    u = ROOT_2_OVER_PI * (x * (1.0 + CUBE * np.square(x)))
    slope = 2.0 * ROOT_2_OVER_PI * (1.0 + 3.0 * CUBE * np.square(x))
    return dy * (sigmoid(u, 2.0) * (1.0 + x * slope * sigmoid(u, -2.0)))


def gen_index(x: Array, axis_tensor_uid: int) -> Array:
    """The index along the axis; the key of the file's format says uid and means a number."""
    index = np.arange(x.shape[axis_tensor_uid], dtype=x.dtype)
    along = index.reshape(-1, *(1,) * (x.ndim - 1 - axis_tensor_uid))
    return np.broadcast_to(along, x.shape)


MODES: Mapping[str, Callable[..., Array]] = {
    "abs": np.abs,
    "add": np.add,
    "add_square": lambda x, b: x + np.square(b),
    "binary_select": select,
    "ceil": np.ceil,
    "cmp_eq": np.equal,
    "cmp_ge": np.greater_equal,
    "cmp_gt": np.greater,
    "cmp_le": np.less_equal,
    "cmp_lt": np.less,
    "cmp_neq": np.not_equal,
    "div": np.divide,
    "elu_bwd": elu_backward,
    "elu_fwd": elu,
    "erf": erf,
    "exp": np.exp,
    "floor": np.floor,
    "gelu_approx_tanh_bwd": gelu_tanh_backward,
    "gelu_approx_tanh_fwd": gelu_tanh,
    "gelu_bwd": gelu_backward,
    "gelu_fwd": gelu,
    "gen_index": gen_index,
    "identity": np.positive,
    "log": np.log,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "max_op": np.maximum,
    "min_op": np.minimum,
    "mul": np.multiply,
    "neg": np.negative,
    "reciprocal": np.reciprocal,
    "relu_bwd": relu_backward,
    "relu_fwd": relu,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sigmoid_bwd": sigmoid_backward,
    "sigmoid_fwd": sigmoid,
    "sin": np.sin,
    "softplus_bwd": softplus_backward,
    "softplus_fwd": softplus,
    "sqrt": np.sqrt,
    "sub": np.subtract,
    "swish_bwd": swish_backward,
    "swish_fwd": swish,
    "tan": np.tan,
    "tanh_bwd": tanh_backward,
    "tanh_fwd": np.tanh,
}
