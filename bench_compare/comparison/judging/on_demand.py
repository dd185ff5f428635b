"""Results of metrics that are made when somebody asks for one: most reports show few of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bench_compare.model import MetricComparison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_compare.model import Unit, Verdict


Standing: TypeAlias = "tuple[int, int, Unit, bool, int | None]"
"""What a result rests on: ``base_rounds``, ``other_rounds``, ``unit``, ``provisional`` and
``rounds_needed`` of `MetricComparison`."""


class Columns(NamedTuple):
    """What is told of cases, without a `MetricComparison` for each."""

    numbers: Sequence[Sequence[float | None]]
    """A list for each of base, other, ratio, its interval's ends, q and threshold."""
    standings: Sequence[Standing]
    needed_units: Sequence[Unit]
    p: Sequence[float | None]

    def part(self, rows: slice) -> Columns:
        """Of some of the cases."""
        numbers = [column[rows] for column in self.numbers]
        return Columns(numbers, self.standings[rows], self.needed_units[rows], self.p[rows])


@dataclass(eq=False)
class Results:
    """A metric of all cases; what is asked of each of them is there as a column."""

    metric: str
    held: Sequence[bool]
    """Whether a side of the case has the metric."""
    decides: Sequence[bool]
    """Whether both have, so that there is a ratio."""
    verdicts: Sequence[Verdict]
    seen: Sequence[float | None]
    """`MetricComparison.seen_ratio`."""
    make_columns: Callable[[], Columns]
    make_reason: Callable[[Columns, int], str]

    @cached_property
    def columns(self) -> Columns:
        """Of all cases; made when the first one is looked at, as most metrics never are."""
        return self.make_columns()

    def __getitem__(self, row: int) -> MetricComparison:
        """Of a case that has the metric; made anew each time, as 130,000 of them are 150 MB."""
        told = self.columns
        base, other, ratio, low, high, q, threshold = [column[row] for column in told.numbers]
        left, right, unit, provisional, needed = told.standings[row]
        return MetricComparison(
            metric=self.metric,
            base=base,
            other=other,
            ratio=ratio,
            ci_low=low,
            ci_high=high,
            p=told.p[row],
            q=q,
            verdict=self.verdicts[row],
            make_reason=partial(self.make_reason, told, row),
            threshold_ratio=threshold or 0.0,
            base_rounds=left,
            other_rounds=right,
            unit=unit,
            provisional=provisional,
            rounds_needed=needed,
            needed_unit=told.needed_units[row],
            seen_ratio=self.seen[row],
        )


Place: TypeAlias = "tuple[Mapping[str, Results], slice]"
"""The results of all cases, and the rows of some."""


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


Metrics: TypeAlias = Mapping[str, MetricComparison]
"""Of a case."""


def verdict_of(metrics: Metrics, name: str) -> Verdict | None:
    """Of one metric; None where the case has no such."""
    if name not in metrics:
        return None
    if isinstance(metrics, CaseMetrics):
        results, row = metrics.place
        return results[name].verdicts[row]
    return metrics[name].verdict


def seen_of(metrics: Metrics, name: str) -> float | None:
    """`MetricComparison.seen_ratio` of a metric that the case has."""
    if isinstance(metrics, CaseMetrics):
        results, row = metrics.place
        return results[name].seen[row]
    return metrics[name].seen_ratio


def stretches(cases: Sequence[Metrics]) -> Iterator[tuple[list[Metrics], Place | None]]:
    """Them all, cut where they cease to be neighbours: cases that stand one after another in the
    same results. None: of no results."""

    def key(pair: tuple[int, Metrics]) -> tuple[int, int] | None:
        number, one = pair
        if not isinstance(one, CaseMetrics):
            return None
        results, row = one.place
        return id(results), row - number

    for _, group in groupby(enumerate(cases), key=key):
        some = [one for _, one in group]
        first = some[0]
        if isinstance(first, CaseMetrics):
            results, row = first.place
            yield some, (results, slice(row, row + len(some)))
        else:
            yield some, None


def neighbours(cases: Sequence[Metrics]) -> Place | None:
    """Where cases are that stand one after another; None where they do not."""
    found = [place for _, place in stretches(cases)]
    return found[0] if len(found) == 1 else None
