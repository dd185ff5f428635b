"""Rounds that are built when somebody looks at one: most are not, their columns are enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

from bench_schema.document import Round

from bench_compare.rounds.facts import facts_of

if TYPE_CHECKING:
    from bench_compare.rounds.facts import Facts
    from bench_compare.rounds.table import RoundTable


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


def indices(rounds: Sequence[Round]) -> list[int]:
    """`Round.index` of each."""
    lazy = columns_of(rounds)
    return [one.index for one in rounds] if lazy is None else lazy.indices
