"""Rounds that are built when somebody looks at one: most are not, their columns are enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isnan
from typing import TYPE_CHECKING, overload

from bench_schema.document import Round

from bench_compare.rounds.facts import facts_of, facts_of_cases

if TYPE_CHECKING:
    from bench_schema.document import Samples

    from bench_compare.rounds.facts import Facts
    from bench_compare.rounds.table import RoundTable
    from bench_compare.statistics.arrays import Array, Mask


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

    def series(self, name: str) -> tuple[Sequence[Samples], list[int]]:
        """Of each round that has samples of the series: these, and the cut that is told."""
        columns = self.table.series.get(name)
        if columns is None:
            return (), []
        first, last = columns.starts[self.place : self.place + 2]
        return columns.samples[first:last], columns.told_cut[first:last].tolist()

    @property
    def clock_mhz(self) -> list[float]:
        """Of each round after it, else before it; rounds without are left out."""
        first, last = self.table.starts[self.place : self.place + 2]
        return [one for one in self.table.clocks.last_mhz[first:last].tolist() if not isnan(one)]

    @property
    def readings(self) -> tuple[Array, Mask]:
        """What devices told around each round (`Clocks`), and whether they did."""
        first, last = self.table.starts[self.place : self.place + 2]
        clocks = self.table.clocks
        return clocks.readings[first:last], clocks.told[first:last]

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


def series_of(rounds: Sequence[Round], name: str) -> tuple[Sequence[Samples], Sequence[int]]:
    """Of each round that has samples of the series: these, and the cut that is told."""
    lazy = columns_of(rounds)
    if lazy is not None:
        return lazy.series(name)
    held = [one for one in rounds if name in one.series and one.series[name].size]
    return [one.series[name] for one in held], [one.cut.get(name) or 0 for one in held]
