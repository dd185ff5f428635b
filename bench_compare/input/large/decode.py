"""Blocks of a document's text → the columns of their rounds, and their cases without them."""

from __future__ import annotations

import functools
import typing
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from bench_schema.checks.acceptor import limits, outline
from bench_schema.codec import check_rounds
from bench_schema.document import SCHEMA_VERSION, Case, Round
from bench_schema.numbers.integers import Arrays

from bench_compare.input.large.parts import as_list
from bench_compare.rounds.join import joined
from bench_compare.rounds.lazy import LazyRounds
from bench_compare.rounds.table import RoundTable, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.input.large.parts import Fetch, Span

SPANS_KEPT = 64
"""Blocks of which it is remembered where their cases are."""


@dataclass(frozen=True, eq=False)
class Block:
    """Neighbouring cases of a document."""

    cases: bytes
    """Packed, without rounds."""
    count: int
    table: RoundTable


@dataclass(frozen=True, eq=False)
class Share:
    """Blocks of a document that one process read, not all of them neighbours."""

    numbers: Sequence[int]
    """Of the blocks."""
    counts: Sequence[int]
    """Cases of each."""
    cases: Sequence[bytes]
    """Of each, packed, without rounds."""
    table: RoundTable
    """The rounds of all of them."""


def decode_block(fetch: Fetch, span: Span) -> Block:
    """Raises `ValueError` or `DocumentError` for what may not be valid."""
    cases = _cases_decoder().decode(as_list(fetch, span))
    _read_samples(cases)
    for case in cases:
        check_rounds(case, "")
    table = table_of(cases)
    for case in cases:
        case.rounds = []
    return Block(msgspec.msgpack.encode(cases), len(cases), table)


def share_of(blocks: dict[int, Block]) -> Share:
    """What a process read, by the number of the block."""
    some = list(blocks.values())
    table = joined([one.table for one in some])
    return Share(list(blocks), [one.count for one in some], [one.cases for one in some], table)


@functools.cache
def _cases_decoder() -> msgspec.json.Decoder[list[Any]]:
    kind: Any = list[outline(SCHEMA_VERSION, "Case", frozenset({"series"}))]  # type: ignore[misc]
    return msgspec.json.Decoder(kind)


def _read_samples(cases: Sequence[Any]) -> None:
    """Arrays in the place of the texts of all series."""
    arrays = {name: Arrays(*bounds) for name, bounds in limits(SCHEMA_VERSION, "Series").items()}
    for case in cases:
        for one in case.rounds:
            for name in one.series:
                arrays[name].add(one.series, name)
    for some in arrays.values():
        some.flush()


# --- cases of what was read ---


def built(share: Share, fetch: Fetch, spans: Sequence[Span]) -> Iterator[tuple[int, list[Case]]]:
    """Each block's number and cases, whose rounds are built when they are looked at; `spans`: where
    in the text the blocks of the document are."""
    counts = np.diff(share.table.starts).tolist()
    first = 0
    for number, count, packed in zip(share.numbers, share.counts, share.cases, strict=True):
        build = functools.partial(_rounds_at, fetch, spans[number], first)
        cases = []
        for place, shell in enumerate(_shells_decoder().decode(packed), first):
            shell.init = {name: np.array(values, np.int64) for name, values in shell.init.items()}
            shell.rounds = LazyRounds(share.table, place, counts[place], build)
            cases.append(Case(*msgspec.structs.astuple(shell)))
        yield number, cases
        first += count


@functools.cache
def _shells_decoder() -> msgspec.msgpack.Decoder[list[Any]]:
    """Of cases that are known to be valid."""
    types = typing.get_type_hints(Case)
    types |= {"init": dict[str, list[int]], "rounds": list[Any]}
    names = [(field.name, types[field.name]) for field in fields(Case)]
    return msgspec.msgpack.Decoder(list[msgspec.defstruct("Shell", names, gc=False)])  # type: ignore[misc]


class _OnlyRounds(msgspec.Struct):
    """What is read of a case whose other fields are known already."""

    rounds: tuple[Round, ...] = ()


def _rounds_at(fetch: Fetch, block: Span, first: int, place: int) -> tuple[Round, ...]:
    """Of the case at a place of a table, where the block's first case is at `first`."""
    text = fetch(*_case_spans(fetch, block)[place - first])
    return msgspec.json.decode(text, type=_OnlyRounds, dec_hook=_samples).rounds


@functools.lru_cache(SPANS_KEPT)
def _case_spans(fetch: Fetch, block: Span) -> list[Span]:
    text = as_list(fetch, block)
    start = block[0] - 1 - _address(text)
    cases = msgspec.json.decode(text, type=list[msgspec.Raw])
    places = [start + _address(case) for case in cases]
    return [(at, at + len(memoryview(case))) for at, case in zip(places, cases, strict=True)]


def _address(text: Any) -> int:
    """Of its first byte."""
    address: int = np.frombuffer(text, np.uint8).__array_interface__["data"][0]
    return address


def _samples(_kind: type, values: Any) -> Any:
    found = np.array(values, np.int64)
    found.flags.writeable = False
    return found
