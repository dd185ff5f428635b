"""Elementwise operations.

Modes in `SINGLE` are one kernel each, which computes in float32 inside whatever it is given; they
take their inputs as they are. The others are made of several and run in the compute type.
Backward modes take in_0 = dy and in_1 = the forward input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import torch
from torch.nn import functional

from bench_run.engines.torch_engine.op import NATIVE, BoundKernel, TorchOp, elementwise
from bench_run.graph.meaning import axis_of
from bench_run.graph.operations.base import spreads
from bench_run.graph.operations.pointwise import OPERANDS, POINTWISE_MODES

T: TypeAlias = torch.Tensor
aten = torch.ops.aten
Maker = Callable[[TorchOp], Callable[..., T]]

SOFTPLUS_THRESHOLD = 40.0
"""βx from which on softplus is βx in every type."""


def pointwise(op: TorchOp) -> BoundKernel:
    mode = op.attribute("operation")
    if mode == "gen_index":
        return _gen_index(op)
    inputs = OPERANDS[: POINTWISE_MODES[mode].arity]
    kinds = {op.dtype(port) for port in inputs}
    out = op.dims("out_0")
    shapes = [op.dims(port) for port in inputs]
    if not all(spreads(dims, out) for dims in shapes):
        raise op.refusal(f"inputs do not broadcast to {out}")
    padded = [(1,) * (len(out) - len(dims)) + dims for dims in shapes]
    together = tuple(max(lengths) for lengths in zip(*padded, strict=True))
    function = MODES[mode](op)
    if not (mode in SINGLE and _as_they_are(op, kinds)):
        function = partial(computed, function, op.compute)
    if together != out:
        function = partial(filling, function, out)
    return BoundKernel(inputs, ("out_0",), function)


def _as_they_are(op: TorchOp, kinds: set[torch.dtype]) -> bool:
    """Return True for inputs of one type without widening, or of types that widen to the compute
    type."""
    if not kinds <= set(NATIVE):
        return False
    if len(kinds) == 1:
        kind = next(iter(kinds))
        return bool(
            op.compute == kind or (op.compute == torch.float32 and op.dtype("out_0") == kind)
        )
    widest = torch.float16
    for kind in kinds:
        widest = torch.promote_types(widest, kind)
    return bool(widest == op.compute)


def computed(function: Callable[..., T], dtype: torch.dtype, *inputs: T) -> T:
    return function(*(elementwise(x, dtype) for x in inputs))


def filling(function: Callable[..., T], dims: tuple[int, ...], *inputs: T) -> T:
    """Return the result of `function`, broadcast to `dims`: all inputs together are smaller than
    the output."""
    return function(*inputs).expand(dims)


def _gen_index(op: TorchOp) -> BoundKernel:
    """Return the kernel that gives the index along the axis; the key of the file's format says uid
    and means a number."""
    dims, axis = op.dims("out_0"), axis_of(op.node)
    assert axis is not None
    shape = [-1 if i == axis else 1 for i in range(len(dims))]
    index = torch.arange(dims[axis], device=op.device).reshape(shape)
    return BoundKernel((), ("out_0",), lambda: index.expand(dims).clone())


def _plain(function: Callable[..., T]) -> Maker:
    return lambda _op: function


def relu(op: TorchOp) -> Callable[..., T]:
    """Return the function x ≤ L: s·(x − L) + L; x ≥ U: U; otherwise x."""
    lower = float(op.attribute("relu_lower_clip", 0.0))
    upper = float(op.attribute("relu_upper_clip", math.inf))
    slope = float(op.attribute("relu_lower_clip_slope", 0.0))
    if slope == 0 and upper == math.inf:
        return torch.relu if lower == 0 else partial(torch.clamp_min, min=lower)
    if slope == 0:
        return partial(torch.clamp, min=lower, max=upper)
    if lower == 0 and upper == math.inf:
        return partial(functional.leaky_relu, negative_slope=slope)

    def clipped(x: T) -> T:
        low = torch.where(x <= lower, slope * (x - lower) + lower, x)
        return low.clamp(max=upper)

    return clipped


def relu_backward(op: TorchOp) -> Callable[..., T]:
    """Return the function for dy times (x ≤ L: s; x > U: 0; otherwise 1); 0 selects 0. PyTorch's
    own gradient of a clamp is 0 at U too."""
    lower = float(op.attribute("relu_lower_clip", 0.0))
    upper = float(op.attribute("relu_upper_clip", math.inf))
    slope = float(op.attribute("relu_lower_clip_slope", 0.0))
    if slope == 0 and upper == math.inf:
        return lambda dy, x: aten.threshold_backward(dy, x, lower)

    def gradient(dy: T, x: T) -> T:
        inside = torch.where(x <= lower, slope * dy if slope else 0.0, dy)
        return torch.where(x > upper, 0.0, inside)

    return gradient


def elu(op: TorchOp) -> Callable[..., T]:
    return partial(functional.elu, alpha=float(op.attribute("elu_alpha", 1.0)))


def elu_backward(op: TorchOp) -> Callable[..., T]:
    alpha = float(op.attribute("elu_alpha", 1.0))
    return lambda dy, x: aten.elu_backward(dy, alpha, 1.0, 1.0, False, x)


def softplus(op: TorchOp) -> Callable[..., T]:
    beta = float(op.attribute("softplus_beta", 1.0))
    return partial(functional.softplus, beta=beta, threshold=SOFTPLUS_THRESHOLD)


def softplus_backward(op: TorchOp) -> Callable[..., T]:
    beta = float(op.attribute("softplus_beta", 1.0))
    return lambda dy, x: aten.softplus_backward(dy, x, beta, SOFTPLUS_THRESHOLD)


def swish(op: TorchOp) -> Callable[..., T]:
    beta = float(op.attribute("swish_beta", 1.0))
    return functional.silu if beta == 1 else lambda x: x * torch.sigmoid(beta * x)


def swish_backward(op: TorchOp) -> Callable[..., T]:
    """Return the function dy·σ(βx)·(1 + βx·σ(−βx))."""
    beta = float(op.attribute("swish_beta", 1.0))
    if beta == 1:
        return lambda dy, x: aten.silu_backward(dy, x)
    return lambda dy, x: dy * torch.sigmoid(beta * x) * (1 + beta * x * torch.sigmoid(-beta * x))


def _gelu(approximate: str) -> Maker:
    return _plain(partial(functional.gelu, approximate=approximate))


def _gelu_backward(approximate: str) -> Maker:
    return _plain(lambda dy, x: aten.gelu_backward(dy, x, approximate=approximate))


UNARY: Mapping[str, Callable[..., T]] = {
    "abs": torch.abs,
    "ceil": torch.ceil,
    "erf": torch.erf,
    "exp": torch.exp,
    "floor": torch.floor,
    "identity": torch.clone,
    "log": torch.log,
    "logical_not": torch.logical_not,
    "neg": torch.neg,
    "reciprocal": torch.reciprocal,
    "rsqrt": torch.rsqrt,
    "sigmoid_fwd": torch.sigmoid,
    "sin": torch.sin,
    "sqrt": torch.sqrt,
    "tan": torch.tan,
    "tanh_fwd": torch.tanh,
}
BINARY: Mapping[str, Callable[..., T]] = {
    "add": torch.add,
    "add_square": lambda a, b: torch.addcmul(a, b, b),
    "cmp_eq": torch.eq,
    "cmp_ge": torch.ge,
    "cmp_gt": torch.gt,
    "cmp_le": torch.le,
    "cmp_lt": torch.lt,
    "cmp_neq": torch.ne,
    "div": torch.div,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "max_op": torch.maximum,
    "min_op": torch.minimum,
    "mul": torch.mul,
    "sub": torch.sub,
}
SINGLE: Mapping[str, Maker] = {
    **{mode: _plain(function) for mode, function in {**UNARY, **BINARY}.items()},
    "elu_bwd": elu_backward,
    "elu_fwd": elu,
    "gelu_approx_tanh_bwd": _gelu_backward("tanh"),
    "gelu_approx_tanh_fwd": _gelu("tanh"),
    "gelu_bwd": _gelu_backward("none"),
    "gelu_fwd": _gelu("none"),
    "relu_fwd": relu,
    "softplus_bwd": softplus_backward,
    "softplus_fwd": softplus,
}
COMPOSITE: Mapping[str, Maker] = {
    "binary_select": _plain(lambda a, b, condition: torch.where(condition != 0, a, b)),
    "relu_bwd": relu_backward,
    "sigmoid_bwd": _plain(lambda dy, x: aten.sigmoid_backward(dy, torch.sigmoid(x))),
    "swish_bwd": swish_backward,
    "swish_fwd": swish,
    "tanh_bwd": _plain(lambda dy, x: aten.tanh_backward(dy, torch.tanh(x))),
}
MODES: Mapping[str, Maker] = {**SINGLE, **COMPOSITE}
