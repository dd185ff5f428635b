"""Variances of observations: separate, shrunk towards those of similar cases, and assumed for
single rounds or documents, which show none.

Source: Smyth 2004, Linear models and empirical Bayes methods (pooled variances).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from bench_schema.estimate import row_mean
from scipy import special

from bench_compare.statistics.arrays import Array, Ints, units
from bench_compare.statistics.discovery import false_discovery
from bench_compare.statistics.special import f_above, inverse_trigamma, trigamma

FLOOR_SD = 0.002
"""Nothing is known better than this from one unit: 0.2 %, to be re-estimated from A/A runs."""
DEFAULT_RUN_SD = 0.005
"""Between-run spread where neither rounds nor the bulk of the cases tell it: 0.5 %."""
LEAST_POOLED = 10
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
to 0.6 of what rounds differ, rounds counted as independent.
"""
UNSETTLED_INSIDE_SD = 0.35
"""The same of samples inside of rounds: a fifth of them takes 1.8 times as long as another fifth.
Threads that wait for each other where other programs run take one of two times a factor of 200
apart, and how often which one is a state that lasts for a document: 40 ms was the median in all
five rounds of one, 0.16 ms in those of the next one."""
LEAST_VARIANCE = (FLOOR_SD / 10) ** 2
"""Keeps logarithms of variances finite where a coarse clock repeats itself exactly."""


def pooled_variance(base: Array, other: Array) -> tuple[Array, Array]:
    """Return the variance of one unit within its side, and its degrees of freedom (NaN and 0:
    unknown)."""
    squares = np.zeros(len(base))
    dof = np.zeros(len(base))
    for side in (base, other):
        deviation = side - row_mean(side)[:, None]
        squares += (np.where(np.isfinite(deviation), deviation, 0.0) ** 2).sum(axis=1)
        dof += np.maximum(units(side) - 1, 0)
    return np.where(dof > 0, squares / np.maximum(dof, 1), np.nan), dof


def decade_strata(level: Array) -> Ints:
    """Return the stratum of each case: decades of time, joined upwards until each has
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


def prior(variance: Array, dof: Array, level: Array | None = None) -> tuple[float, Array]:
    """Return (d0, s0²) of a scaled inverse chi-square prior, s0² of each case, from the spread of
    the logarithms of the variances about their trend with the level, winsorised at 5 and 95 % (1.12
    compensates). Short cases are noisier; without `level` all have one s0²."""
    half = dof / 2
    e = np.log(np.maximum(variance, LEAST_VARIANCE)) - special.digamma(half) + np.log(half)
    e = np.clip(e, *np.quantile(e, (0.05, 0.95)))
    trend = np.full(len(e), e.mean()) if level is None else resistant_line(level, e)
    lost = 1 if level is None else 2
    rest = float(((e - trend) ** 2).sum()) / (len(e) - lost)
    excess = 1.12 * rest - float(np.mean(trigamma(half)))
    if excess <= 0.02:
        return 100.0, np.exp(trend)
    d0 = min(100.0, 2 * inverse_trigamma(excess))
    correction = float(special.digamma(d0 / 2)) - math.log(d0 / 2)
    return d0, np.exp(trend + correction)


LEAST_SPAN = math.log(2)
"""Levels closer than this have no trend that is worth a parameter."""


def resistant_line(x: Array, y: Array) -> Array:
    """Return the line through the medians of the outer thirds (Tukey 1977), level beyond them: one
    point far away neither turns nor bends it. The mean where the thirds lie too close."""
    order = np.argsort(x, kind="stable")
    third = len(x) // 3
    (x0, y0), (x1, y1) = (
        (float(np.median(x[part])), float(np.median(y[part])))
        for part in (order[:third], order[len(x) - third :])
    )
    slope = (y1 - y0) / (x1 - x0) if x1 - x0 >= LEAST_SPAN else 0.0
    line = slope * np.clip(x, x0, x1)
    return np.asarray(line + (y - line).mean())


LEAST_CALM = LEAST_POOLED // 2
"""Cases that tell what is calm."""
RESTLESS_Q = 0.1
"""Share of the cases called restless that are so by chance."""


def shrink(variance: Array, dof: Array, level: Array, alike: float = 0.0) -> tuple[Array, Array]:
    """Move variances towards those of cases of similar length; return them with the degrees of
    freedom that this adds. Below `LEAST_POOLED` cases they are unchanged, and so is that of a
    restless case. Cases that move together (`alike`, see `fits.Fit`) know less of the variance than
    their number says."""
    known = np.isfinite(variance) & (dof > 0) & np.isfinite(level)
    if known.sum() < LEAST_POOLED:
        return variance, dof
    result, degrees = variance.copy(), dof.copy()
    places = np.flatnonzero(known)
    stratum = decade_strata(level[places])
    for number in np.unique(stratum):
        at = places[stratum == number]
        d0, s0 = prior(variance[at], dof[at], level[at])
        while True:  # those that stand out hide others
            chance = f_above(variance[at] / s0, dof[at], np.full(len(at), d0))
            calm = false_discovery(chance) > RESTLESS_Q
            if calm.all() or calm.sum() < LEAST_CALM:
                break
            at = at[calm]
            d0, s0 = prior(variance[at], dof[at], level[at])
        result[at] = (d0 * s0 + dof[at] * variance[at]) / (d0 + dof[at])
        most = float(dof[at].mean()) * len(at) / (1 + (len(at) - 1) * alike)
        degrees[at] = np.maximum(dof[at], np.minimum(d0 + dof[at], most))
    return result, degrees


FLEETING_DOF = 4
"""Degrees of freedom above which, as with three documents a side, agreement by luck is rare."""
FLEETING_EXCESS = 3.0
"""Variance of the logarithm of the cases' variances: their standard deviations differ by a factor
of 2.4. Of normal noise that is not the same for all cases fewer than 1 % of the comparisons reach
it and fail to show the same cases restless on both sides."""


def fleeting_variance(variance: Array, dof: Array, sides: tuple[Array, Array]) -> Array:
    """Return the least variance of cases with two observations a side, if variances are not stable
    properties of cases: the variance differs far more between cases than chance and lengths make it
    differ, and a case that is quiet on one side is so on the other no more often than others. Then
    two observations agree by luck (each was in one of several states), and every case may vary as
    the average one does. Otherwise return 0."""
    known = np.isfinite(variance) & (dof > 0) & (dof <= FLEETING_DOF)
    if known.sum() < POOLING_CASES:
        return np.zeros_like(variance)
    whole = _clipped_logs(variance[known])
    excess = 1.12 * float(whole.var(ddof=1)) - float(np.mean(trigamma(dof[known] / 2)))
    first, second = (_clipped_logs(side[known]) for side in sides)
    lasting = float(np.cov(first, second)[0, 1])
    if excess < FLEETING_EXCESS or lasting > excess / 2:
        return np.zeros_like(variance)
    most = np.quantile(variance[known], 0.95)
    return np.where(known, float(np.minimum(variance[known], most).mean()), 0.0)


def _clipped_logs(variance: Array) -> Array:
    logs = np.log(np.maximum(variance, LEAST_VARIANCE))
    return np.asarray(np.clip(logs, *np.quantile(logs, (0.05, 0.95))))


def between_document_variance(variance: Array) -> Array:
    """Return the variance between documents, one entry a case, from that of their rounds.

    Nothing on a quiet machine. Else documents may differ as much as rounds of the middle case do:
    states of a machine hit all of its cases. A case that alone is restless among quiet ones is so
    by itself, and its rounds tell it.
    """
    known = np.isfinite(variance)
    if not known.any():
        return np.zeros_like(variance)
    states = max(float(np.median(variance[known])) - UNSETTLED_SD**2, 0.0)
    return np.where(known, states, 0.0)


def run_variance(shift: Array, within: Array) -> float:
    """Return the variance between runs from the bulk of the comparison: the most that brings the 50
    % or the 80 % quantile of the standardised shifts down to that of a normal distribution."""
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
    """Spread that single rounds show (`samples.section_variance`), both sides together: variance of
    the shift and degrees of freedom, one entry a case."""

    variance: Array
    dof: Array


def single_round_variance(shift: Array, within: WithinRoundVariance) -> tuple[Array, Array]:
    """Return the variance of the shifts of single rounds, and its degrees of freedom (Satterthwaite
    1946): the part that comes from the bulk counts `BULK_DOF`."""
    run = 2 * run_variance(shift, within.variance)
    total = within.variance + run
    if np.isfinite(within.variance).sum() < BULK_CASES:
        return total, within.dof
    return total, total**2 / (within.variance**2 / within.dof + run**2 / BULK_DOF)
