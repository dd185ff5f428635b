"""Elementwise operations: each mode is a few calls that fill the output.

A mode's function is given an `Expression` and adds the calls; `out` serves as working memory, for
it is never one of the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.op import Op
    from bench_run.engines.numpy_engine.program import Operand

Array: TypeAlias = npt.NDArray[Any]
Ufunc: TypeAlias = Callable[..., object]

ROOT_HALF = math.sqrt(0.5)
ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBE = 0.044715


@dataclass(frozen=True)
class Expression:
    """Operands of one pointwise node, and the place for its result."""

    op: Op
    inputs: tuple[Array, ...]
    out: Array

    def put(self, ufunc: Ufunc, *inputs: Operand, out: Array | None = None) -> None:
        """`out` is the result's place unless another is given."""
        self.op.program.each(ufunc, *inputs, out=self.out if out is None else out)

    def temporary(self, dtype: npt.DTypeLike | None = None) -> Array:
        return self.op.program.scratch_like(self.out, dtype)

    def number(self, name: str, default: float) -> float:
        return float(self.op.attribute(name, default))


def pointwise(op: Op) -> None:
    mode = op.attribute("operation")
    if mode not in MODES:
        raise op.refusal(f"no pointwise mode {mode!r}; known are {', '.join(sorted(MODES))}")
    arity, function = MODES[mode]
    inputs = tuple(op.read(f"in_{i}") for i in range(arity))
    with op.writing("out_0") as out:
        if any(np.broadcast_shapes(x.shape, out.shape) != out.shape for x in inputs):
            raise op.refusal(f"inputs do not broadcast to {out.shape}")
        function(Expression(op, inputs, out))


def _ufunc(ufunc: Ufunc) -> Callable[[Expression], None]:
    def put(e: Expression) -> None:
        e.put(ufunc, *e.inputs)

    return put


def _gen_index(e: Expression) -> None:
    """The index along the axis; the key of the file's format says uid and means a number."""
    axis = e.op.attribute("axis", e.op.attribute("axis_tensor_uid"))
    if axis is None or not 0 <= axis < e.out.ndim:
        raise e.op.refusal(f"gen_index needs an axis from 0 to {e.out.ndim - 1}, not {axis!r}")
    shape = [1] * e.out.ndim
    shape[axis] = -1
    index = np.arange(e.out.shape[axis], dtype=e.out.dtype).reshape(shape)
    e.op.program.copy(e.out, np.broadcast_to(index, e.out.shape))


def _add_square(e: Expression) -> None:
    e.put(np.multiply, e.inputs[1], e.inputs[1])
    e.put(np.add, e.inputs[0], e.out)


def _binary_select(e: Expression) -> None:
    """in_2 ? in_0 : in_1, the order of cuDNN."""
    yes, no, condition = e.inputs
    chosen = e.temporary(np.bool_)
    e.put(np.not_equal, condition, 0, out=chosen)
    e.op.program.copy(e.out, np.broadcast_to(no, e.out.shape))
    _overwrite(e, yes, chosen)


def _overwrite(e: Expression, values: Operand, where: Array) -> None:
    """Puts `values` where the condition holds and leaves the rest."""

    def put(condition: Array, new: Operand, out: Array) -> None:
        np.copyto(out, new, where=condition)

    e.put(put, where, values)


def _erf(e: Expression) -> None:
    from scipy.special import erf

    e.put(erf, e.inputs[0])


def _rsqrt(e: Expression) -> None:
    e.put(np.sqrt, e.inputs[0])
    e.put(np.reciprocal, e.out)


def _relu_forward(e: Expression) -> None:
    """x ≤ L: s·(x − L) + L; x ≥ U: U; else x."""
    x = e.inputs[0]
    lower, upper = e.number("relu_lower_clip", 0.0), e.number("relu_upper_clip", math.inf)
    slope = e.number("relu_lower_clip_slope", 0.0)
    if slope == 0:
        e.put(np.maximum, x, lower)
    else:
        below, low = e.temporary(np.bool_), e.temporary()
        e.put(np.less_equal, x, lower, out=below)
        e.put(np.subtract, x, lower, out=low)
        e.put(np.multiply, low, slope, out=low)
        e.put(np.add, low, lower, out=low)
        e.op.program.copy(e.out, np.broadcast_to(x, e.out.shape))
        _overwrite(e, low, below)
    if upper != math.inf:
        e.put(np.minimum, e.out, upper)


def _relu_backward(e: Expression) -> None:
    """dy times (x ≤ L: s; x > U: 0; else 1); 0 selects 0."""
    dy, x = e.inputs
    lower, upper = e.number("relu_lower_clip", 0.0), e.number("relu_upper_clip", math.inf)
    slope = e.number("relu_lower_clip_slope", 0.0)
    outside = e.temporary(np.bool_)
    low: Operand = 0.0
    if slope:
        low = e.temporary()
        e.put(np.multiply, dy, slope, out=low)
    e.op.program.copy(e.out, np.broadcast_to(dy, e.out.shape))
    e.put(np.less_equal, x, lower, out=outside)
    _overwrite(e, low, outside)
    if upper != math.inf:
        e.put(np.greater, x, upper, out=outside)
        _overwrite(e, 0.0, outside)


def _sigmoid_of(e: Expression, x: Array, out: Array, beta: float = 1.0) -> None:
    """1/(1 + e^{−βx})."""
    e.put(np.multiply, x, -beta, out=out)
    e.put(np.exp, out, out=out)
    e.put(np.add, out, 1.0, out=out)
    e.put(np.reciprocal, out, out=out)


def _sigmoid_forward(e: Expression) -> None:
    _sigmoid_of(e, e.inputs[0], e.out)


def _sigmoid_backward(e: Expression) -> None:
    """dy·σ(x)·σ(−x): 1 − σ(x) would cancel."""
    dy, x = e.inputs
    other = e.temporary()
    _sigmoid_of(e, x, e.out)
    _sigmoid_of(e, x, other, -1.0)
    e.put(np.multiply, e.out, other)
    e.put(np.multiply, dy, e.out)


def _swish_forward(e: Expression) -> None:
    _sigmoid_of(e, e.inputs[0], e.out, e.number("swish_beta", 1.0))
    e.put(np.multiply, e.inputs[0], e.out)


def _swish_backward(e: Expression) -> None:
    """dy·σ(βx)·(1 + βx·σ(−βx))."""
    dy, x = e.inputs
    beta, other = e.number("swish_beta", 1.0), e.temporary()
    _sigmoid_of(e, x, other, -beta)
    e.put(np.multiply, x, other, out=other)
    e.put(np.multiply, other, beta, out=other)
    e.put(np.add, other, 1.0, out=other)
    _sigmoid_of(e, x, e.out, beta)
    e.put(np.multiply, e.out, other)
    e.put(np.multiply, dy, e.out)


def _tanh_backward(e: Expression) -> None:
    """dy/cosh²x: 1 − tanh²x would cancel."""
    dy, x = e.inputs
    e.put(np.cosh, x)
    e.put(np.multiply, e.out, e.out)
    e.put(np.divide, dy, e.out)


def _elu_forward(e: Expression) -> None:
    """x > 0: x; else α·(eˣ − 1)."""
    x, above = e.inputs[0], e.temporary(np.bool_)
    e.put(np.greater, x, 0.0, out=above)
    e.put(np.minimum, x, 0.0)
    e.put(np.expm1, e.out)
    e.put(np.multiply, e.out, e.number("elu_alpha", 1.0))
    _overwrite(e, x, above)


def _elu_backward(e: Expression) -> None:
    """dy times (x > 0: 1; else α·eˣ)."""
    dy, x = e.inputs
    above = e.temporary(np.bool_)
    e.put(np.greater, x, 0.0, out=above)
    e.put(np.minimum, x, 0.0)
    e.put(np.exp, e.out)
    e.put(np.multiply, e.out, e.number("elu_alpha", 1.0))
    _overwrite(e, 1.0, above)
    e.put(np.multiply, dy, e.out)


def _softplus_forward(e: Expression) -> None:
    """ln(1 + e^{βx})/β."""
    beta = e.number("softplus_beta", 1.0)
    e.put(np.multiply, e.inputs[0], beta)
    e.put(np.logaddexp, e.out, 0.0)
    e.put(np.multiply, e.out, 1.0 / beta)


def _softplus_backward(e: Expression) -> None:
    dy, x = e.inputs
    _sigmoid_of(e, x, e.out, e.number("softplus_beta", 1.0))
    e.put(np.multiply, dy, e.out)


def _normal_cdf(e: Expression, x: Array, out: Array) -> None:
    from scipy.special import ndtr

    e.put(ndtr, x, out=out)


def _gelu_forward(e: Expression) -> None:
    """x·Φ(x)."""
    _normal_cdf(e, e.inputs[0], e.out)
    e.put(np.multiply, e.inputs[0], e.out)


def _gelu_backward(e: Expression) -> None:
    """dy·(Φ(x) + x·φ(x))."""
    dy, x = e.inputs
    density = e.temporary()
    e.put(np.multiply, x, x, out=density)
    e.put(np.multiply, density, -0.5, out=density)
    e.put(np.exp, density, out=density)
    e.put(np.multiply, density, 1.0 / math.sqrt(2.0 * math.pi), out=density)
    e.put(np.multiply, x, density, out=density)
    _normal_cdf(e, x, e.out)
    e.put(np.add, e.out, density)
    e.put(np.multiply, dy, e.out)


def _gelu_argument(e: Expression, x: Array, out: Array) -> None:
    """√(2/π)·(x + 0.044715x³)."""
    e.put(np.multiply, x, x, out=out)
    e.put(np.multiply, out, CUBE, out=out)
    e.put(np.add, out, 1.0, out=out)
    e.put(np.multiply, x, out, out=out)
    e.put(np.multiply, out, ROOT_2_OVER_PI, out=out)


def _gelu_tanh_forward(e: Expression) -> None:
    """½x(1 + tanh u) = x·σ(2u), without the cancellation of the former."""
    x = e.inputs[0]
    _gelu_argument(e, x, e.out)
    _sigmoid_of(e, e.out, e.out, 2.0)
    e.put(np.multiply, x, e.out)


def _gelu_tanh_backward(e: Expression) -> None:
    """dy·(σ(2u) + x·2·σ(2u)·σ(−2u)·u′), u′ = √(2/π)·(1 + 3·0.044715x²)."""
    dy, x = e.inputs
    slope, other = e.temporary(), e.temporary()
    _gelu_argument(e, x, e.out)
    _sigmoid_of(e, e.out, other, -2.0)
    _sigmoid_of(e, e.out, e.out, 2.0)
    e.put(np.multiply, x, x, out=slope)
    e.put(np.multiply, slope, 3.0 * CUBE, out=slope)
    e.put(np.add, slope, 1.0, out=slope)
    e.put(np.multiply, slope, x, out=slope)
    e.put(np.multiply, slope, 2.0 * ROOT_2_OVER_PI, out=slope)
    e.put(np.multiply, slope, other, out=slope)
    e.put(np.add, slope, 1.0, out=slope)
    e.put(np.multiply, e.out, slope)
    e.put(np.multiply, dy, e.out)


UFUNCS: Mapping[str, tuple[int, Ufunc]] = {
    "abs": (1, np.absolute),
    "add": (2, np.add),
    "ceil": (1, np.ceil),
    "cmp_eq": (2, np.equal),
    "cmp_ge": (2, np.greater_equal),
    "cmp_gt": (2, np.greater),
    "cmp_le": (2, np.less_equal),
    "cmp_lt": (2, np.less),
    "cmp_neq": (2, np.not_equal),
    "div": (2, np.divide),
    "exp": (1, np.exp),
    "floor": (1, np.floor),
    "identity": (1, np.positive),
    "log": (1, np.log),
    "logical_and": (2, np.logical_and),
    "logical_not": (1, np.logical_not),
    "logical_or": (2, np.logical_or),
    "max_op": (2, np.maximum),
    "min_op": (2, np.minimum),
    "mul": (2, np.multiply),
    "neg": (1, np.negative),
    "reciprocal": (1, np.reciprocal),
    "sin": (1, np.sin),
    "sqrt": (1, np.sqrt),
    "sub": (2, np.subtract),
    "tan": (1, np.tan),
    "tanh_fwd": (1, np.tanh),
}

MODES: Mapping[str, tuple[int, Callable[[Expression], None]]] = {
    **{mode: (arity, _ufunc(ufunc)) for mode, (arity, ufunc) in UFUNCS.items()},
    "add_square": (2, _add_square),
    "binary_select": (3, _binary_select),
    "elu_bwd": (2, _elu_backward),
    "elu_fwd": (1, _elu_forward),
    "erf": (1, _erf),
    "gelu_approx_tanh_bwd": (2, _gelu_tanh_backward),
    "gelu_approx_tanh_fwd": (1, _gelu_tanh_forward),
    "gelu_bwd": (2, _gelu_backward),
    "gelu_fwd": (1, _gelu_forward),
    "gen_index": (0, _gen_index),
    "relu_bwd": (2, _relu_backward),
    "relu_fwd": (1, _relu_forward),
    "rsqrt": (1, _rsqrt),
    "sigmoid_bwd": (2, _sigmoid_backward),
    "sigmoid_fwd": (1, _sigmoid_forward),
    "softplus_bwd": (2, _softplus_backward),
    "softplus_fwd": (1, _softplus_forward),
    "swish_bwd": (2, _swish_backward),
    "swish_fwd": (1, _swish_forward),
    "tanh_bwd": (2, _tanh_backward),
}
"""Arity and function by mode. Backward modes take in_0 = dy and in_1 = the forward input."""
