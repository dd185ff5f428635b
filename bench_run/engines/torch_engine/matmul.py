"""Matrix products, batches in consecutive groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import torch

from bench_run.engines.torch_engine.op import BoundKernel, TorchOp, elementwise

if TYPE_CHECKING:
    from collections.abc import Callable

T: TypeAlias = torch.Tensor


def matmul(op: TorchOp) -> BoundKernel:
    """Return the kernel of a product. A batch dim of A or B divides C's, each of its matrices
    serving as many in a row."""
    a, b, c = (op.dims(port) for port in ("a", "b", "c"))
    own = op.working_type("a", "b", result="a")
    dtype = op.working_type("a", "b", result="c")
    multiply: Callable[[T, T], T] = torch.matmul
    if dtype != own and dtype == torch.float32 and op.device.type == "cuda":
        dtype, multiply = own, multiply_finer  # operands stay narrow, for the matrix units
    repeats = {"a": _repeats(op, a, c), "b": _repeats(op, b, c)}

    def function(a: T, b: T) -> T:
        a = _grouped(elementwise(a, dtype), repeats["a"])
        b = _grouped(elementwise(b, dtype), repeats["b"])
        return multiply(a, b)

    return BoundKernel(("a", "b"), ("c",), function)


def _repeats(
    op: TorchOp, part: tuple[int, ...], whole: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    """Return (axis, times) for the axes that `torch.matmul` does not broadcast by itself."""
    pairs = list(zip(part[:-2], whole[:-2], strict=True))
    if any(w % p for p, w in pairs):
        raise op.refusal(f"batch dims {part[:-2]} do not divide {whole[:-2]}")
    return tuple((i, w // p) for i, (p, w) in enumerate(pairs) if p not in (1, w))


def multiply_finer(a: T, b: T) -> T:
    """Return the product of narrow matrices in float32, without rounding it to their type."""
    batch = tuple(max(pair) for pair in zip(a.shape[:-2], b.shape[:-2], strict=True))
    if not batch:
        return torch.mm(a, b, out_dtype=torch.float32)
    a, b = (x.expand(*batch, *x.shape[-2:]).flatten(0, -3) for x in (a, b))
    c = torch.bmm(a, b, out_dtype=torch.float32)
    return c.reshape(*batch, *c.shape[-2:])


def _grouped(x: T, repeats: tuple[tuple[int, int], ...]) -> T:
    for axis, times in repeats:
        x = x.repeat_interleave(times, dim=axis)
    return x
