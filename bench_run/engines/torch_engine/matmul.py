"""Matrix products, batches in consecutive groups."""

from __future__ import annotations

import torch

from bench_run.engines.torch_engine.op import Call, Op, elementwise

T = torch.Tensor


def matmul(op: Op) -> Call:
    """A batch dim of A or B divides C's, each of its matrices serving as many in a row."""
    a, b, c = (op.dims(port) for port in ("a", "b", "c"))
    dtype = op.working_type("a", "b")
    repeats = {"a": _repeats(op, a, c), "b": _repeats(op, b, c)}

    def function(a: T, b: T) -> T:
        a = _grouped(elementwise(a, dtype), repeats["a"])
        b = _grouped(elementwise(b, dtype), repeats["b"])
        return torch.matmul(a, b)

    return Call(("a", "b"), ("c",), function)


def _repeats(op: Op, part: tuple[int, ...], whole: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(axis, times) for the axes that `torch.matmul` does not broadcast by itself."""
    pairs = list(zip(part[:-2], whole[:-2], strict=True))
    if any(w % p for p, w in pairs):
        raise op.refusal(f"batch dims {part[:-2]} do not divide {whole[:-2]}")
    return tuple((i, w // p) for i, (p, w) in enumerate(pairs) if p not in (1, w))


def _grouped(x: T, repeats: tuple[tuple[int, int], ...]) -> T:
    for axis, times in repeats:
        x = x.repeat_interleave(times, dim=axis)
    return x
