"""Results of metrics that are made when somebody asks for one: most reports show few of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bench_compare.model import MetricComparison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_compare.model import Unit, Verdict
    from bench_compare.statistics.arrays import Array

NUMBERS = 7
"""Of each metric: rows of `Columns.values`."""
Standing: TypeAlias = "tuple[int, int, Unit, bool, int | None]"
"""What a result rests on: ``base_rounds``, ``other_rounds``, ``unit``, ``provisional`` and
``rounds_needed`` of `MetricComparison`."""


@dataclass(frozen=True, eq=False)
class Columns:
    """What is told of cases, without a `MetricComparison` for each."""

    values: Array
    """A row for each of base, other, ratio, its interval's ends, q and threshold; NaN: not known.
    """
    standings: Sequence[Standing]
    needed_units: Sequence[Unit]
    p: Sequence[float | None]

    @cached_property
    def numbers(self) -> Sequence[Sequence[float | None]]:
        """The rows of `values` as lists."""
        return [known(row) for row in self.values]

    def part(self, rows: slice) -> Columns:
        """Of some of the cases."""
        values = self.values[:, rows]
        return Columns(values, self.standings[rows], self.needed_units[rows], self.p[rows])


def known(values: Array) -> list[float | None]:
    """None for NaN."""
    found: list[float | None] = values.tolist()
    for place in np.flatnonzero(np.isnan(values)).tolist():
        found[place] = None
    return found


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

    def reason(self, row: int) -> str:
        """`MetricComparison.reason` of a case that has the metric."""
        return self.make_reason(self.columns, row)

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


def is_provisional(metrics: Metrics, name: str) -> bool:
    """Of a metric that the case has."""
    if isinstance(metrics, CaseMetrics):
        results, row = metrics.place
        return results[name].columns.standings[row][3]
    return metrics[name].provisional


def values_of(metrics: Sequence[Metrics], names: Sequence[str | None]) -> Array:
    """`Columns.values` of one metric of each case; NaN for a metric that a case does not have."""
    found = np.full((NUMBERS, len(metrics)), np.nan)
    first = 0
    for some, place in stretches(metrics):
        asked = np.array(names[first : first + len(some)], object)
        for name in {*asked.tolist()} - {None}:
            here = np.flatnonzero(asked == name)
            if place is None:
                rows = [numbers_of(some[at].get(name)) for at in here.tolist()]
                found[:, first + here] = np.array(rows, float).T
            elif name in place[0]:
                found[:, first + here] = place[0][name].columns.values[:, place[1].start + here]
        first += len(some)
    return found


def numbers_of(metric: MetricComparison | None) -> tuple[float | None, ...]:
    """A column of `Columns.values`."""
    if metric is None:
        return (None,) * NUMBERS
    m = metric
    return m.base, m.other, m.ratio, m.ci_low, m.ci_high, m.q, m.threshold_ratio


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
