"""The statistics of a comparison: arrays in, numbers out.

`base` and `other` are matrices of shape (cases, rounds), natural logarithms, NaN where a round does
not hold the case. All ratios are exponentials of differences, so that swapping the sides inverts
them exactly. What counts as one independent observation (a *unit*) is chosen for each case:

pair      base and other of one visit, where both sides stand in the same documents
document  the mean of its rounds, where some side has two documents of the case
round     where each side has a single document

Sources. Kalibera and Jones 2013, Rigorous benchmarking in reasonable time (the unit); Schuirmann
1987 (two one-sided tests); Satterthwaite 1946 (degrees of freedom of a sum of variances); Jennison
and Turnbull 1989 (repeated confidence intervals).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from bench_schema.estimate import LEAST_PAIRS

from bench_compare.statistics.arrays import Array, Ints, Mask, units
from bench_compare.statistics.columns import (
    Columns,
    by_document,
    by_round,
    paired_columns,
    single_documents,
)
from bench_compare.statistics.fits import Fit, fit
from bench_compare.statistics.parts import (
    BetweenDocuments,
    UnitEstimates,
    of_rows,
    part_of,
    wider,
    with_known,
    with_unsettled,
)
from bench_compare.statistics.special import t_quantile, t_two_sided
from bench_compare.statistics.variances import (
    BULK_CASES,
    FLOOR_SD,
    LEAST_VARIANCE,
    WithinRoundVariance,
    single_round_variance,
)

PAIR, DOCUMENT, ROUND = 0, 1, 2
"""Units, see the top."""
SAME_TAIL = 0.05
"""Of the 90 % interval that says *same*."""
COMMON_ALPHA = 0.005
"""What all cases of a document share moves all of them at once, so their false discoveries would
come together: a verdict must also be significant at 0.5 % against that part. Simulated (documents
that differ by 1 % as a whole, 2, 3, 5 a side) fewer than 1 % of the verdicts are then wrong."""
OWN_ALPHA = 0.01
"""The same for what is a case's own: where half of the cases move, control of the share of false
discoveries alone would let more than 1 % of all verdicts be wrong."""
DOCUMENTS_FOR_PAIRS = 3
"""From this many documents on, pairs are also held against the spread of their documents."""
LOOKS_ALPHA = 0.0002
"""A run that stops when its cases are decided has many chances to be wrong, and rounds that follow
each other may be alike. Over all of its looks together a move must be significant at 0.02 %: where
rounds correlate by 0.3 it is then a false alarm in 0.3 % of the cases, at 0.5 % here it would be
one in 2 % (`tests/benchmarks/until_decided.py`)."""
ROUNDS_FOR_REPEATS = 3
"""From this many rounds a document on, documents are also held against the spread of rounds that
have one number."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """One entry a case; NaN where a side has no unit or no spread is known."""

    shift: Array
    """Level of other minus level of base."""
    base_level: Array
    other_level: Array
    variance: Array
    """Of `shift`."""
    dof: Array
    low: Array
    """95 % interval of `shift`."""
    high: Array
    same_low: Array
    """90 % interval of `shift`: two one-sided tests at 5 %."""
    same_high: Array
    p: Array
    """Two-sided, of no shift."""
    base_units: Ints
    other_units: Ints
    unit: Ints
    """`PAIR`, `DOCUMENT` or `ROUND`."""
    single: Mask
    """Judged from inside single rounds: provisional."""
    documents: Ints
    """Of the smaller side, where what single documents share adds to the variance: more documents
    decide the case, more rounds do not. Else 0."""
    common: Array
    """Smallest size of a shift that is not explained by what all cases of a unit share."""
    common_variance: Array
    """Part of `variance` that all cases share."""
    common_dof: Array
    looks: Ints
    """How many looks at the results share the error that is allowed, see
    `bench_schema.estimate`."""
    sure: Array
    """Smallest size of a shift that counts where there are several looks; 0 with a single one."""


def take(found: Estimates, rows: Ints) -> Estimates:
    """The estimates of some cases."""
    return Estimates(**{one.name: getattr(found, one.name)[rows] for one in fields(Estimates)})


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """Variances that units themselves do not show, where both sides have only one."""

    within: WithinRoundVariance | None = None
    """Used where both sides have one round."""
    between: BetweenDocuments | None = None
    """Used where both have one document."""
    inside: Array | None = None
    """The same: variance of samples in their rounds, of every case."""


NOWHERE = Elsewhere()


def estimate(
    base: Array,
    other: Array,
    columns: tuple[Columns, Columns] | None = None,
    known: Elsewhere = NOWHERE,
    floor_sd: float = FLOOR_SD,
    looks: int = 1,
) -> Estimates:
    """Ratio, interval and p of every case. `looks` holds for rounds and pairs: how many documents
    there are does not follow from what they say."""
    if columns is None:
        columns = single_documents(base.shape[1], other.shape[1])
    result, unit = _combined((base, other), columns, known)
    return result.estimates(unit, floor_sd, np.where(unit == DOCUMENT, 1, looks))


def same_interval(
    base: Array, other: Array, columns: tuple[Columns, Columns], floor_sd: float, looks: int
) -> tuple[Array, Array]:
    """`Estimates.same_low` and `same_high` alone."""
    result, unit = _combined((base, other), columns)
    found = result.spread(floor_sd)
    half = _repeated(SAME_TAIL, found.dof, np.where(unit == DOCUMENT, 1, looks)) * found.error
    return found.shift - half, found.shift + half


def _combined(
    sides: tuple[Array, Array],
    columns: tuple[Columns, Columns],
    elsewhere: Elsewhere = NOWHERE,
) -> tuple[_Result, Ints]:
    """Each case by its unit, and these units."""
    base, other = sides
    height = len(base)
    unit = np.full(height, ROUND)
    visits = mine, theirs = paired_columns(*columns)  # that hold both sides on one unit of hardware
    both = np.isfinite(base[:, mine]) & np.isfinite(other[:, theirs])
    paired = both.sum(axis=1) >= LEAST_PAIRS
    unit[paired] = PAIR
    if any(len(np.unique(side.document)) > 1 for side in columns) and not paired.all():
        unit[(_document_fit(base, other, columns).dof > 0) & ~paired] = DOCUMENT
    result = _Result(height)
    if (unit == PAIR).any():
        result.put(unit == PAIR, _pairs(base, other, visits, unit == PAIR, columns))
    if (unit == DOCUMENT).any():
        result.put(unit == DOCUMENT, _documents(base, other, columns, unit == DOCUMENT))
    if (unit == ROUND).any():
        rows = unit == ROUND
        part = _rounds(base, other, columns, rows, elsewhere.within)
        if not np.intersect1d(columns[0].document, columns[1].document).size:
            between, inside = elsewhere.between, elsewhere.inside
            known = _learned(result, unit) if between is None else of_rows(between, rows)
            inner = None if inside is None else inside[rows]
            part = with_known(with_unsettled(part, inner), known)
        result.put(rows, part)
    return result, unit


class _Spread(NamedTuple):
    """Of shifts; NaN where it is not known."""

    shift: Array
    variance: Array
    dof: Array
    error: Array


class _Result:
    """Estimates of all cases, put together unit by unit."""

    def __init__(self, height: int) -> None:
        self.numbers = {name: np.full(height, np.nan) for name in self.NUMBERS}
        self.counts = {name: np.zeros(height, np.int64) for name in ("base", "other", "documents")}
        self.single = np.zeros(height, bool)

    NUMBERS = ("shift", "base", "other", "variance", "dof", "common", "common_dof", "rounds")

    def put(self, rows: Mask, part: UnitEstimates) -> None:
        found = (part.shift, *part.levels, part.variance, part.dof, part.common, part.common_dof)
        for name, values in zip(self.NUMBERS, (*found, part.rounds), strict=True):
            self.numbers[name][rows] = values
        counts = (*part.counts, part.documents)
        for name, numbers in zip(self.counts, counts, strict=True):
            self.counts[name][rows] = numbers
        self.single[rows] = part.single

    def spread(self, floor_sd: float) -> _Spread:
        number = self.numbers
        variance = np.maximum(number["variance"], floor_sd**2 * number["rounds"])
        shift, dof = number["shift"], number["dof"]
        unknown = ~(np.isfinite(shift) & np.isfinite(variance) & (dof > 0))
        variance[unknown] = np.nan
        return _Spread(shift, variance, np.where(unknown, np.nan, dof), np.sqrt(variance))

    def estimates(self, unit: Ints, floor_sd: float, looks: Ints) -> Estimates:
        number = self.numbers
        shift, variance, dof, error = self.spread(floor_sd)
        wide, narrow = (_repeated(tail, dof, looks) * error for tail in (0.025, SAME_TAIL))
        degrees = np.where(number["common_dof"] > 0, number["common_dof"], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):  # units may repeat each other exactly
            share = np.maximum(1 - number["common"] / variance, 0)
            rest = np.nan_to_num(_repeated(OWN_ALPHA / 2, dof, looks) ** 2 * variance * share)
            p = np.minimum(t_two_sided(shift / error, dof) * looks, 1)
        common = _repeated(COMMON_ALPHA / 2, degrees, looks) ** 2 * number["common"]
        several = np.where(looks > 1, dof, np.nan)
        sure = _repeated(LOOKS_ALPHA / 2, several, looks) * error
        enough = np.isfinite(shift).sum() >= BULK_CASES
        return Estimates(
            shift=shift,
            base_level=number["base"],
            other_level=number["other"],
            variance=variance,
            dof=dof,
            low=shift - wide,
            high=shift + wide,
            same_low=shift - narrow,
            same_high=shift + narrow,
            p=p,
            base_units=self.counts["base"],
            other_units=self.counts["other"],
            unit=unit,
            single=self.single,
            documents=self.counts["documents"],
            common=np.nan_to_num(np.sqrt(common + rest)) if enough else np.zeros(len(shift)),
            common_variance=number["common"],
            common_dof=degrees,
            looks=looks,
            sure=np.nan_to_num(sure),
        )


def _repeated(tail: float, dof: Array, looks: Ints) -> Array:
    """What Student's t exceeds with a probability of `tail` over all looks together."""
    found = t_quantile(1 - tail, dof)
    for count in np.unique(looks[looks > 1]).tolist():
        found = np.where(looks == count, t_quantile(1 - tail / count, dof), found)
    return found


def _document_fit(base: Array, other: Array, columns: tuple[Columns, Columns]) -> Fit:
    sides = [by_document(*one) for one in zip((base, other), columns, strict=True)]
    values = np.concatenate([means for means, _ in sides], axis=1)
    side = np.repeat([0, 1], [means.shape[1] for means, _ in sides])
    return fit(values, side, np.concatenate([place.block for _, place in sides]))


def _pairs(
    base: Array,
    other: Array,
    visits: tuple[Ints, Ints],
    rows: Mask,
    columns: tuple[Columns, Columns],
) -> UnitEstimates:
    mine, theirs = base[rows][:, visits[0]], other[rows][:, visits[1]]
    both = np.isfinite(mine) & np.isfinite(theirs)
    pair = np.where(both, mine, np.nan), np.where(both, theirs, np.nan)
    number = np.arange(both.shape[1])
    side = np.repeat([0, 1], both.shape[1])
    found = fit(np.concatenate(pair, axis=1), side, np.tile(number, 2))
    counts = both.sum(axis=1)
    part = part_of(found, (counts, counts), 2 / np.maximum(counts, 1))
    document = columns[0].document[visits[0]]
    if len(np.unique(document)) < DOCUMENTS_FOR_PAIRS:
        return part
    place = Columns(document, number, np.zeros_like(number))
    means = [by_document(values, place) for values in pair]
    values = np.concatenate([one for one, _ in means], axis=1)
    runs = np.tile(means[0][1].document, 2)
    coarse = fit(values, np.repeat([0, 1], len(runs) // 2), runs)
    return wider(part, part_of(coarse, (counts, counts), part.rounds))


def _documents(
    base: Array, other: Array, columns: tuple[Columns, Columns], rows: Mask
) -> UnitEstimates:
    found = _document_fit(base[rows], other[rows], columns)
    least = sum(1 / np.maximum(units(side), 1) for side in (base[rows], other[rows]))
    part = part_of(found, found.counts, np.asarray(least))
    # Rounds of one number, over all documents: what recurs in each document (the order of the
    # cases, where it puts their buffers) is not told by the spread of documents.
    means, numbers = zip(
        by_round(base[rows], columns[0]), by_round(other[rows], columns[1]), strict=True
    )
    _, mine, theirs = np.intersect1d(*numbers, return_indices=True)
    if len(mine) < ROUNDS_FOR_REPEATS:
        return part
    values = np.concatenate([means[0][:, mine], means[1][:, theirs]], axis=1)
    place = np.arange(len(mine))
    repeated = fit(values, np.repeat([0, 1], len(mine)), np.tile(place, 2))
    return wider(part, part_of(repeated, found.counts, part.rounds))


def _rounds(
    base: Array,
    other: Array,
    columns: tuple[Columns, Columns],
    rows: Mask,
    within: WithinRoundVariance | None,
) -> UnitEstimates:
    sides = base[rows], other[rows]
    side = np.repeat([0, 1], [base.shape[1], other.shape[1]])
    block = np.concatenate([one.block for one in columns])
    found = fit(np.concatenate(sides, axis=1), side, block)
    counts = found.counts
    part = part_of(found, counts, 1 / np.maximum(counts[0], 1) + 1 / np.maximum(counts[1], 1))
    single = np.isfinite(part.shift) & ~np.isfinite(part.variance)
    if within is not None and single.any():
        inside = WithinRoundVariance(within.variance[rows][single], within.dof[rows][single])
        part.variance[single], part.dof[single] = single_round_variance(part.shift[single], inside)
    part.single[:] = single
    return part


def _learned(result: _Result, unit: Ints) -> BetweenDocuments | None:
    """What the cases with several documents tell of those with single ones."""
    rows = np.flatnonzero((unit == DOCUMENT) & np.isfinite(result.numbers["variance"]))
    if len(rows) < BULK_CASES:
        return None
    counts = 1 / result.counts["base"][rows] + 1 / result.counts["other"][rows]
    common, total = (np.median(result.numbers[n][rows] / counts) for n in ("common", "variance"))
    own = max(float(total - common), LEAST_VARIANCE)
    dofs = [np.median(result.numbers[name][rows]) for name in ("common_dof", "dof")]
    size = int((unit == ROUND).sum())
    return BetweenDocuments(*(np.full(size, x) for x in (common, dofs[0], own, dofs[1])))
