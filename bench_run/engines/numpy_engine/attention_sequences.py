"""Where the rows and keys of each sequence lie, and plans for lengths that are run-time data.

Padded: seq_len_q and seq_len_kv hold one real length a sequence. Paged: k and v are pages
[pages, Hk, page size, D], named by page_table_k and page_table_v [sequences, pages of one]; a q
with a batch of 1 then holds the sequences one after another, seq_len_q rows each. The calls for
one set of lengths are made when they are first met, and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.engines.numpy_engine import attention_parts
from bench_run.engines.numpy_engine.program import Program
from bench_run.errors import EngineError

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.op import Op

Array: TypeAlias = npt.NDArray[Any]
Make: TypeAlias = Callable[[Program, Sequence[attention_parts.Sequence]], None]

LENGTHS = ("seq_len_q", "seq_len_kv")
TABLES = ("page_table_k", "page_table_v")


@dataclass(frozen=True)
class Layout:
    """q's dims, and keys and values by sequence: [sequences, heads, keys, size]."""

    q: Array
    k: Array
    v: Array
    count: int
    packed: bool
    rows: Array | None
    columns: Array | None

    def sequences(self) -> list[attention_parts.Sequence]:
        """For the lengths that the tensors hold now."""
        most = (self.q.shape[2], self.k.shape[2])
        rows, columns = (
            _checked(lengths, limit, self.count)
            for lengths, limit in zip((self.rows, self.columns), most, strict=True)
        )
        found, first = [], 0
        for index in range(self.count):
            k, v = (pool[index, :, : columns[index]] for pool in (self.k, self.v))
            batch = 0 if self.packed else index
            found.append(attention_parts.Sequence(batch, first, rows[index], k, v))
            first += rows[index] if self.packed else 0
        if first > most[0]:
            raise EngineError(f"numpy: seq_len_q adds up to {first}, past {most[0]} rows of q")
        return found


def _checked(lengths: Array | None, limit: int, count: int) -> list[int]:
    if lengths is None:
        return [limit] * count
    found: list[int] = lengths.reshape(-1).tolist()
    if min(found) < 0 or max(found) > limit:
        raise EngineError(f"numpy: a sequence length of {found} lies outside of 0 … {limit}")
    return found


def plan_sequences(op: Op, make: Make) -> bool:
    """Has `make` add the calls for all sequences, now or for each set of lengths when it is met.

    True where lengths are run-time data: rows past them are unused.
    """
    layout = _layout(op)
    if layout.rows is None and layout.columns is None:
        make(op.program, layout.sequences())
        return False
    programs: dict[bytes, Program] = {}

    def run() -> None:
        lengths = (n for n in (layout.rows, layout.columns) if n is not None)
        key = b"".join(n.tobytes() for n in lengths)
        if key not in programs:
            programs[key] = op.program.inner()
            make(programs[key], layout.sequences())
        for step in programs[key].steps:
            step()

    op.program.call(run)
    return True


def _layout(op: Op) -> Layout:
    q, k, v = op.read("q"), op.read("k"), op.read("v")
    rows, columns = (_integers(op, port) if op.has(port) else None for port in LENGTHS)
    pages = [port for port in TABLES if op.has(port)]
    count, packed = q.shape[0], False
    if pages:
        if len(pages) == 1 or columns is None:
            raise op.refusal("pages need page_table_k, page_table_v and seq_len_kv")
        _check_capacity(op)
        _check_pages(op, k.shape[2])
        k, v = (_joined(op, pool, port) for pool, port in zip((k, v), TABLES, strict=True))
        count, packed = k.shape[0], q.shape[0] == 1 and k.shape[0] > 1
    for lengths in (rows, columns):
        if lengths is not None and lengths.size != count:
            raise op.refusal(f"{lengths.size} sequence lengths for {count} sequences")
    if packed and rows is None:
        raise op.refusal("packed queries need seq_len_q")
    if not packed and q.shape[0] != count:
        raise op.refusal(f"{count} page tables for a batch of {q.shape[0]}")
    return Layout(q, k, v, count, packed, rows, columns)


def _check_pages(op: Op, page: int) -> None:
    """The pages of one sequence must be as many as its keys need."""
    table = op.tensor("page_table_k")
    room = table.elements // table.dims[0] * page
    stated = op.node.attributes.get("max_seq_len_kv")
    if stated is not None and not room - page < stated <= room:
        raise op.refusal(f"pages for {room} keys contradict a max_seq_len_kv of {stated}")


def _check_capacity(op: Op) -> None:
    table, page = op.tensor("page_table_k"), op.tensor("k").dims[2]
    keys = table.elements // table.dims[0] * page
    stated = op.attribute("max_seq_len_kv", keys)
    if not keys - page < stated <= keys:
        raise op.refusal(f"pages of {keys} keys contradict a max_seq_len_kv of {stated}")


def _integers(op: Op, port: str) -> Array:
    return op.program.read(op.tensor(port).uid, np.dtype(np.int64))


def _joined(op: Op, pool: Array, port: str) -> Array:
    """The pages of each sequence one after another, gathered by a call."""
    p, table = op.program, _integers(op, port)
    table = table.reshape(table.shape[0], -1)
    _, heads, page, size = pool.shape
    keys = p.lasting((*table.shape, heads, page, size), pool.dtype)
    p.call(np.take, pool, table, axis=0, out=keys, mode="clip")
    joined = p.lasting((table.shape[0], heads, table.shape[1] * page, size), pool.dtype)
    p.copy(joined.reshape(table.shape[0], heads, table.shape[1], page, size), keys.swapaxes(1, 2))
    return joined
