"""Rounds that are built when somebody looks at one: most are not, their columns are enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, overload

import numpy as np
from bench_schema.document import Round
from bench_schema.estimate import cut_of

from bench_compare.rounds.facts import facts_of, facts_of_cases
from bench_compare.rounds.table import READINGS, RoundTable, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench_schema.document import Case, Samples

    from bench_compare.model import CaseSide
    from bench_compare.rounds.facts import Facts
    from bench_compare.rounds.table import RoundTable
    from bench_compare.statistics.arrays import Array, Ints


class SampledRounds(NamedTuple):
    """The rounds of a case that have samples of a series."""

    samples: Sequence[Samples]
    cuts: Sequence[int]
    times_ns: Sequence[float]
    """Location of each round; NaN: not known."""


NO_ROUNDS = SampledRounds((), (), ())


class LazyRounds(Sequence[Round]):
    """The rounds of the case at a place of a table."""

    __slots__ = ("_build", "_built", "_count", "place", "table")

    def __init__(
        self, table: RoundTable, place: int, count: int, build: Callable[[int], Sequence[Round]]
    ) -> None:
        self.table, self.place = table, place
        self._count, self._build = count, build
        self._built: Sequence[Round] | None = None

    @property
    def facts(self) -> Facts:
        return self.table.facts[self.place]

    @property
    def indices(self) -> list[int]:
        """`Round.index` of each."""
        first, last = self.table.starts[self.place : self.place + 2]
        found: list[int] = self.table.index[first:last].tolist()
        return found

    def series(self, name: str) -> SampledRounds:
        columns = self.table.series.get(name)
        if columns is None:
            return NO_ROUNDS
        first, last = columns.starts[self.place : self.place + 2]
        return SampledRounds(
            columns.samples[first:last],
            columns.cut[first:last].tolist(),
            columns.times_ns[first:last].tolist(),
        )

    @property
    def clocks_mhz(self) -> list[float]:
        """Of each round after it, else before it; rounds without are left out."""
        first, last = self.table.starts[self.place : self.place + 2]
        return [one for one in self.table.clocks.last_mhz[first:last].tolist() if not isnan(one)]

    @property
    def clock_mhz(self) -> float | None:
        """Median of `clocks_mhz`."""
        found = self.table.clock_mhz[self.place]
        return None if isnan(found) else found

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Round: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Round]: ...
    def __getitem__(self, place: int | slice) -> Round | Sequence[Round]:
        return self._all()[place]

    def __iter__(self) -> Iterator[Round]:
        return iter(self._all())

    def _all(self) -> Sequence[Round]:
        if self._built is None:
            self._built = self._build(self.place)
        return self._built


def columns_of(rounds: Sequence[Round]) -> LazyRounds | None:
    """The rounds with their table, where they have one."""
    return rounds if type(rounds) is LazyRounds else None


def facts(rounds: Sequence[Round]) -> Facts:
    """Of the rounds of a case."""
    lazy = columns_of(rounds)
    return facts_of(tuple(rounds)) if lazy is None else lazy.facts


def facts_of_all(cases: Sequence[Sequence[Round]]) -> list[Facts]:
    """Of the rounds of each case."""
    lazies = [columns_of(rounds) for rounds in cases]
    plain = [rounds for rounds, lazy in zip(cases, lazies, strict=True) if lazy is None]
    rest = iter(facts_of_cases(plain))
    return [next(rest) if lazy is None else lazy.facts for lazy in lazies]


def indices(rounds: Sequence[Round]) -> list[int]:
    """`Round.index` of each."""
    lazy = columns_of(rounds)
    return [one.index for one in rounds] if lazy is None else lazy.indices


def series_of(rounds: Sequence[Round], name: str) -> SampledRounds:
    lazy = columns_of(rounds)
    if lazy is not None:
        return lazy.series(name)
    held = [one for one in rounds if name in one.series and one.series[name].size]
    return SampledRounds(
        [one.series[name] for one in held],
        [cut_of(one, name).cut for one in held],
        [nan] * len(held),
    )


def readings_of(cases: Sequence[Sequence[Round]]) -> tuple[Array, bool] | None:
    """What devices told around each round of all cases (`Clocks.readings`), and whether any did.
    None where a case has no columns."""
    counts = np.fromiter(map(len, cases), np.int64, len(cases))
    ends = np.cumsum(counts)
    found, told = np.empty((counts.sum(), READINGS)), False
    held: dict[int, tuple[RoundTable, list[int], list[int]]] = {}
    for number, rounds in enumerate(cases):
        lazy = columns_of(rounds)
        if lazy is None:
            return None
        _, places, numbers = held.setdefault(id(lazy.table), (lazy.table, [], []))
        places.append(lazy.place)
        numbers.append(number)
    for table, places, numbers in held.values():
        rows = _stretches(table.starts[places], counts[numbers])
        found[_stretches(ends[numbers] - counts[numbers], counts[numbers])] = table.clocks.readings[
            rows
        ]
        told = told or bool(table.clocks.told[rows].any())
    return found, told


def _stretches(firsts: Ints, counts: Ints) -> Ints:
    """`counts` whole numbers from each of `firsts` on, one stretch after another."""
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(counts.sum()) + np.repeat(firsts - before, counts))


# The columns behind one side of a comparison: of which row each round is, of which document.


Sides: TypeAlias = "Sequence[CaseSide | None]"
"""One entry a case of the comparison; None where it cannot be measured."""


@dataclass(frozen=True, eq=False)
class TableCases:
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
    held: Sequence[TableCases]
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
    held = [TableCases(table, *_columns(places)) for table, places in tables.values()]
    if plain:
        held.append(TableCases(table_of(plain), *_columns(rest)))
    return SideRounds(len(sides), held, sides)


def _columns(places: list[tuple[int, int, int, int]]) -> Iterator[Ints]:
    yield from np.array(places, np.int64).reshape(-1, 4).T
