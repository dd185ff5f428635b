"""What attention forward and backward share: scale, bias, which keys a row sees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import torch

from bench_run.engines.torch_engine.op import Op, elementwise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.operations.sdpa import Band

T: TypeAlias = torch.Tensor

LAUNCHES = 40
FACTORS = ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o")
DROPOUT = ("dropout_mask", "dropout_scale", "dropout_scale_inv")


@dataclass(frozen=True)
class Scale:
    """What q·kᵀ is multiplied by: a number, or a tensor that is read at run time."""

    value: float | None

    @classmethod
    def of(cls, op: Op) -> Scale:
        if op.has("scale"):
            return cls(op.constant("scale"))
        value = op.attribute("attn_scale_value")
        return cls(1.0 / math.sqrt(op.dims("q")[3]) if value is None else float(value))

    @property
    def ports(self) -> tuple[str, ...]:
        return ("scale",) if self.value is None else ()

    def factor(self, given: Mapping[str, T], dtype: torch.dtype) -> T | float:
        if self.value is not None:
            return self.value
        return elementwise(given["scale"], dtype).reshape(())


def refuse_uncertain(op: Op) -> None:
    if op.attribute("alibi_mask"):
        raise op.refusal("the slopes of alibi_mask are not documented")
    if op.attribute("dropout_probability") or op.present(*DROPOUT):
        raise op.refusal("dropout: its random numbers differ from engine to engine")
    if op.has("block_mask"):
        raise op.refusal("the meaning of block_mask is not documented")
    if op.attribute("padding_mask") and not op.has("seq_len_kv"):
        raise op.refusal("padding_mask without seq_len_q and seq_len_kv")
    if op.dims("q")[1] % op.dims("k")[1] or op.dims("q")[1] % op.dims("v")[1]:
        raise op.refusal("the heads of k or v do not divide those of q")
    for port in op.present(*FACTORS):
        if not _for_heads(op.dims(port), op.dims("q")):
            raise op.refusal(f"{port} is neither one number nor one for each head")


def _for_heads(dims: tuple[int, ...], q: tuple[int, ...]) -> bool:
    if math.prod(dims) == 1:
        return True
    one_each = len(dims) > 1 and math.prod(dims[2:]) == 1
    return one_each and dims[0] == q[0] and q[1] % dims[1] == 0


def per_head(value: T, heads: int, dtype: torch.dtype) -> T:
    """A factor for all, or one for each (batch, head), to multiply [B, H, …] with."""
    value = elementwise(value, dtype)
    if value.numel() == 1:
        return value.reshape(())
    value = value.reshape(value.shape[0], -1, 1, 1)
    return value.repeat_interleave(heads // value.shape[1], dim=1)


def shared(value: T, heads: int) -> T:
    """Key or value heads, each repeated for the query heads that share it."""
    times = heads // value.shape[1]
    return value if times == 1 else value.repeat_interleave(times, dim=1)


@dataclass(frozen=True)
class Visibility:
    """Which keys a row sees; lengths are [B] tensors, or None where all rows or keys are real."""

    band: Band
    queries: int
    keys: int

    def hidden(self, device: torch.device, rows: T | None, columns: T | None) -> T | None:
        """True where a key is out of sight, by [Sq, Skv] or [B, 1, Sq, Skv]; None: all seen."""
        i = torch.arange(self.queries, device=device)[:, None]
        j = torch.arange(self.keys, device=device)[None, :]
        found = None if columns is None else (j >= _by_batch(columns))
        shift = self._shift(rows, columns)
        if self.band.right is not None:
            found = _either(found, j > i + shift + self.band.right)
        if self.band.left is not None:
            found = _either(found, j < i + shift - self.band.left)
        return found

    def _shift(self, rows: T | None, columns: T | None) -> T | int:
        if not self.band.bottom_right:
            return 0
        last_key = self.keys if columns is None else _by_batch(columns)
        last_row = self.queries if rows is None else _by_batch(rows)
        return last_key - last_row


def rows_present(queries: int, rows: T) -> T:
    """True for the rows within a sequence's length: [B, 1, Sq, 1]."""
    return torch.arange(queries, device=rows.device)[:, None] < _by_batch(rows)


def _by_batch(lengths: T) -> T:
    return lengths.reshape(-1, 1, 1, 1)


def _either(first: T | None, second: T) -> T:
    return second if first is None else first | second
