"""The columns behind one side of a comparison: of which row each round is, of which document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bench_compare.rounds.lazy import columns_of
from bench_compare.rounds.table import RoundTable, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_schema.document import Case

    from bench_compare.model import CaseSide
    from bench_compare.statistics.arrays import Ints

Sides: TypeAlias = "Sequence[CaseSide | None]"
"""One entry a case of the comparison; None where it cannot be measured."""


@dataclass(frozen=True, eq=False)
class Held:
    """Cases of one table that stand on a side, in its order."""

    table: RoundTable
    place: Ints
    """In the table."""
    row: Ints
    """In the comparison."""
    source: Ints
    """Document, as an index into `Side.sources`."""
    turn: Ints
    """Number of the case in its side."""


@dataclass(frozen=True, eq=False)
class SideRounds:
    """All rounds of one side."""

    height: int
    """Cases of the comparison."""
    held: Sequence[Held]
    sides: Sides


def gather(sides: Sides) -> SideRounds:
    """Where the rounds of each case are; those of cases that have no columns get some."""
    tables: dict[int, tuple[RoundTable, list[tuple[int, int, int, int]]]] = {}
    plain: list[Case] = []
    rest: list[tuple[int, int, int, int]] = []
    turn = 0
    for row, side in enumerate(sides):
        if side is None:
            continue
        for case, source in zip(side.cases, side.sources, strict=True):
            rounds = columns_of(case.rounds)
            if rounds is not None:
                known = tables.setdefault(id(rounds.table), (rounds.table, []))
                known[1].append((rounds.place, row, source, turn))
            else:
                rest.append((len(plain), row, source, turn))
                plain.append(case)
            turn += 1
    held = [Held(table, *_columns(places)) for table, places in tables.values()]
    if plain:
        held.append(Held(table_of(plain), *_columns(rest)))
    return SideRounds(len(sides), held, sides)


def _columns(places: list[tuple[int, int, int, int]]) -> Iterator[Ints]:
    yield from np.array(places, np.int64).reshape(-1, 4).T
