"""Estimates of the cases that have one kind of unit, and what is added for what units cannot tell.

Source: Satterthwaite 1946 (degrees of freedom of a sum of variances).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.statistics.special import t_quantile
from bench_compare.statistics.variances import (
    POOLING_CASES,
    UNSETTLED_INSIDE_SD,
    between_document_variance,
    fleeting_variance,
    shrink,
)

if TYPE_CHECKING:
    from bench_compare.statistics.arrays import Array, Ints, Mask
    from bench_compare.statistics.fits import Fit


@dataclass(frozen=True, eq=False)
class BetweenDocuments:
    """Variances between documents of one build, as known beforehand; one entry a case, NaN where
    nothing is known."""

    common: Array
    """What a document does to all of its cases."""
    common_dof: Array
    own: Array
    """What it does to a single case."""
    own_dof: Array


@dataclass(frozen=True, eq=False)
class UnitEstimates:
    """Estimates of the cases that have one kind of unit."""

    shift: Array
    levels: tuple[Array, Array]
    variance: Array
    dof: Array
    common: Array
    """Variance."""
    common_dof: Array
    counts: tuple[Ints, Ints]
    rounds: Array
    """Sum of the inverses of the numbers of rounds: the least variance in units of the floor's."""
    documents: Ints
    single: Mask


IN_GROUPS = 0.1
"""From this on (`fits.Fit.alike`) cases move in groups: what all share lies between the groups
then, and is no part of the movement of any. Four standard deviations of what 40 independent cases
show in two documents a side."""


def part_of(found: Fit, counts: tuple[Ints, Ints], rounds: Array) -> UnitEstimates:
    """Variance of the shift: own part, shrunk over cases, and the part that all cases share. With
    few cases, and where groups of them move together, each keeps its own variance, shared part
    included."""
    shift = found.other - found.base
    level = np.where(np.isfinite(shift), (found.base + found.other) / 2, found.base)
    level = np.where(np.isfinite(level), level, found.other)
    many = ((found.dof > 0) & np.isfinite(level)).sum() >= POOLING_CASES
    apart = many and found.alike < IN_GROUPS
    squares = found.own_squares if apart else found.squares
    own, dof = np.where(found.dof > 0, squares / np.maximum(found.dof, 1), np.nan), found.dof
    if apart:
        unknown = fleeting_variance(own, dof, found.side_squares)
        own, dof = shrink(own, dof, level, found.alike)
        own = np.maximum(own, unknown)
    common = np.full(len(own), found.common_variance)
    variance = own + common if apart else own
    if apart and found.common_dof > 0:
        dof = satterthwaite((own, dof), (common, np.full(len(own), found.common_dof)))
    return UnitEstimates(
        shift=shift,
        levels=(found.base, found.other),
        variance=variance * found.leverage,
        dof=dof,
        common=common * found.leverage,
        common_dof=np.full(len(own), found.common_dof),
        counts=counts,
        rounds=rounds,
        documents=np.zeros(len(own), np.int64),
        single=np.zeros(len(own), bool),
    )


def satterthwaite(*parts: tuple[Array, Array]) -> Array:
    """Degrees of freedom of the sum of variances (variance, degrees of freedom)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.asarray(sum(variance for variance, _ in parts))
        lost = np.asarray(sum(variance**2 / dof for variance, dof in parts))
        return np.where(lost > 0, total**2 / lost, parts[0][1])


def of_rows(between: BetweenDocuments, rows: Mask | Ints) -> BetweenDocuments:
    return BetweenDocuments(
        between.common[rows], between.common_dof[rows], between.own[rows], between.own_dof[rows]
    )


SINGLES = 2.0
"""One document of base and one of other: 1 / 1 + 1 / 1."""


def with_unsettled(part: UnitEstimates, inside: Array | None = None) -> UnitEstimates:
    """Add what rounds that do not keep still, or samples `inside` of them (variance), let expect of
    documents."""
    spread = np.where(part.single, np.nan, part.variance / part.rounds)
    states = between_document_variance(spread)
    if inside is not None:
        states = np.maximum(states, np.where(inside > UNSETTLED_INSIDE_SD**2, inside, 0.0))
    states = states * SINGLES
    return replace(
        part,
        variance=part.variance + states,
        common=part.common + states,
        common_dof=np.where(states > 0, part.dof, part.common_dof),
        documents=np.where(states > 0, 1, part.documents),
    )


def with_known(part: UnitEstimates, between: BetweenDocuments | None) -> UnitEstimates:
    """Add what is known of documents, where it makes the interval wider than it is."""
    if between is None:
        return part
    common, own = between.common * SINGLES, between.own * SINGLES
    variance = part.variance + np.nan_to_num(common + own)
    known = np.isfinite(common + own) & (part.documents == 0)
    dof = satterthwaite(
        (part.variance, part.dof), (common, between.common_dof), (own, between.own_dof)
    )
    return replace(
        part,
        variance=np.where(known, variance, part.variance),
        dof=np.where(known, dof, part.dof),
        common=np.where(known, part.common + common, part.common),
        common_dof=np.where(known, between.common_dof, part.common_dof),
        documents=np.where(known, 1, part.documents),
    )


def wider(part: UnitEstimates, coarse: UnitEstimates) -> UnitEstimates:
    """For each case the spread of pairs or of documents, whichever leaves the wider interval."""

    def half(one: UnitEstimates) -> Array:
        dof = np.where(one.dof > 0, one.dof, np.nan)
        return np.nan_to_num(t_quantile(0.975, dof) * np.sqrt(one.variance))

    use = half(coarse) > half(part)
    return replace(
        part,
        variance=np.where(use, coarse.variance, part.variance),
        dof=np.where(use, coarse.dof, part.dof),
        common=np.where(use, coarse.common, part.common),
        common_dof=np.where(use, coarse.common_dof, part.common_dof),
    )
