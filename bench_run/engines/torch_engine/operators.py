"""Operators of the table (`graph/make/operators`): their formulas as functions of tensors."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: F401, N812 - a name of the formulas

from bench_run.engines.torch_engine.op import TYPES, UNKNOWN_LAUNCHES, BoundKernel
from bench_run.graph.make.operators import row_of
from bench_run.graph.make.operators.row import BACKWARD, FORWARD, JOINT, PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_run.engines.torch_engine.op import TorchOp, Values
    from bench_run.graph.make.operators.row import Operator

T: TypeAlias = torch.Tensor


def operator(op: TorchOp) -> BoundKernel:
    """Return the formulas of the node's row, with its parameters as constants."""
    row, direction, params = row_of(op.node)
    if op.device.type in row.refused:
        raise op.refusal(row.refused[op.device.type])
    dtype = TYPES[op.graph.io_data_type]
    names = {**vars(torch), **globals(), **params, "device": op.device, "dtype": dtype}
    names.pop("__name__")  # else `torch.compile` looks for the names in a module
    names["like"] = {"dtype": dtype, "device": op.device}
    reads, _ = row.names(direction)
    text = row.torch or row.text
    names["place"] = _places(op.dims("output_0"), dtype, op.device)
    if direction == FORWARD:
        function = _function(reads, text, names)
    elif direction == BACKWARD:
        function = _function(reads, _gradients(op, row), names)
    else:
        function = _joint(row, _function(tuple(row.inputs), text, names))
    return BoundKernel(
        tuple(op.node.inputs),
        tuple(op.node.outputs),
        _shaped(function, [op.dims(port) for port in op.node.outputs]),
        UNKNOWN_LAUNCHES,
        compiles=direction != JOINT and "place(x)" not in text,
    )


def _places(
    dims: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that gives the memory for the result of an operator in place: one for each
    copy of its inputs."""
    made: dict[int, torch.Tensor] = {}

    def place(x: torch.Tensor) -> torch.Tensor:
        key = x.data_ptr()
        if key not in made:
            made[key] = torch.empty(dims, dtype=dtype, device=device)
        return made[key]

    return place


def _function(reads: Sequence[str], text: str, names: dict[str, Any]) -> Callable[..., Values]:
    made: Callable[..., Values] = eval(f"lambda {', '.join(reads)}: ({text})", names)  # noqa: S307
    return made


def _gradients(op: TorchOp, row: Operator) -> str:
    texts = [row.torch_grads.get(name, text) for name, text in row.grads.items()]
    if not all(texts):
        name = op.node.attributes["custom_op_id"].removeprefix(PREFIX)
        what = f"PyTorch has no call for {name} alone; direction=joint measures it with {row.name}"
        raise op.refusal(what)
    return ", ".join(texts) + ("," if len(texts) > 1 else "")


def _joint(row: Operator, forward: Callable[..., Values]) -> Callable[..., Values]:
    """Return a function that computes the forward results and, by autograd, the gradients."""
    wanted = [list(row.inputs).index(name) for name in row.gradients]
    seen: dict[tuple[int, int], torch.Tensor] = {}

    def leaf(value: torch.Tensor, index: int) -> torch.Tensor:
        """Return the same memory as a tensor that autograd takes: the engine's are made in
        inference mode."""
        key = index, value.data_ptr()  # two inputs of a chain may be one tensor
        if key not in seen:
            seen[key] = torch.empty(0, dtype=value.dtype, device=value.device).set_(
                value.untyped_storage(), value.storage_offset(), value.size(), value.stride()
            )
            seen[key].requires_grad_(index in wanted)
        return seen[key]

    def run(*given: torch.Tensor) -> Values:
        with torch.inference_mode(mode=False), torch.enable_grad():
            values = [leaf(value, index) for index, value in enumerate(given)]
            results = forward(*values[:-1])
            results = results if isinstance(results, tuple) else (results,)
            first = results[0]
            grads = torch.autograd.grad(
                first, [values[i] for i in wanted], values[-1].reshape(first.shape)
            )
        return (*(each.detach() for each in results), *grads)

    return run


def _shaped(function: Callable[..., Values], dims: list[tuple[int, ...]]) -> Callable[..., Values]:
    """Return the function with results of these dims: hipDNN's scalars have one axis."""
    flat = [lengths == (1,) for lengths in dims]
    if not any(flat):
        return function

    def run(*given: torch.Tensor) -> Values:
        found = function(*given)
        parts = found if isinstance(found, tuple) else (found,)
        return tuple(p.reshape(1) if f else p for p, f in zip(parts, flat, strict=True))

    return run


# Functions of the formulas that PyTorch lacks, or names differently.
degrees, radians = torch.rad2deg, torch.deg2rad


def logaddexp(x: T | float, y: T) -> T:
    return torch.logaddexp(torch.as_tensor(float(x), dtype=y.dtype, device=y.device), y)


def spread(x: T, dims: tuple[int, ...]) -> T:
    return x.expand(dims).contiguous()


def sum_to(x: T, like: T) -> T:
    return x.sum_to_size(like.shape)


@cache
def _kept(length: int, first: int, step: int, device: torch.device) -> T:
    return torch.tensor([i for i in range(length) if i % step != first], device=device)


def delete(x: T, skipped: slice, axis: int) -> T:
    """Return x without some elements of an axis."""
    first, step, length = skipped.start, skipped.step, x.shape[axis]
    if step == 2 and length % 2 == 0:
        return x.narrow(axis, 1 - first, length - 1).unfold(axis, 1, 2).squeeze(-1)
    return x.index_select(axis, _kept(length, first, step, x.device))


def scatter_rows(dy: T, i: T, n: int) -> T:
    return torch.zeros((n, *dy.shape[1:]), dtype=dy.dtype, device=dy.device).index_add_(0, i, dy)


def scatter_columns(dy: T, i: T, dims: tuple[int, ...]) -> T:
    return torch.zeros(dims, dtype=dy.dtype, device=dy.device).scatter_(1, i, dy)


def set_rows(x: T, b: T) -> T:
    return torch.slice_scatter(x, b, 0, 0, len(b))


def shares(mask: T, axis: int | tuple[int, ...]) -> T:
    return mask / mask.sum(axis, keepdim=True)


def padded(x: T, rows: int, columns: int) -> T:
    return torch.nn.functional.pad(x, (columns, columns, rows, rows))


def widths(given: tuple[int, ...] | None, dims: tuple[int, ...]) -> tuple[int, ...]:
    return given or (2,) * len(dims)


def pad(x: T, before: tuple[int, ...], after: tuple[int, ...], value: float) -> T:
    around = [n for pair in zip(reversed(before), reversed(after), strict=True) for n in pair]
    return torch.nn.functional.pad(x, around, value=value)


def parts(x: T, axis: int, first: int) -> tuple[T, ...]:
    one, other = x.tensor_split([first], axis)
    return one, other


def halves(x: T, axis: int) -> tuple[T, ...]:
    first, second = torch.chunk(x, 2, axis)
    return first, second


def shape_of(x: T) -> T:
    return torch.tensor(x.shape, device=x.device)


def size_of(x: T) -> T:
    return torch.tensor([x.numel()], device=x.device)


def depth_to_space(x: T, r: int) -> T:
    """Return x with blocks of r x r channels beside each other, places before channels: ``dcr``,
    the order that PyTorch's own call does not have."""
    n, c, h, w = x.shape
    parts = x.reshape(n, r, r, c // (r * r), h, w).permute(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // (r * r), h * r, w * r)


def space_to_depth(x: T, r: int) -> T:
    """Return the inverse of `depth_to_space`."""
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // r, r, w // r, r).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * r * r, h // r, w // r)


def loss(function: Callable[..., T], how: str, *given: T) -> T:
    """Return a loss of PyTorch, its own reductions by itself."""
    if how in ("mean", "sum", "none"):
        return function(*given, reduction=how)
    return reduced(function(*given, reduction="none"), how)


def reduced(x: T, how: str) -> T:
    if how == "none":
        return x
    if how == "rows":
        return x.reshape(len(x), -1).mean(1)
    return x.mean() if how == "mean" else x.sum() / (1 if how == "sum" else len(x))


def share(dy: T, how: str, rows: int, columns: int = 1) -> T:
    if how == "rows" and columns > 1:
        return dy[:, None] / columns
    return dy / {"mean": rows * columns, "batchmean": rows}.get(how, 1)


def sequence_reverse(x: T, lengths: T, steps: T, batch: T) -> T:
    last = lengths - 1 - steps[:, None]
    return x[torch.where(last >= 0, last, steps[:, None]), batch]


def sgd_momentum(w: T, g: T, m: T, lr: float, wd: float, momentum: float) -> tuple[T, ...]:
    m = momentum * m - lr * (g + wd * w)
    return w + m, m


def adam(
    w: T, g: T, m: T, v: T, lr: float, wd: float, b1: float, b2: float, eps: float
) -> tuple[T, ...]:
    g = g.add(w, alpha=wd)
    m, v = torch.lerp(g, m, b1), (v * b2).addcmul(g, g, value=1 - b2)
    return torch.addcdiv(w, m, v.sqrt().add_(eps), value=-lr), m, v


def adagrad(w: T, g: T, v: T, lr: float, wd: float, eps: float) -> tuple[T, ...]:
    v = torch.addcmul(v, g, g)
    return w - lr * (g / (v + eps).sqrt() + wd * w), v


def rmsprop(w: T, g: T, v: T, lr: float, wd: float, decay: float, eps: float) -> tuple[T, ...]:
    g = g.add(w, alpha=wd)
    v = (v * decay).addcmul(g, g, value=1 - decay)
    return torch.addcdiv(w, g, (v + eps).sqrt(), value=-lr), v


def rnn_layer(x: T, s: T, *weights: T) -> T:
    return torch.rnn_tanh(x, s[None], weights, True, 1, 0.0, torch.is_grad_enabled(), False, False)[
        0
    ]


def gru_layer(x: T, s: T, *weights: T) -> T:
    return torch.gru(x, s[None], weights, True, 1, 0.0, torch.is_grad_enabled(), False, False)[0]


def lstm_layer(x: T, s: T, m: T, *weights: T) -> T:
    return torch.lstm(
        x, (s[None], m[None]), weights, True, 1, 0.0, torch.is_grad_enabled(), False, False
    )[0]


def rnn_cell(x: T, s: T, *weights: T) -> T:
    return torch.rnn_tanh_cell(x, s, *weights)


def lstm_cell(x: T, s: T, m: T, *weights: T) -> T:
    return torch.lstm_cell(x, (s, m), *weights)[0]
