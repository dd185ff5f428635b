"""Which variants of a graph are the fastest, from blocks in which each was measured once.

Arrays in, decisions out: ``logs[candidate, block]`` is the logarithm of the candidate's midmean in
the block. What all candidates of a block share (the clock, another tenant) cancels, because only
differences within a block are looked at.

Sources. Dropping: S.-H. Kim and B. L. Nelson, "A fully sequential procedure for indifference-zone
selection in simulation", ACM TOMACS 11 (2001), with c = 1. Block size: T. Kalibera and R. Jones,
"Rigorous benchmarking in reasonable time", ISMM 2013.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Logs: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Ranks: TypeAlias = npt.NDArray[np.int64]

HOPELESS = math.log(3.0)
"""Behind the leader by so much after its first block, a candidate is out."""
FAR = math.log(1.05)
"""Behind by so much, and by `FAR_DEVIATIONS` of the noise beside, after its second: out too."""
FAR_DEVIATIONS = 4.0
OTHERS = 3
"""Times as many degrees of freedom as its own that all pairs give to the variance of one."""
ELSEWHERE = math.log(1.02)
"""Behind by less, a candidate may win in other processes: the race runs in one, where a plan's
place in memory moves it by 0.4 %, and some plans by more than 1 % (156 plans of 24 graphs on H200s,
their races against their rounds)."""
PRECISION = 1 / 4
"""Of the margin, to which those that may be tied have to be known. More would be in vain: where a
plan lies in the memory of one process favours it by as much, and rounds decide."""
MIDMEAN_VARIANCE = 1.2
"""Variance of a midmean in that of a mean, of normal samples."""
LEAST_SAMPLES, MOST_SAMPLES = 10, 300


@dataclass(frozen=True)
class RaceSettings:
    margin: float = math.log(1.005)
    """Differences below this do not matter; a logarithm of times."""
    error_rate: float = 0.01
    """Probability with which one is dropped that is not behind by more than it may be."""
    elsewhere: float = ELSEWHERE
    """What differs from process to process."""
    first_blocks: int = 5
    """Blocks whose variance the sequential bound is made of."""
    most_blocks: int = 40


def screen(logs: Logs) -> Mask:
    """Who stays after one block, or after two."""
    if logs.shape[1] == 1:
        return np.asarray(logs[:, 0] - logs[:, 0].min() <= HOPELESS)
    means = logs.mean(axis=1)
    return np.asarray(means - means.min() <= FAR + FAR_DEVIATIONS * visit_noise(logs))


def visit_noise(logs: Logs) -> float:
    """Standard deviation of one value, from two blocks of many candidates; robust, since a few of
    them may have been disturbed."""
    moved = logs[:, 1] - logs[:, 0]
    moved = np.abs(moved - np.median(moved))
    return float(1.4826 * np.median(moved) / math.sqrt(2))


def block_samples(within: float, between: float, visit_cost: float) -> int:
    """Samples of a candidate in one block, so that time is spent where the variance is.

    `within` and `between` are standard deviations of single samples and of visits, `visit_cost`
    what a visit costs beside its samples, in samples.
    """
    ratio = within / max(between, within / 100, 1e-9)
    wanted = ratio * math.sqrt(visit_cost * MIDMEAN_VARIANCE)
    return int(min(max(round(wanted), LEAST_SAMPLES), MOST_SAMPLES))


def between_visits(logs: Logs, within: float, samples: int) -> float:
    """Standard deviation of what differs from visit to visit beyond the samples' own noise, from
    blocks of so many samples."""
    residual = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
    degrees = max(1, (logs.shape[0] - 1) * (logs.shape[1] - 1))
    own = MIDMEAN_VARIANCE * within**2 / samples
    return math.sqrt(max(0.0, float((residual**2).sum()) / degrees - own))


def survivors(logs: Logs, settings: RaceSettings) -> Mask:
    """Who is still in the race after these blocks, all candidates measured in each of them.

    A candidate is dropped where its mean is behind that of another one by more than half the
    margin, within which it may be tied, or what differs from process to process, and the bound,
    which shrinks with every block.
    """
    count, blocks = logs.shape
    if count < 2 or blocks < settings.first_blocks:
        return np.ones(count, bool)
    means = logs.mean(axis=1)
    behind = means[:, None] - means[None, :] - max(settings.margin / 2, settings.elsewhere)
    return np.asarray(~(behind > _bounds(logs, settings)).any(axis=1))


def _bounds(logs: Logs, settings: RaceSettings) -> Logs:
    """Kim and Nelson's W for every pair, as a difference of means.

    The variance of a pair is averaged with that of all pairs: few blocks say little of one.
    """
    count, blocks = logs.shape
    indifference = settings.margin / 2
    own = settings.first_blocks - 1
    first = logs[:, : settings.first_blocks]
    variances = (first[:, None, :] - first[None, :, :]).var(axis=2, ddof=1)
    shared = OTHERS * own if count > OTHERS else 0
    common = variances[~np.eye(count, dtype=bool)].mean()
    degrees = own + shared
    variances = (own * variances + shared * common) / degrees
    eta = ((2 * settings.error_rate / (count - 1)) ** (-2 / degrees) - 1) / 2
    reach = 2 * eta * degrees * variances / indifference**2
    return np.asarray(np.maximum(0.0, indifference / 2 * (reach / blocks - 1)))


def preferred(behind: Logs, ranks: Ranks, margin: float) -> tuple[int, float]:
    """The candidate of the lowest rank among those as fast as the leader, and how far behind the
    leader the border of these lies.

    `behind`: mean log ratios to the leader, the leader's own 0 among them. The border is the middle
    of the widest gap between half the margin and the margin, so that noise rarely moves somebody to
    the other side. Only a candidate of lower rank than everybody faster counts: of the others it
    does not matter on which side they are.
    """
    order = np.argsort(behind, kind="stable")
    lowest = np.minimum.accumulate(ranks[order])
    steps = order[ranks[order] == lowest]
    inside = [behind[i] for i in steps if margin / 2 < behind[i] < margin]
    edges = np.array([margin / 2, *inside, margin])
    widest = int(np.argmax(np.diff(edges)))
    border = float((edges[widest] + edges[widest + 1]) / 2)
    return int(steps[behind[steps] <= border][-1]), border


def is_clear(logs: Logs, settings: RaceSettings) -> bool:
    """Whether it is known well enough who may be tied with the leader."""
    if len(logs) < 2:
        return True
    if logs.shape[1] < settings.first_blocks:
        return False
    return _worst_error(logs, settings) <= PRECISION * settings.margin


def _worst_error(logs: Logs, settings: RaceSettings) -> float:
    """Largest standard error, among those that may be tied with the leader, of what they are
    behind."""
    means = logs.mean(axis=1)
    leader = int(np.argmin(means))
    errors = (logs - logs[leader]).std(axis=1, ddof=1) / math.sqrt(logs.shape[1])
    close = means - means[leader] < 2 * settings.margin + 2 * errors
    return float(errors[close].max())
