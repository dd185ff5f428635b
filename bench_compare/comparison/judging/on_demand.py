"""Results of metrics that are made when somebody asks for one: most reports show few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bench_compare.model import MetricComparison

if TYPE_CHECKING:
    from bench_compare.model import Unit, Verdict


Standing: TypeAlias = "tuple[int, int, Unit, bool, int | None]"
"""What a result rests on: ``base_rounds``, ``other_rounds``, ``unit``, ``provisional`` and
``rounds_needed`` of `MetricComparison`."""


class Columns(NamedTuple):
    """Some neighbouring cases of a metric, without a `MetricComparison` for each."""

    numbers: Sequence[Sequence[float | None]]
    """A list for each of base, other, ratio, its interval's ends, q and threshold."""
    standings: Sequence[Standing]
    p: Sequence[float | None]
    seen: Sequence[float | None]
    """`MetricComparison.seen_ratio`."""


Make = Callable[[int], MetricComparison]
MakeColumns = Callable[[slice], Columns]


class Results:
    """A metric of all cases; what is asked of each of them is there as a column."""

    def __init__(
        self,
        held: Sequence[bool],
        decides: Sequence[bool],
        verdicts: Sequence[Verdict],
        make: Make,
        columns: MakeColumns,
    ) -> None:
        self.held = held
        """Whether a side of the case has the metric."""
        self.decides = decides
        """Whether both have, so that there is a ratio."""
        self.verdicts = verdicts
        self.columns = columns
        self._make = make

    def __getitem__(self, row: int) -> MetricComparison:
        """Of a case that has the metric; made anew each time, as 130,000 of them are 150 MB."""
        return self._make(row)


class CaseMetrics(Mapping[str, MetricComparison]):
    """The metrics that a case has, by their names."""

    __slots__ = ("_results", "_row")

    def __init__(self, results: Mapping[str, Results], row: int) -> None:
        self._results, self._row = results, row

    @property
    def place(self) -> tuple[Mapping[str, Results], int]:
        """The results of all cases, and the row of this one."""
        return self._results, self._row

    def __contains__(self, name: object) -> bool:
        return name in self._results and self._results[str(name)].held[self._row]

    def __getitem__(self, name: str) -> MetricComparison:
        if name not in self:
            raise KeyError(name)
        return self._results[name][self._row]

    def __iter__(self) -> Iterator[str]:
        return (name for name, one in self._results.items() if one.held[self._row])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def neighbours(
    cases: Sequence[Mapping[str, MetricComparison]],
) -> tuple[Mapping[str, Results], slice] | None:
    """Results and rows of cases that stand one after another in them; None where they do not."""
    places = [one.place for one in cases if isinstance(one, CaseMetrics)]
    if not places or len(places) < len(cases):
        return None
    results, first = places[0]
    for row, (held, place) in enumerate(places, first):
        if held is not results or place != row:
            return None
    return results, slice(first, first + len(cases))


def stretches(
    cases: Sequence[Mapping[str, MetricComparison]],
) -> Iterator[list[Mapping[str, MetricComparison]]]:
    """Them all, cut where they cease to be neighbours."""

    def place(pair: tuple[int, Mapping[str, MetricComparison]]) -> tuple[int, int] | None:
        number, one = pair
        if not isinstance(one, CaseMetrics):
            return None
        results, row = one.place
        return id(results), row - number

    for _, group in groupby(enumerate(cases), key=place):
        yield [one for _, one in group]
