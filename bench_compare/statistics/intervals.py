"""The statistics of a comparison: arrays in, numbers out.

`base` and `other` are matrices of shape (cases, rounds), natural logarithms, NaN if a round does
not hold the case. All ratios are exponentials of differences, so that swapping the sides inverts
them exactly. What counts as one independent observation (a *unit*) is chosen for each case:

pair base and other of one visit, where both sides stand in the same documents round else, also of
several documents, as long as these do not differ beyond their rounds document the mean of its
rounds, where documents of a side do

Sources. Kalibera and Jones 2013, Rigorous benchmarking in reasonable time (the unit); Schuirmann
1987 (two one-sided tests); Satterthwaite 1946 (degrees of freedom of a sum of variances); Jennison
and Turnbull 1989 (repeated confidence intervals).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from bench_schema.estimate import LEAST_PAIRS
from scipy import special

from bench_compare.statistics.arrays import Records, blank, filled
from bench_compare.statistics.columns import Columns, paired_columns, single_documents
from bench_compare.statistics.layers import (
    CHANGE,
    BetweenDocuments,
    of_pairs,
    of_rounds,
    of_rows,
    with_known,
    with_unsettled,
)
from bench_compare.statistics.special import t_quantile, t_two_sided
from bench_compare.statistics.variances import (
    BULK_CASES,
    FLOOR_SD,
    WithinRoundVariance,
    single_round_variance,
)

if TYPE_CHECKING:
    from bench_compare.statistics.arrays import Array, Ints

PAIR, DOCUMENT, ROUND = 0, 1, 2
"""Units, see the top."""
SAME_TAIL = 0.05
"""Tail of the 90 % interval of *same*."""
COMMON_ALPHA = 0.005
"""The common part of a document moves all cases at once, so their false discoveries would come
together: a verdict must also be significant at 0.5 % against that part. Simulated (documents that
differ by 1 % as a whole, 2, 3, 5 a side) fewer than 1 % of the verdicts are then wrong."""
OWN_ALPHA = 0.01
"""The same for what is a case's own: where half of the cases move, control of the share of false
discoveries alone would let more than 1 % of all verdicts be wrong."""
LOOKS_ALPHA = 0.0002
"""A run that stops when its cases are decided has many chances to be wrong, and rounds that follow
each other may be alike. Over all of its looks together a move must be significant at 0.02 %: where
rounds correlate by 0.3 it is then a false alarm in 0.3 % of the cases, at 0.5 % here it would be
one in 2 % (`tests/benchmarks/until_decided.py`)."""


Estimates: TypeAlias = Records
"""A record of `ESTIMATE` for each case."""
ESTIMATE = np.dtype(
    [
        # level of other minus level of base, with its 95 % interval; NaN: a side has no unit
        *((name, float) for name in ("shift", "base_level", "other_level", "low", "high")),
        # variance of the shift and its degrees of freedom; NaN: no spread is known
        *((name, float) for name in ("variance", "dof")),
        # 90 % interval: two one-sided tests at 5 %; two-sided p of no shift
        *((name, float) for name in ("same_low", "same_high", "p")),
        # smallest size of a shift that is not explained by what all cases of a unit share; the
        # part of the variance that they share; the same of what all cases do together
        *((name, float) for name in ("common", "common_variance", "common_dof")),
        *((name, float) for name in ("movement_variance", "movement_dof")),
        # smallest size of a shift that counts if there are several looks; 0 with a single one
        ("sure", float),
        ("base_units", np.int64),
        ("other_units", np.int64),
        ("unit", np.int64),  # `PAIR`, `DOCUMENT` or `ROUND`
        # documents of the smaller side, if what documents differ by adds to the variance: more
        # documents decide the case, more rounds do not; otherwise 0
        ("documents", np.int64),
        ("looks", np.int64),  # how many looks at the results share the error that is allowed
        ("single", bool),  # judged from inside single rounds: provisional
        ("one_run", bool),  # each side stands in a single document
    ]
)


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
    """Return the ratio, interval and p of every case. `looks` holds for rounds and pairs: how many
    documents there are does not follow from what they say."""
    if columns is None:
        columns = single_documents(base.shape[1], other.shape[1])
    found, unit = _combined((base, other), columns, known)
    return _estimates(found, unit, floor_sd, np.where(unit == DOCUMENT, 1, looks))


def same_interval(
    base: Array, other: Array, columns: tuple[Columns, Columns], floor_sd: float, looks: int
) -> tuple[Array, Array]:
    """Compute `same_low` and `same_high` of the estimates alone."""
    found, unit = _combined((base, other), columns)
    dof, variance = _spread(found, floor_sd)
    looks_of = np.where(unit == DOCUMENT, 1, looks)
    half = _repeated(SAME_TAIL, dof, looks_of) * np.sqrt(variance)
    return found.shift - half, found.shift + half


def _combined(
    sides: tuple[Array, Array],
    columns: tuple[Columns, Columns],
    elsewhere: Elsewhere = NOWHERE,
) -> tuple[Records, Ints]:
    """Return the change of each case (`layers.CHANGE`) by its unit, and these units."""
    base, other = sides
    height = len(base)
    unit = np.full(height, ROUND)
    mine, theirs = paired_columns(*columns)  # visits that hold both sides on one unit of hardware
    both = np.isfinite(base[:, mine]) & np.isfinite(other[:, theirs])
    unit[both.sum(axis=1) >= LEAST_PAIRS] = PAIR
    result = blank(CHANGE, height)
    rows = unit == PAIR
    if rows.any():
        place = Columns(*(getattr(columns[0], one.name)[mine] for one in fields(Columns)))
        result[rows] = of_pairs((base[rows][:, mine], other[rows][:, theirs]), place)
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
        result[rows] = part
        several = part.base_documents + part.other_documents > 2
        unit[np.flatnonzero(rows)[several & part.apart]] = DOCUMENT
    return result, unit


def _spread(found: Records, floor_sd: float) -> tuple[Array, Array]:
    """Return degrees of freedom and variance of the shift of each case; NaN if they are not
    known."""
    variance = np.maximum(found.variance, floor_sd**2 * found.least)
    unknown = ~(np.isfinite(found.shift) & np.isfinite(variance) & (found.dof > 0))
    return np.where(unknown, np.nan, found.dof), np.where(unknown, np.nan, variance)


def _estimates(found: Records, unit: Ints, floor_sd: float, looks: Ints) -> Estimates:
    by_document, shift = unit == DOCUMENT, found.shift
    dof, variance = _spread(found, floor_sd)
    error = np.sqrt(variance)
    wide, narrow = (_repeated(tail, dof, looks) * error for tail in (0.025, SAME_TAIL))
    degrees = np.where(found.common_dof > 0, found.common_dof, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # units may repeat each other exactly
        share = np.maximum(1 - found.common / variance, 0)
        rest = np.nan_to_num(_repeated(OWN_ALPHA / 2, dof, looks) ** 2 * variance * share)
        p = np.minimum(t_two_sided(shift / error, dof) * looks, 1)
    common = np.nan_to_num(_repeated(COMMON_ALPHA / 2, degrees, looks) ** 2 * found.common)
    several = np.where(looks > 1, dof, np.nan)
    sure = _repeated(LOOKS_ALPHA / 2, several, looks) * error
    enough = np.isfinite(shift).sum() >= BULK_CASES
    documents = found.base_documents, found.other_documents
    return filled(
        ESTIMATE,
        shift=shift,
        base_level=found.base_level,
        other_level=found.other_level,
        variance=variance,
        dof=dof,
        low=shift - wide,
        high=shift + wide,
        same_low=shift - narrow,
        same_high=shift + narrow,
        p=p,
        base_units=np.where(by_document, documents[0], found.base_rounds),
        other_units=np.where(by_document, documents[1], found.other_rounds),
        unit=unit,
        single=found.single,
        one_run=np.maximum(*documents) < 2,
        documents=np.where(found.apart, np.minimum(*documents), 0),
        common=np.nan_to_num(np.sqrt(common + rest)) if enough else 0.0,
        common_variance=found.common,
        common_dof=degrees,
        movement_variance=found.movement,
        movement_dof=np.where(found.movement_dof > 0, found.movement_dof, np.nan),
        looks=looks,
        sure=np.nan_to_num(sure),
    )


def _repeated(tail: float, dof: Array, looks: Ints) -> Array:
    """Return the value that Student's t exceeds with probability `tail` over all looks together."""
    found = t_quantile(1 - tail, dof)
    for count in np.unique(looks[looks > 1]).tolist():
        found = np.where(looks == count, t_quantile(1 - tail / count, dof), found)
    return found


POWER_Z = 1.2816
"""Normal quantile of 90 %: so surely are the rounds that are asked for to decide."""
DISCOVERY_Z = 3.5401
"""Two-sided 0.04 %: about 2 % after false-discovery control where one case in fifty moves."""
SAME_Z = 1.6449
INTERVAL_Z = 1.96
MOST_ROUNDS = 1000


def rounds_needed(found: Estimates, limit: Array) -> Array:
    """Return the further units a side (documents where `Estimates.documents` says so) that would
    decide each case if its shift is what it seems; NaN if no sensible number would. `limit` is
    log(1 + threshold)."""
    more_documents = found.documents > 0
    same_z = np.full(len(found.looks), SAME_Z)  # normal quantile of 5 %, shared by the looks
    for count in np.unique(found.looks[found.looks > 1]).tolist():
        same_z[found.looks == count] = special.ndtri(1 - 0.05 / count)
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
