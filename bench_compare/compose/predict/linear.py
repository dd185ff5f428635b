"""Sums of measured rows, and how sure they are.

A configuration is a weighted sum of rows: layers count as often as they run, a seam is a pair minus
both alone. Summed within each round first, what the rows of a round share (the state of the
machine) is in the sum's spread as it is in the pipeline's; then Student's t over rounds.

What a pipeline takes is asked of another visit than the one that measured its layers. So the
interval of a prediction (`Total.elsewhere`) has a document's own effect besides: as known from
several, else by the rule of comparisons, that on a machine that does not keep still a document
differs from the next as its rounds do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.compose.model import Estimate
from bench_compare.statistics.special import t_quantile
from bench_compare.statistics.variances import UNSETTLED_SD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.statistics.arrays import Array, Ints, Mask

COVERAGE = 0.975
MOST_LOG = math.log(10)
"""An interval that leaves more than a factor of ten either way says nothing: there is none then."""
DOCUMENTS = 3
"""From so many documents that hold all rows on, these are the units and not their rounds."""


@dataclass(frozen=True)
class Total:
    value: float
    """NaN where some row has no value."""
    variance: float | None
    dof: float | None
    unit: str
    """``documents``, ``rounds`` or ``none``."""
    states: float = 0.0
    """Variance of what another document would be apart."""
    bound: float = 0.0
    """What the clock itself may be off by, either way and for all rows alike: a plain sum."""

    @property
    def half(self) -> float | None:
        """Half the width of the 95 % interval."""
        return self._half(0.0)

    def _half(self, states: float) -> float | None:
        if self.variance is None or self.dof is None:
            return None
        quantile = float(t_quantile(COVERAGE, np.array([self.dof]))[0])
        return quantile * math.sqrt(self.variance + states) + self.bound

    @property
    def estimate(self) -> Estimate:
        """The interval is that of the logarithm, to first order: no total is below zero."""
        return _logarithmic(self.value, self.half)

    @property
    def elsewhere(self) -> Estimate:
        """With the interval for what another document has."""
        return _logarithmic(self.value, self._half(self.states))


def _logarithmic(value: float, half: float | None) -> Estimate:
    if half is None or math.isnan(half):
        return Estimate(value)
    if value <= 0:
        return Estimate(value, value - half, value + half)
    return within(value, half / value)


def within(value: float, half_log: float) -> Estimate:
    """With an interval of so much either way in the logarithm, where that says something."""
    if not half_log <= MOST_LOG:
        return Estimate(value)
    return Estimate(value, value * math.exp(-half_log), value * math.exp(half_log))


def each_of(sources: Ints) -> Ints:
    """As `np.unique`, which takes longer to load than this to count."""
    return np.flatnonzero(np.bincount(sources))


def means(values: Array, sources: Ints) -> Array:
    """Mean of each row: over its documents, of the means of their rounds."""
    parts = [_mean(values[:, sources == one]) for one in each_of(sources)]
    return _mean(np.stack(parts, axis=1)) if parts else np.full(len(values), np.nan)


def _mean(values: Array) -> Array:
    known = np.isfinite(values)
    count = known.sum(axis=1)
    sums = np.where(known, values, 0.0).sum(axis=1)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


def total(
    weights: Mapping[int, float],
    values: Array,
    sources: Ints,
    use: Mask,
    bounds: Array | None = None,
) -> Total:
    """Sum of rows, each by its weight, over the columns that `use` marks. `bounds`: of each row's
    systematic error."""
    found = _total(weights, values, sources, use)
    if bounds is None:
        return found
    return replace(found, bound=math.fsum(abs(w) * float(bounds[r]) for r, w in weights.items()))


def _total(weights: Mapping[int, float], values: Array, sources: Ints, use: Mask) -> Total:
    rows = np.array([number for number, weight in weights.items() if weight], dtype=np.int64)
    factors = np.array([weight for weight in weights.values() if weight], dtype=float)
    cells, columns = values[np.ix_(rows, np.flatnonzero(use))], sources[use]
    value = float((factors * means(cells, columns)).sum())
    if not math.isfinite(value) or not rows.size:
        return Total(value, None, None, "none")
    whole = _whole_documents(cells, columns)
    if len(whole) >= DOCUMENTS:
        sums = [float((factors * _mean(cells[:, columns == one])).sum()) for one in whole]
        variance = float(np.var(sums, ddof=1))
        return Total(value, variance / len(sums), len(sums) - 1, "documents", variance)
    # Documents add up; each has its own rounds, so variances add, and degrees of freedom as
    # by Satterthwaite.
    documents = each_of(columns)
    held = np.stack([np.isfinite(cells[:, columns == d]).any(axis=1) for d in documents], axis=1)
    shares = factors / held.sum(axis=1)
    parts: list[tuple[float, int]] = []
    states = 0.0
    for place, one in enumerate(documents):
        mine = held[:, place]
        if mine.any():
            here = cells[np.ix_(mine, columns == one)]
            added = _variances(shares[mine], here)
            states += unsettled(added, float((shares[mine] * _mean(here)).sum()))
            parts += added
    if any(dof < 1 for _, dof in parts):
        return Total(value, None, None, "none")
    variance = sum(v for v, _ in parts)
    spread = sum(v * v / dof for v, dof in parts)
    dof = variance * variance / spread if spread else 1.0
    return Total(value, variance, dof, "rounds", states)


def _whole_documents(cells: Array, columns: Ints) -> list[int]:
    """Documents that hold every row, where no other one holds any."""
    known = {int(one): np.isfinite(cells[:, columns == one]).any(axis=1) for one in set(columns)}
    held = {one: rows for one, rows in known.items() if rows.any()}
    return sorted(held) if all(rows.all() for rows in held.values()) else []


def unsettled(parts: Sequence[tuple[float, int]], value: float) -> float:
    """Variance between documents of a sum whose means vary so over the rounds of one."""
    rounds = sum(variance * (dof + 1) for variance, dof in parts)
    quiet = (UNSETTLED_SD * value) ** 2
    return max(0.0, rounds - quiet)


def _variances(factors: Array, cells: Array) -> list[tuple[float, int]]:
    """(variance of the mean, degrees of freedom) of the sum over the rounds that hold every row;
    where these are fewer than two, of each row alone."""
    common = np.isfinite(cells).all(axis=0)
    if common.sum() >= 2:
        return [_variance((factors[:, None] * cells[:, common]).sum(axis=0))]
    return [_variance(f * row[np.isfinite(row)]) for f, row in zip(factors, cells, strict=True)]


def _variance(values: Array) -> tuple[float, int]:
    count = values.size
    if count < 2:
        return 0.0, 0
    return float(np.var(values, ddof=1)) / count, count - 1


def alone(values: Array, sources: Ints, bounds: Array) -> list[Estimate]:
    """Each row by itself, as `total` has it, all at once."""
    parts = [_moments(values[:, sources == one]) for one in each_of(sources)]
    mean, variance, count = (np.stack(rows, axis=1) for rows in zip(*parts, strict=True))
    held = (count > 0).sum(axis=1)
    value = _mean(mean)
    of_rounds = np.where(count > 0, variance, 0.0) / np.maximum(held, 1)[:, None] ** 2
    spread = (of_rounds**2 / np.maximum(count - 1, 1)).sum(axis=1)
    summed = of_rounds.sum(axis=1)
    dof = np.where(spread > 0, summed**2 / np.where(spread > 0, spread, 1.0), 1.0)
    dof = np.where((count == 1).any(axis=1), np.nan, dof)
    apart = np.where(count > 0, (mean - value[:, None]) ** 2, 0.0).sum(axis=1)
    by_document = held >= DOCUMENTS
    summed = np.where(by_document, apart / np.maximum(held * (held - 1), 1), summed)
    dof = np.where(by_document, held - 1, dof)
    half = t_quantile(COVERAGE, dof) * np.sqrt(summed) + bounds
    # `_logarithmic` of each. Times of single rows are above zero.
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(half / value <= MOST_LOG, half / value, np.nan)
    rows = zip(value.tolist(), np.exp(parts).tolist(), strict=True)
    return [Estimate(v) if f != f else Estimate(v, v / f, v * f) for v, f in rows]


def _moments(values: Array) -> tuple[Array, Array, Array]:
    """Mean of each row, variance of that mean, and how many values it has."""
    known = np.isfinite(values)
    count, mean = known.sum(axis=1), _mean(values)
    squares = np.where(known, (values - mean[:, None]) ** 2, 0.0).sum(axis=1)
    return mean, squares / np.maximum(count * (count - 1), 1), count


def ratio(
    over: Mapping[int, float],
    under: Mapping[int, float],
    values: Array,
    sources: Ints,
    use: Mask,
    bounds: Array | None = None,
) -> Estimate | None:
    """One sum over another. What both share cancels: the interval is that of the difference of
    their logarithms, to first order."""
    a, b = total(over, values, sources, use), total(under, values, sources, use)
    if not (a.value > 0 and b.value > 0):
        return None
    weights = {row: weight / a.value for row, weight in over.items()}
    for row, weight in under.items():
        weights[row] = weights.get(row, 0.0) - weight / b.value
    value = a.value / b.value
    if all(abs(w) < 1e-15 for w in weights.values()):
        return Estimate(value, value, value)
    half = total(weights, values, sources, use, bounds).half
    return Estimate(value) if half is None else within(value, half)
