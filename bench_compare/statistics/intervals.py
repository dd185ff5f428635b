"""The statistics of a comparison: arrays in, numbers out.

`base` and `other` are matrices of shape (cases, rounds), natural logarithms, NaN where a round does
not hold the case. All ratios are exponentials of differences, so that swapping the sides inverts
them exactly. What counts as one independent observation (a *unit*) is chosen for each case:

pair      base and other of one visit, where both sides stand in the same documents
round     else, also of several documents, as long as these do not differ beyond their rounds
document  the mean of its rounds, where documents of a side do

Sources. Kalibera and Jones 2013, Rigorous benchmarking in reasonable time (the unit); Schuirmann
1987 (two one-sided tests); Satterthwaite 1946 (degrees of freedom of a sum of variances); Jennison
and Turnbull 1989 (repeated confidence intervals).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from bench_schema.estimate import LEAST_PAIRS

from bench_compare.statistics.columns import Columns, paired_columns, single_documents
from bench_compare.statistics.layers import (
    BetweenDocuments,
    Change,
    of_pairs,
    of_rounds,
    of_rows,
    with_known,
    with_unsettled,
)
from bench_compare.statistics.special import normal_quantile, t_quantile, t_two_sided
from bench_compare.statistics.variances import (
    BULK_CASES,
    FLOOR_SD,
    WithinRoundVariance,
    single_round_variance,
)

if TYPE_CHECKING:
    from bench_compare.statistics.arrays import Array, Ints, Mask

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
LOOKS_ALPHA = 0.0002
"""A run that stops when its cases are decided has many chances to be wrong, and rounds that follow
each other may be alike. Over all of its looks together a move must be significant at 0.02 %: where
rounds correlate by 0.3 it is then a false alarm in 0.3 % of the cases, at 0.5 % here it would be
one in 2 % (`tests/benchmarks/until_decided.py`)."""


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
    one_run: Mask
    """Each side stands in a single document."""
    documents: Ints
    """Of the smaller side, where what documents differ by adds to the variance: more documents
    decide the case, more rounds do not. Else 0."""
    common: Array
    """Smallest size of a shift that is not explained by what all cases of a unit share."""
    common_variance: Array
    """Part of `variance` that all cases share."""
    common_dof: Array
    movement_variance: Array
    """Of what all cases do together."""
    movement_dof: Array
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
    mine, theirs = paired_columns(*columns)  # visits that hold both sides on one unit of hardware
    both = np.isfinite(base[:, mine]) & np.isfinite(other[:, theirs])
    unit[both.sum(axis=1) >= LEAST_PAIRS] = PAIR
    result = _Result(height)
    rows = unit == PAIR
    if rows.any():
        place = Columns(*(getattr(columns[0], one.name)[mine] for one in fields(Columns)))
        result.put(rows, of_pairs((base[rows][:, mine], other[rows][:, theirs]), place))
    rows = unit == ROUND
    if rows.any():
        part = of_rounds((base[rows], other[rows]), columns)
        single = np.isfinite(part.shift) & ~np.isfinite(part.variance)
        if elsewhere.within is not None and single.any():
            one = elsewhere.within
            inside = WithinRoundVariance(one.variance[rows][single], one.dof[rows][single])
            part.variance[single], part.dof[single] = single_round_variance(
                part.shift[single], inside
            )
        part.single[:] = single
        if not np.intersect1d(columns[0].document, columns[1].document).size:
            between, inner = elsewhere.between, elsewhere.inside
            part = with_unsettled(part, None if inner is None else inner[rows])
            part = with_known(part, None if between is None else of_rows(between, rows))
        result.put(rows, part)
        several = part.documents[0] + part.documents[1] > 2
        unit[np.flatnonzero(rows)[several & part.apart]] = DOCUMENT
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
        self.counts = {name: np.zeros((2, height), np.int64) for name in ("rounds", "documents")}
        self.apart = np.zeros(height, bool)
        self.single = np.zeros(height, bool)

    NUMBERS = (
        "shift",
        "base",
        "other",
        "variance",
        "dof",
        "common",
        "common_dof",
        "movement",
        "movement_dof",
        "least",
    )

    def put(self, rows: Mask, part: Change) -> None:
        found = (part.shift, *part.levels, part.variance, part.dof, part.common, part.common_dof)
        more = (part.movement, part.movement_dof, part.least)
        for name, values in zip(self.NUMBERS, (*found, *more), strict=True):
            self.numbers[name][rows] = values
        self.counts["rounds"][:, rows] = part.rounds
        self.counts["documents"][:, rows] = part.documents
        self.apart[rows], self.single[rows] = part.apart, part.single

    def spread(self, floor_sd: float) -> _Spread:
        number = self.numbers
        variance = np.maximum(number["variance"], floor_sd**2 * number["least"])
        shift, dof = number["shift"], number["dof"]
        unknown = ~(np.isfinite(shift) & np.isfinite(variance) & (dof > 0))
        variance[unknown] = np.nan
        return _Spread(shift, variance, np.where(unknown, np.nan, dof), np.sqrt(variance))

    def estimates(self, unit: Ints, floor_sd: float, looks: Ints) -> Estimates:
        number = self.numbers
        by_document = unit == DOCUMENT
        counts = np.where(by_document, self.counts["documents"], self.counts["rounds"])
        shift, variance, dof, error = self.spread(floor_sd)
        wide, narrow = (_repeated(tail, dof, looks) * error for tail in (0.025, SAME_TAIL))
        degrees = np.where(number["common_dof"] > 0, number["common_dof"], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):  # units may repeat each other exactly
            share = np.maximum(1 - number["common"] / variance, 0)
            rest = np.nan_to_num(_repeated(OWN_ALPHA / 2, dof, looks) ** 2 * variance * share)
            p = np.minimum(t_two_sided(shift / error, dof) * looks, 1)
        common = np.nan_to_num(_repeated(COMMON_ALPHA / 2, degrees, looks) ** 2 * number["common"])
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
            base_units=counts[0],
            other_units=counts[1],
            unit=unit,
            single=self.single,
            one_run=self.counts["documents"].max(axis=0) < 2,
            documents=np.where(self.apart, self.counts["documents"].min(axis=0), 0),
            common=np.nan_to_num(np.sqrt(common + rest)) if enough else np.zeros(len(shift)),
            common_variance=number["common"],
            common_dof=degrees,
            movement_variance=number["movement"],
            movement_dof=np.where(number["movement_dof"] > 0, number["movement_dof"], np.nan),
            looks=looks,
            sure=np.nan_to_num(sure),
        )


def _repeated(tail: float, dof: Array, looks: Ints) -> Array:
    """What Student's t exceeds with a probability of `tail` over all looks together."""
    found = t_quantile(1 - tail, dof)
    for count in np.unique(looks[looks > 1]).tolist():
        found = np.where(looks == count, t_quantile(1 - tail / count, dof), found)
    return found


# What more measuring would decide.

POWER_Z = 1.2816
"""Normal quantile of 90 %: so surely are the rounds that are asked for to decide."""
DISCOVERY_Z = 3.5401
"""Two-sided 0.04 %: about 2 % after false-discovery control where one case in fifty moves."""
SAME_Z = 1.6449
INTERVAL_Z = 1.96
MOST_ROUNDS = 1000


def rounds_needed(found: Estimates, limit: Array) -> Array:
    """More units a side (documents where `Estimates.documents` says so) that would decide each case
    if its shift is what it seems; NaN where no sensible number would. `limit` is
    log(1 + threshold)."""
    more_documents = found.documents > 0
    same_z = np.full(len(found.looks), SAME_Z)  # normal quantile of 5 %, shared by the looks
    for count in np.unique(found.looks[found.looks > 1]).tolist():
        same_z[found.looks == count] = normal_quantile(1 - 0.05 / count)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.where(
            more_documents, found.documents, np.minimum(found.base_units, found.other_units)
        )
        pairs = 1 / np.maximum(found.base_units, 1) + 1 / np.maximum(found.other_units, 1)
        pairs = np.where(more_documents, 2 / np.maximum(found.documents, 1), pairs)
        s2 = found.variance / pairs
        size = np.abs(found.shift)
        moved = size >= limit
        distance = np.where(moved, size, limit - size)
        z = np.where(moved, DISCOVERY_Z, same_z) + POWER_Z
        needed = np.ceil(2 * s2 * (z / distance) ** 2)
        # A move's interval must also lie beyond half of the threshold (`moves.HALF`).
        beyond = np.ceil(2 * s2 * ((INTERVAL_Z + POWER_Z) / (size - limit / 2)) ** 2)
        needed = np.where(moved, np.maximum(needed, beyond), needed)
        more = np.maximum(needed - least, 1)
    return np.asarray(np.where(needed <= MOST_ROUNDS, more, np.nan))
