"""Queries, keys and values of each sequence: dense, padded or paged.

Padded: seq_len_q and seq_len_kv hold one real length a sequence. Paged: k and v are pages
[pages, Hk, page size, D], named by page_table_k and page_table_v [sequences, pages of one]; a q
with a batch of 1 then holds the sequences one after another, seq_len_q rows each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import torch

if TYPE_CHECKING:
    from bench_run.engines.torch_engine.op import Op

T: TypeAlias = torch.Tensor
Given = Mapping[str, T]


@dataclass(frozen=True)
class Sequences:
    ports: tuple[str, ...]
    count: int
    queries: int
    """Rows of the longest sequence."""
    keys: int
    paged: bool
    packed: bool

    @classmethod
    def of(cls, op: Op) -> Sequences:
        lengths = op.present("seq_len_q", "seq_len_kv")
        pages = op.present("page_table_k", "page_table_v")
        batch, _, rows, _ = op.dims("q")
        if not pages:
            found = cls(lengths, batch, rows, op.dims("k")[2], False, False)
        elif len(pages) == 1 or "seq_len_kv" not in lengths:
            raise op.refusal("pages need page_table_k, page_table_v and seq_len_kv")
        else:
            count, page = op.dims("page_table_k")[0], op.dims("k")[2]
            keys = op.tensor("page_table_k").elements // count * page
            stated = op.attribute("max_seq_len_kv", keys)
            if not keys - page < stated <= keys:
                raise op.refusal(f"pages for {keys} keys contradict a max_seq_len_kv of {stated}")
            stated = op.attribute("max_seq_len_kv", keys)
            if not keys - op.dims("k")[2] < stated <= keys:
                raise op.refusal(f"pages of {keys} keys contradict a max_seq_len_kv of {stated}")
            packed = batch == 1 and count > 1
            found = cls((*lengths, *pages), count, rows, keys, True, packed)
        found._check(op, lengths)
        return found

    def _check(self, op: Op, lengths: tuple[str, ...]) -> None:
        for port in lengths:
            if op.tensor(port).elements != self.count:
                have = op.tensor(port).elements
                raise op.refusal(f"{port} has {have} entries for {self.count} sequences")
        if self.packed and "seq_len_q" not in lengths:
            raise op.refusal("packed queries need seq_len_q")
        if self.paged and not self.packed and op.dims("q")[0] != self.count:
            raise op.refusal(f"{self.count} page tables for a batch of {op.dims('q')[0]}")

    def lengths(self, given: Given) -> tuple[T | None, T | None]:
        """Of queries and keys."""
        found = (given.get(port) for port in ("seq_len_q", "seq_len_kv"))
        rows, columns = (None if n is None else n.reshape(-1).to(torch.int64) for n in found)
        return rows, columns

    def keys_of(self, pool: T, table: T | None) -> T:
        """[sequences, heads, keys, size]."""
        if table is None:
            return pool
        pages = pool[table.reshape(self.count, -1).to(torch.int64)]
        return pages.transpose(1, 2).flatten(2, 3)

    def queries_of(self, q: T, rows: T | None) -> T:
        """[sequences, H, Sq, D]; packed rows are spread out."""
        if not self.packed or rows is None:
            return q
        first = (rows.cumsum(0) - rows)[:, None]
        places = first + torch.arange(self.queries, device=q.device)
        return q[0][:, places.clamp_max(self.queries - 1)].transpose(0, 1)

    def packed_again(self, value: T, rows: T | None, empty: float) -> T:
        """The inverse of `queries_of`; rows of q that belong to no sequence become `empty`."""
        if not self.packed or rows is None:
            return value
        ends = rows.cumsum(0)
        places = torch.arange(self.queries, device=value.device)
        owner = torch.searchsorted(ends, places, right=True)
        inside = owner < self.count
        owner = owner.clamp_max(self.count - 1)
        row = (places - (ends - rows)[owner]).clamp(0, self.queries - 1)
        found = value[owner, :, row].transpose(0, 1)
        return torch.where(inside[None, :, None], found, empty)[None]
