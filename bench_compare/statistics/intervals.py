"""The statistics of a comparison: arrays in, numbers out.

`base` and `other` are matrices of shape (cases, units), natural logarithms, NaN where a unit does
not hold the case. A *unit* is a round or a document: what may be called independent. All ratios are
exponentials of differences, so that swapping the sides inverts them exactly.

Sources. Kalibera and Jones 2013, Rigorous benchmarking in reasonable time (the unit); Smyth 2004,
Linear models and empirical Bayes methods (pooled variances); Schuirmann 1987 (two one-sided tests);
Benjamini and Hochberg 1995 (false-discovery rate); Welch 1947.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bench_compare.statistics.special import (
    digamma,
    inverse_trigamma,
    t_quantile,
    t_two_sided,
    trigamma,
)

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Counts: TypeAlias = npt.NDArray[np.int64]
Documents: TypeAlias = "tuple[int, int] | None"
"""How many each side has, where units are rounds and the sides share no document."""

FLOOR_SD = 0.002
"""Nothing is known better than this from one unit: 0.2 %, to be re-estimated from A/A runs."""
DEFAULT_RUN_SD = 0.005
"""Between-run spread where neither rounds nor the bulk of the cases tell it: 0.5 %."""
POOLING_CASES = 30
"""Variances are shrunk towards each other from this many cases of similar length on."""
BULK_CASES = 10
BULK_DOF = 12.0
"""Many cases tell the spread between runs well, but it is not the same for all of them: with more,
simulated suites of unlike noise raise false alarms."""
UNSETTLED_SD = 0.02
"""Rounds that scatter by more than 2 % show states of the machine (neighbours, clocks, other
programs), not noise of single rounds. Such states outlast a round, often a whole document: between
documents of one build, run one after another on a shared virtual machine, medians differed by 0.2
to 0.6 of what rounds differ, rounds counted as independent (`tests/benchmarks/compare_honesty.py`).
"""
LEAST_VARIANCE = (FLOOR_SD / 10) ** 2
"""Keeps logarithms of variances finite where a coarse clock repeats itself exactly."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """One entry a case; NaN where a side has no unit or no spread is known."""

    shift: Array
    """Mean log of other minus mean log of base."""
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
    base_units: npt.NDArray[np.int64]
    other_units: npt.NDArray[np.int64]
    single: Mask
    """Judged from inside single rounds: provisional."""
    documents: npt.NDArray[np.int64]
    """Of the smaller side, where `between_document_variance` adds to the variance: more documents
    decide the case, more rounds do not. Else 0."""


def row_mean(values: Array) -> Array:
    """Mean of what is known in each row; NaN where nothing is."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def units(values: Array) -> npt.NDArray[np.int64]:
    return np.asarray(np.isfinite(values).sum(axis=1))


def pooled_variance(base: Array, other: Array) -> tuple[Array, Array]:
    """Variance of one unit within its side, and its degrees of freedom (NaN and 0: unknown)."""
    squares = np.zeros(len(base))
    dof = np.zeros(len(base))
    for side in (base, other):
        deviation = side - row_mean(side)[:, None]
        squares += (np.where(np.isfinite(deviation), deviation, 0.0) ** 2).sum(axis=1)
        dof += np.maximum(units(side) - 1, 0)
    return np.where(dof > 0, squares / np.maximum(dof, 1), np.nan), dof


def decade_strata(level: Array) -> npt.NDArray[np.int64]:
    """Number of the stratum of each case: decades of time, joined upwards until each holds
    `POOLING_CASES`; a short last one joins the one below."""
    decade = np.floor(level / math.log(10)).astype(np.int64)
    stratum = np.zeros(len(level), np.int64)
    number = held = 0
    for value in np.unique(decade):
        held += int(np.sum(decade == value))
        stratum[decade == value] = number
        if held >= POOLING_CASES:
            number, held = number + 1, 0
    if 0 < held < POOLING_CASES and number > 0:
        stratum[stratum == number] = number - 1
    return stratum


def prior(variance: Array, dof: Array) -> tuple[float, float]:
    """(d0, s0²) of a scaled inverse chi-square prior, from the spread of the logarithms of the
    variances, winsorised at 5 and 95 % (1.12 makes good for that)."""
    half = dof / 2
    e = np.log(np.maximum(variance, LEAST_VARIANCE)) - digamma(half) + np.log(half)
    e = np.clip(e, *np.quantile(e, (0.05, 0.95)))
    excess = 1.12 * float(e.var(ddof=1)) - float(np.mean(trigamma(half)))
    if excess <= 0.02:
        return 100.0, math.exp(float(e.mean()))
    d0 = min(100.0, 2 * inverse_trigamma(excess))
    correction = float(digamma(np.array([d0 / 2]))[0]) - math.log(d0 / 2)
    return d0, math.exp(float(e.mean()) + correction)


def shrink(variance: Array, dof: Array, level: Array) -> tuple[Array, Array]:
    """Variances moved towards those of cases of similar length, with the degrees of freedom that
    this adds; below `POOLING_CASES` cases they stay as they are."""
    known = np.isfinite(variance) & (dof > 0) & np.isfinite(level)
    if known.sum() < POOLING_CASES:
        return variance, dof
    result, degrees = variance.copy(), dof.copy()
    places = np.flatnonzero(known)
    stratum = decade_strata(level[places])
    for number in np.unique(stratum):
        at = places[stratum == number]
        d0, s0 = prior(variance[at], dof[at])
        result[at] = (d0 * s0 + dof[at] * variance[at]) / (d0 + dof[at])
        degrees[at] = d0 + dof[at]
    return result, degrees


def between_document_variance(variance: Array) -> Array:
    """Variance between documents, one entry a case, from that of their rounds.

    Nothing on a quiet machine. Else a document may differ from another as much as rounds do, those
    of the case or, as states hit all cases, those of the middle case.
    """
    known = np.isfinite(variance)
    if not known.any():
        return np.zeros_like(variance)
    typical = np.maximum(variance, np.quantile(variance[known], 0.5))
    return np.where(known, np.maximum(typical - UNSETTLED_SD**2, 0), 0)


def run_variance(shift: Array, within: Array) -> float:
    """Between-run variance from the bulk of the comparison: the most that brings the 50 % or the
    80 % quantile of the standardised shifts down to that of a normal distribution."""
    known = np.isfinite(shift) & np.isfinite(within)
    if known.sum() < BULK_CASES:
        return DEFAULT_RUN_SD**2
    distance = np.abs(shift[known] - np.median(shift[known]))
    inside = within[known]

    def excess(s2: float, share: float, normal: float) -> float:
        spread = distance / np.sqrt(inside + 2 * s2 + 1e-18)
        return float(np.quantile(spread, share)) - normal

    found = 0.0
    for share, normal in ((0.5, 0.674490), (0.8, 1.281552)):
        low, high = 0.0, 4.0
        if excess(low, share, normal) <= 0:
            continue
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle, share, normal) > 0 else (low, middle)
        found = max(found, high)
    return found


@dataclass(frozen=True, eq=False)
class WithinRoundVariance:
    """What single rounds know of their own spread (`samples.section_variance`), both sides
    together: variance of the shift and degrees of freedom, one entry a case."""

    variance: Array
    dof: Array


def _single_rounds(shift: Array, within: WithinRoundVariance) -> tuple[Array, Array]:
    """Variance of the shifts of single rounds, and its degrees of freedom (Satterthwaite 1946):
    the part that comes from the bulk counts `BULK_DOF`."""
    run = 2 * run_variance(shift, within.variance)
    total = within.variance + run
    if np.isfinite(within.variance).sum() < BULK_CASES:
        return total, within.dof
    return total, total**2 / (within.variance**2 / within.dof + run**2 / BULK_DOF)


def estimate(
    base: Array,
    other: Array,
    within: WithinRoundVariance | None = None,
    floor_sd: float = FLOOR_SD,
    documents: Documents = None,
) -> Estimates:
    """Ratio, interval and p of every case, by its rounds where a side has two, else by `within`."""
    count_base, count_other = units(base), units(other)
    shift = row_mean(other) - row_mean(base)
    pairs = 1 / np.maximum(count_base, 1) + 1 / np.maximum(count_other, 1)
    s2, dof = shrink(*pooled_variance(base, other), (row_mean(base) + row_mean(other)) / 2)
    states = between_document_variance(s2) if documents is not None else np.zeros(len(s2))
    few = min(documents or (0,))
    variance = s2 * pairs
    if documents is not None:
        variance = variance + states * (1 / documents[0] + 1 / documents[1])
    single = np.isfinite(shift) & ~np.isfinite(variance)
    if within is not None and single.any():
        variance[single], dof[single] = _single_rounds(
            shift[single], WithinRoundVariance(within.variance[single], within.dof[single])
        )
    variance = np.maximum(variance, floor_sd**2 * pairs)
    unknown = ~(np.isfinite(shift) & np.isfinite(variance) & (dof > 0))
    variance[unknown] = np.nan
    dof = np.where(unknown, np.nan, dof)
    lacking = np.where(states > 0, few, 0)
    return _estimates((shift, variance, dof), (count_base, count_other, lacking), single)


def _estimates(
    found: tuple[Array, Array, Array], counts: tuple[Counts, Counts, Counts], single: Mask
) -> Estimates:
    shift, variance, dof = found
    error = np.sqrt(variance)
    wide, narrow = t_quantile(0.975, dof) * error, t_quantile(0.95, dof) * error
    return Estimates(
        shift=shift,
        variance=variance,
        dof=dof,
        low=shift - wide,
        high=shift + wide,
        same_low=shift - narrow,
        same_high=shift + narrow,
        p=t_two_sided(shift / error, dof),
        base_units=counts[0],
        other_units=counts[1],
        single=single,
        documents=counts[2],
    )


def false_discovery(p: Array) -> Array:
    """Adjusted p (q) after Benjamini and Hochberg, over all known entries of any shape."""
    flat = p.ravel()
    known = np.flatnonzero(np.isfinite(flat))
    order = known[np.argsort(flat[known], kind="stable")]
    stepped = flat[order] * len(order) / np.arange(1, len(order) + 1)
    q = np.full_like(flat, np.nan)
    q[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return np.asarray(q.reshape(p.shape))


@dataclass(frozen=True)
class Welch:
    """Difference of two means of logs; the interval (95 %) and p are unknown below two units."""

    shift: float
    low: float | None
    high: float | None
    p: float | None


def welch(base: Array, other: Array, documents: Documents = None) -> Welch:
    """Other minus base, one value a unit, with an interval over units."""
    a, b = base[np.isfinite(base)], other[np.isfinite(other)]
    shift = float(b.mean() - a.mean())
    if min(len(a), len(b)) < 2:
        return Welch(shift, None, None, None)
    parts = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    total = float(parts.sum())
    if total == 0:
        return Welch(shift, shift, shift, 1.0 if shift == 0 else 0.0)
    counts = np.array([len(a), len(b)])
    dof = np.array([total**2 / float((parts**2 / (counts - 1)).sum())])
    if documents is not None:
        pooled = (parts * counts * (counts - 1)).sum(keepdims=True) / (counts.sum() - 2)
        total += float(between_document_variance(pooled)[0]) * (1 / documents[0] + 1 / documents[1])
    error = math.sqrt(total)
    half = float(t_quantile(0.975, dof)[0]) * error
    p = float(t_two_sided(np.array([shift / error]), dof)[0])
    return Welch(shift, shift - half, shift + half, p)


def suite(
    base: Array, other: Array, weights: Array | None = None, documents: Documents = None
) -> Welch:
    """Shift of the (weighted) mean over cases, with an interval over units: no bootstrap over
    cases, which share what their unit shares. Cases that a unit lacks leave it unchanged."""
    weight = np.ones(len(base)) if weights is None else weights
    return welch(_unit_means(base, weight), _unit_means(other, weight), documents)


def _unit_means(side: Array, weight: Array) -> Array:
    level = row_mean(side)
    deviation = side - level[:, None]
    known = np.isfinite(deviation)
    heavy = np.where(known, weight[:, None], 0.0).sum(axis=0)
    total = (np.where(known, deviation, 0.0) * weight[:, None]).sum(axis=0)
    means = float(np.average(level, weights=weight)) + total / np.maximum(heavy, 1e-300)
    return np.asarray(np.where(heavy > 0, means, np.nan))


def common_movement(base: Array, other: Array) -> tuple[Array, Array]:
    """What each unit of each side did to all cases: median over cases of the unit's distance from
    the case's mean over all units. Subtract it to see a case relative to the suite."""
    both = np.concatenate([base, other], axis=1)
    deviation = both - row_mean(both)[:, None]
    common = column_median(deviation)
    return common[: base.shape[1]], common[base.shape[1] :]


def column_median(values: Array) -> Array:
    """Median of what is known in each column; NaN where nothing is."""
    ordered = np.sort(values, axis=0)  # NaN last
    count = np.isfinite(ordered).sum(axis=0)
    columns = np.arange(values.shape[1])
    low, high = ((np.maximum(place, 0), columns) for place in ((count - 1) // 2, count // 2))
    middle = (ordered[low] + ordered[np.minimum(high[0], len(values) - 1), columns]) / 2
    return np.asarray(np.where(count > 0, middle, np.nan))


POWER_Z = 1.2816
"""Normal quantile of 90 %: so surely are the rounds that are asked for to decide."""
DISCOVERY_Z = 3.2905
"""Two-sided 0.1 %: about 5 % after false-discovery control where one case in fifty moves."""
SAME_Z = 1.6449
MOST_ROUNDS = 1000


def rounds_needed(found: Estimates, limit: Array) -> Array:
    """More units a side (documents where `Estimates.documents` says so) that would decide each case
    if its shift is what it seems; NaN where no sensible number would. `limit` is
    log(1 + threshold)."""
    more_documents = found.documents > 0
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
        z = np.where(moved, DISCOVERY_Z, SAME_Z) + POWER_Z
        needed = np.ceil(2 * s2 * (z / distance) ** 2)
        more = np.maximum(needed - least, 1)
    return np.asarray(np.where(needed <= MOST_ROUNDS, more, np.nan))
