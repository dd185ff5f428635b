"""Numbers of all cases together: what they did in common, and the mean over them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import row_mean

from bench_compare.statistics.columns import Columns, by_document
from bench_compare.statistics.intervals import DOCUMENT, ROUND, Elsewhere, Estimates, estimate
from bench_compare.statistics.layers import BetweenDocuments
from bench_compare.statistics.special import t_quantile, t_two_sided

if TYPE_CHECKING:
    from bench_compare.statistics.arrays import Array, Ints

EXACT = 1e-24
"""A variance of logarithms below it is that of rounding."""


@dataclass(frozen=True)
class Shift:
    """A difference of two logarithms; the interval (95 %) and p are unknown where no spread is."""

    shift: float
    low: float | None
    high: float | None
    p: float | None


def _shift(value: float, variance: float, dof: float, looks: Ints) -> Shift:
    """Return the shift; its interval holds over all looks together."""
    if not (math.isfinite(variance) and dof > 0):
        return Shift(value, None, None, None)
    if variance < EXACT:  # every unit repeated every other
        return Shift(value, value, value, 1.0 if value == 0 else 0.0)
    error, count = math.sqrt(variance), int(looks.max())
    half = float(t_quantile(1 - 0.025 / count, np.array([dof]))[0]) * error
    p = float(t_two_sided(np.array([value / error]), np.array([dof]))[0])
    return Shift(value, value - half, value + half, min(p * count, 1.0))


def common_movement(found: Estimates) -> Shift | None:
    """Return the common movement: the median shift of the cases with the commonest unit, with the
    interval of the part that they share."""
    rows = np.flatnonzero(np.isfinite(found.shift))
    if not rows.size:
        return None
    unit = np.bincount(found.unit[rows]).argmax()
    rows = rows[found.unit[rows] == unit]
    shift = float(np.median(found.shift[rows]))
    known = rows[np.isfinite(found.movement_dof[rows]) & ~found.single[rows]]
    if not known.size:
        return Shift(shift, None, None, None)
    variance, dof = (
        float(np.median(x[known])) for x in (found.movement_variance, found.movement_dof)
    )
    return _shift(shift, variance, dof, found.looks)


def suite(
    base: Array,
    other: Array,
    columns: tuple[Columns, Columns],
    found: Estimates,
    weights: Array | None = None,
    between: BetweenDocuments | None = None,
) -> tuple[Shift, tuple[int, int]]:
    """Return the shift of the (weighted) mean over cases, with an interval over units, and the
    numbers of units: no bootstrap over cases, which share what their unit shares. `found` are the
    estimates of the cases."""
    weight = np.ones(len(base)) if weights is None else weights
    unit = int(np.bincount(found.unit).argmax())
    sides = [base, other]
    places = list(columns)
    if unit == DOCUMENT:
        both = [by_document(*one) for one in zip(sides, places, strict=True)]
        sides, places = [one for one, _ in both], [one for _, one in both]
    elif unit == ROUND:  # rounds of pieces of a suite are rounds of the whole
        for number, place in enumerate(columns):
            document = np.full_like(place.document, number)
            places[number] = Columns(document, np.arange(len(document)), place.block)
    means = [_unit_means(side, weight)[None, :] for side in sides]
    known = Elsewhere(between=_mean(between, weight))
    total = estimate(means[0], means[1], (places[0], places[1]), known, 0.0)
    shift = float(np.average(found.shift, weights=weight))
    # states of the machine move single documents, case by case
    states = np.where(found.documents > 0, found.common_variance, 0.0)
    variance = max(float(total.variance[0]), float((weight / weight.sum()) ** 2 @ states))
    one = _shift(shift, variance, float(total.dof[0]), found.looks)
    return one, (int(total.base_units[0]), int(total.other_units[0]))


def _mean(between: BetweenDocuments | None, weight: Array) -> BetweenDocuments | None:
    """Return the calibration of the mean over cases: the common part stays, the separate parts
    average out."""
    if between is None or not np.isfinite(between.common + between.own).all():
        return None
    share = weight / weight.sum()
    return BetweenDocuments(
        np.array([between.common.max()]),
        np.array([between.common_dof.min()]),
        np.array([float(share**2 @ between.own)]),
        np.array([between.own_dof.min()]),
    )


def _unit_means(side: Array, weight: Array) -> Array:
    """Return the (weighted) mean over cases of each unit; cases that a unit lacks leave it
    unchanged."""
    level = row_mean(side)
    deviation = side - level[:, None]
    known = np.isfinite(deviation)
    heavy = np.where(known, weight[:, None], 0.0).sum(axis=0)
    total = (np.where(known, deviation, 0.0) * weight[:, None]).sum(axis=0)
    means = float(np.average(level, weights=weight)) + total / np.maximum(heavy, 1e-300)
    return np.asarray(np.where(heavy > 0, means, np.nan))
