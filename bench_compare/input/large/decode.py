"""A part of a document: the columns of its rounds, and its cases without them."""

from __future__ import annotations

import functools
import typing
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from bench_schema.checks.acceptor import limits, outline
from bench_schema.checks.duplicate_keys import may_repeat_keys
from bench_schema.codec import check_rounds
from bench_schema.document import SCHEMA_VERSION, Case, Round
from bench_schema.numbers.integers import Arrays

from bench_compare.input.large.parts import as_list
from bench_compare.rounds.join import joined
from bench_compare.rounds.lazy import LazyRounds
from bench_compare.rounds.table import RoundTable, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.input.large.parts import Fetch


BLOCK = 64
"""Cases whose rounds are values at a time: they stay in the cache until their columns are made, and
their memory is that of the block before."""


class Part(NamedTuple):
    """Neighbouring cases of a document."""

    cases: bytes
    """Packed, without rounds."""
    table: RoundTable
    spans: Sequence[tuple[int, int]]
    """Where in the document's text the rounds of each case are."""


def decode_part(fetch: Fetch, first: int, last: int) -> Part:
    """Raises `ValueError` or `DocumentError` for what may not be valid."""
    text = as_list(fetch, first, last)
    if may_repeat_keys(text):
        raise ValueError("a key may be there twice")
    cases = _cases_decoder().decode(text)
    start = first - 1 - _address(text)
    spans = [_span(case.rounds, start) for case in cases]
    table = joined([_table(cases[at : at + BLOCK]) for at in range(0, len(cases), BLOCK)])
    return Part(msgspec.msgpack.encode(cases), table, spans)


def _table(cases: Sequence[Any]) -> RoundTable:
    """The columns of cases whose rounds are text; afterwards they have none."""
    read = _rounds_decoder().decode
    for case in cases:
        case.rounds = read(case.rounds)
    _read_samples(cases)
    for case in cases:
        check_rounds(case, "")
    table = table_of(cases)
    for case in cases:
        case.rounds = []
    return table


@functools.cache
def _cases_decoder() -> msgspec.json.Decoder[list[Any]]:
    kind: Any = list[outline(SCHEMA_VERSION, "Case", frozenset({"rounds"}))]  # type: ignore[misc]
    return msgspec.json.Decoder(kind)


@functools.cache
def _rounds_decoder() -> msgspec.json.Decoder[list[Any]]:
    kind: Any = list[outline(SCHEMA_VERSION, "Round", frozenset({"series"}))]  # type: ignore[misc]
    return msgspec.json.Decoder(kind)


def _span(part: Any, start: int) -> tuple[int, int]:
    """Where a raw part lies in the text whose first byte would have the address -`start`."""
    first = start + _address(part)
    return first, first + len(memoryview(part))


def _address(text: Any) -> int:
    """Of its first byte."""
    address: int = np.frombuffer(text, np.uint8).__array_interface__["data"][0]
    return address


def _read_samples(cases: Sequence[Any]) -> None:
    """Arrays in the place of the texts of all series."""
    arrays = {name: Arrays(*bounds) for name, bounds in limits(SCHEMA_VERSION, "Series").items()}
    for case in cases:
        for one in case.rounds:
            for name in one.series:
                arrays[name].add(one.series, name)
    for some in arrays.values():
        some.flush()


def built(part: Part, fetch: Fetch) -> Iterator[Case]:
    """The cases of a part of a text, with rounds that are built when they are looked at."""
    counts = np.diff(part.table.starts).tolist()
    build = functools.partial(_rounds_at, fetch, part.spans)
    for place, shell in enumerate(_shells_decoder().decode(part.cases)):
        init = {name: np.array(values, np.int64) for name, values in shell.init.items()}
        shell.init = init
        shell.rounds = LazyRounds(part.table, place, counts[place], build)
        yield Case(*msgspec.structs.astuple(shell))


@functools.cache
def _shells_decoder() -> msgspec.msgpack.Decoder[list[Any]]:
    """Of cases that are known to be valid."""
    types = typing.get_type_hints(Case)
    types |= {"init": dict[str, list[int]], "rounds": list[Any]}
    names = [(field.name, types[field.name]) for field in fields(Case)]
    return msgspec.msgpack.Decoder(list[msgspec.defstruct("Shell", names, gc=False)])  # type: ignore[misc]


def _rounds_at(fetch: Fetch, spans: Sequence[tuple[int, int]], place: int) -> tuple[Round, ...]:
    kind = tuple[Round, ...]
    return msgspec.json.decode(fetch(*spans[place]), type=kind, dec_hook=_samples)


def _samples(_kind: type, values: Any) -> Any:
    found = np.array(values, np.int64)
    found.flags.writeable = False
    return found
