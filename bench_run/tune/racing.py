"""Race for the fastest candidates: blocks, rules that eliminate, and the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from bench_schema.estimate import two_sided

if TYPE_CHECKING:
    from bench_run.plan.cases import PlannedCase

# Which variants of a graph are the fastest, from blocks in which each was measured once.
#
# Arrays in, decisions out: ``logs[candidate, block]`` is the logarithm of the candidate's midmean
# in the block. What all candidates of a block share (the clock, another tenant) cancels, because
# only differences within a block are looked at.
#
# Sources. Dropping: S.-H. Kim and B. L. Nelson, "A fully sequential procedure for indifference-zone
# selection in simulation", ACM TOMACS 11 (2001), with c = 1. Block size: T. Kalibera and R. Jones,
# "Rigorous benchmarking in reasonable time", ISMM 2013.

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
"""Required precision for possible ties, as a share of the margin. More would be in vain: a plan's
place in the memory of one process changes its time by as much, and rounds decide."""
MIDMEAN_VARIANCE = 1.2
"""Variance of a midmean in that of a mean, of normal samples."""
LEAST_SAMPLES, MOST_SAMPLES = 10, 300


@dataclass(frozen=True)
class Option:
    """One way to run a graph, or why it is none."""

    variant: Mapping[str, str]
    """Variant by axis, as in the record."""
    case: PlannedCase
    problem: str | None = None
    status: str = "ok"
    """Status in the record before anything is built."""

    @property
    def key(self) -> str:
        """Names it among the options of its graph, in journals."""
        return " ".join(f"{axis}={value}" for axis, value in sorted(self.variant.items()))


@dataclass(frozen=True)
class Fate:
    """Fate of one option; `status` and the rest as in the record."""

    status: Any
    reason: str | None = None
    built: bool = False
    error: float | None = None
    deterministic: bool | None = None
    workspace_bytes: int | None = None
    plan: Mapping[str, str] = field(default_factory=dict)
    beyond: str | None = None
    """The limit that the default breaks: it is measured all the same."""

    @property
    def facts(self) -> tuple[bool | None, float | None, int | None]:
        """They decide among equals."""
        return self.deterministic, self.error, self.workspace_bytes


@dataclass(frozen=True)
class RaceSettings:
    margin: float = math.log(1.005)
    """Differences below this do not matter; a logarithm of times."""
    error_rate: float = 0.01
    """Probability with which one is dropped that is not behind by more than it may be."""
    elsewhere: float = ELSEWHERE
    """Spread between processes."""
    first_blocks: int = 5
    """Blocks whose variance the sequential bound is made of."""
    most_blocks: int = 40


def screen(logs: Logs) -> Mask:
    """Return a mask of the candidates that stay after one block, or after two."""
    if logs.shape[1] == 1:
        return np.asarray(logs[:, 0] - logs[:, 0].min() <= HOPELESS)
    means = logs.mean(axis=1)
    return np.asarray(means - means.min() <= FAR + FAR_DEVIATIONS * block_noise(logs))


def block_noise(logs: Logs) -> float:
    """Return the standard deviation of one value, from two blocks of many candidates; robust, since
    a few of them may have been disturbed."""
    moved = logs[:, 1] - logs[:, 0]
    moved = np.abs(moved - np.median(moved))
    return float(1.4826 * np.median(moved) / math.sqrt(2))


def block_samples(within: float, between: float, block_cost: float) -> int:
    """Return the number of samples of a candidate in one block, so that time is spent on the larger
    variance.

    `within` and `between` are standard deviations of single samples and of whole blocks,
    `block_cost` what one block of a candidate costs beside its samples, in samples.
    """
    ratio = within / max(between, within / 100, 1e-9)
    wanted = ratio * math.sqrt(block_cost * MIDMEAN_VARIANCE)
    return int(min(max(round(wanted), LEAST_SAMPLES), MOST_SAMPLES))


def between_blocks(logs: Logs, within: float, samples: int) -> float:
    """Return the standard deviation between blocks beyond the samples' own noise, from blocks of
    `samples` samples."""
    residual = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
    degrees = max(1, (logs.shape[0] - 1) * (logs.shape[1] - 1))
    own = MIDMEAN_VARIANCE * within**2 / samples
    return math.sqrt(max(0.0, float((residual**2).sum()) / degrees - own))


def survivors(logs: Logs, settings: RaceSettings) -> Mask:
    """Return the candidates that stay after these blocks, in each of which all were measured.

    A candidate is dropped if its mean is behind another's by more than the larger of half the
    margin, within which it may be tied, and the spread between processes, plus the bound, which
    shrinks with every block.
    """
    count, blocks = logs.shape
    if count < 2 or blocks < settings.first_blocks:
        return np.ones(count, bool)
    means = logs.mean(axis=1)
    behind = means[:, None] - means[None, :] - max(settings.margin / 2, settings.elsewhere)
    # Kim and Nelson's W for every pair, as a difference of means. The variance of a pair is
    # averaged with that of all pairs: few blocks say little of one.
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
    bounds = np.maximum(0.0, indifference / 2 * (reach / blocks - 1))
    return np.asarray(~(behind > bounds).any(axis=1))


def preferred(behind: Logs, ranks: Ranks, margin: float) -> tuple[int, float]:
    """Return the candidate of the lowest rank among those as fast as the leader, and the distance
    of their border from the leader.

    `behind`: mean log ratios to the leader, the leader's own 0 among them. The border is the middle
    of the widest gap between half the margin and the margin, so that noise rarely moves a candidate
    to the other side. Only a candidate of lower rank than all faster ones counts: for the others
    the side does not matter.
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
    """Return True if the candidates that may tie with the leader are known precisely enough."""
    if len(logs) < 2:
        return True
    if logs.shape[1] < settings.first_blocks:
        return False
    # The largest standard error of the distance from the leader, among those that may be tied.
    means = logs.mean(axis=1)
    leader = int(np.argmin(means))
    errors = (logs - logs[leader]).std(axis=1, ddof=1) / math.sqrt(logs.shape[1])
    close = means - means[leader] < 2 * settings.margin + 2 * errors
    return float(errors[close].max()) <= PRECISION * settings.margin


# The race of one graph's candidates, block by block, over a function that measures.
#
# Three heats: a screening of one and two short blocks, a heat of short blocks for all that are
# left, and one whose blocks are sized by the variance within and between blocks, until it is clear
# the possibly fastest candidates. All but the function that measures is pure.


Stage: TypeAlias = Literal["screen", "race"]
NEAR = 1.5
"""Multiple of the margin within which a candidate may turn out tied in other processes."""
SHORT_SAMPLES = 20
SHORT_BLOCKS = 5


@dataclass(frozen=True)
class BlockSample:
    """One candidate in one block."""

    log_time: float
    deviation: float
    """Standard deviation of the logarithms of single samples, robust."""
    cost: float
    """Cost besides the samples, in units of one more sample."""


Measure = Callable[[Sequence[int], int], Mapping[int, BlockSample]]
"""Measures candidates once each, in an order of its own, with so many samples. One that fails is
missing in the answer, and is out."""


@dataclass
class RaceState:
    """State of a graph's race; `logs` has a row for every candidate, NaN if absent."""

    logs: Logs
    alive: list[int]
    stages: list[Stage]
    heat: int = 0
    """Number of the first block of the present heat."""
    measured: list[BlockSample] = field(default_factory=list)
    stopped_by: str = "clear"

    @property
    def blocks(self) -> int:
        return int(self.logs.shape[1])

    def now(self) -> Logs:
        """Return the logarithms of the candidates in the race, in the blocks of the present
        heat."""
        return self.logs[self.alive][:, self.heat :]

    def behind(self) -> Logs:
        means = self.now().mean(axis=1)
        return np.asarray(means - means.min())

    def within(self, far: float) -> list[int]:
        """Return the candidates in the race that are behind the leader by at most `far`."""
        if not self.alive:
            return []
        return [c for c, each in zip(self.alive, self.behind(), strict=True) if each <= far]


Watch = Callable[[RaceState], None]


def run_race(
    count: int,
    always: int,
    measure: Measure,
    settings: RaceSettings,
    is_over: Callable[[], bool] = lambda: False,
    watch: Watch = lambda _: None,
) -> RaceState:
    """Run a race. The candidate `always` stays in the race however slow it is, unless it fails.
    `is_over` ends the race early."""
    state = RaceState(np.empty((count, 0)), list(range(count)), ["screen"] * count)

    def block(samples: int) -> None:
        _take(state, measure(tuple(state.alive), samples))
        watch(state)

    def keep(stays: Sequence[bool]) -> None:
        pairs = zip(state.alive, stays, strict=True)
        state.alive = [c for c, yes in pairs if yes or c == always]

    for _ in range(2):
        block(LEAST_SAMPLES)
        if len(state.alive) < 2 or is_over():
            return _ended(state, is_over())
        keep(screen(state.now()).tolist())
    _start_heat(state)
    for _ in range(SHORT_BLOCKS):
        block(SHORT_SAMPLES)
        if len(state.alive) < 2 or is_over():
            return _ended(state, is_over())
    keep(survivors(state.now(), settings).tolist())
    # The variances so far say how many samples a block to come needs.
    within = float(np.median([one.deviation for one in state.measured]))
    cost = float(np.median([one.cost for one in state.measured]))
    between = between_blocks(state.now(), within, SHORT_SAMPLES)
    samples = block_samples(within, between, cost)
    _start_heat(state)
    while True:
        block(samples)
        keep(survivors(state.now(), settings).tolist())
        if is_clear(state.now(), settings):
            return state
        if is_over() or state.blocks - state.heat >= settings.most_blocks:
            return _ended(state, is_over())


def run_all(
    count: int,
    measure: Measure,
    is_over: Callable[[], bool] = lambda: False,
    watch: Watch = lambda _: None,
    blocks: int = SHORT_BLOCKS,
    samples: int = SHORT_SAMPLES,
) -> RaceState:
    """Run blocks of every candidate, without elimination, and return the state of the race: each is
    part of a larger choice."""
    state = RaceState(np.empty((count, 0)), list(range(count)), ["race"] * count)
    for _ in range(blocks):
        _take(state, measure(tuple(state.alive), samples))
        watch(state)
        if not state.alive or is_over():
            break
    state.stopped_by = "most blocks"
    return _ended(state, is_over())


def _take(state: RaceState, measured: Mapping[int, BlockSample]) -> None:
    column = np.full((len(state.logs), 1), np.nan)
    for candidate, sample in measured.items():
        column[candidate] = sample.log_time
    state.logs = np.concatenate((state.logs, column), axis=1)
    state.alive = [c for c in state.alive if c in measured]
    state.measured += measured.values()


def _start_heat(state: RaceState) -> None:
    state.heat = state.blocks
    for candidate in state.alive:
        state.stages[candidate] = "race"


def _ended(state: RaceState, over: bool) -> RaceState:
    if len(state.alive) > 1:
        state.stopped_by = "budget" if over else "most blocks"
    return state


def close(margin: float) -> float:
    """Return the distance behind the fastest beyond which a candidate is not confirmed."""
    return max(2 * margin, ELSEWHERE)


def choose_finalists(
    state: RaceState, ranks: Ranks, always: int, margin: float, most: int = 4
) -> tuple[list[int], list[int]]:
    """Return the finalists to confirm, and those possibly tied with the fastest.

    At most `most` are confirmed, besides the candidate `always`: possible ties in order of their
    rank, the fastest among them; then the next ones.
    """
    if not state.alive:
        return [], []
    alive, behind = np.array(state.alive), state.behind()
    inside = behind <= NEAR * margin
    tied = [int(c) for c in alive[inside][np.argsort(ranks[alive][inside], kind="stable")]]
    fastest = int(alive[np.argmin(behind)])
    later = [int(c) for c in alive[np.argsort(behind, kind="stable")] if c not in tied]
    chosen = tied[: most - 1] if fastest in tied[: most - 1] else [*tied[: most - 1], fastest]
    near = [c for c in later if behind[state.alive.index(c)] < close(margin)]
    chosen += near[: max(0, most - len(chosen))]
    if always in state.alive and always not in chosen:
        chosen.append(always)
    return chosen, tied


def leaders(state: RaceState, engines: Sequence[str]) -> list[int]:
    """Return the fastest candidate of each engine, dropped or not, by the last heat that it was in.

    `engines` has the engine of each candidate. The candidates of an engine share a process; one
    that is slow for a reason of its own would drop all of them, so that the best of each engine is
    measured in the fresh processes of the confirmation, too.
    """
    found: dict[str, tuple[int, float, int]] = {}
    for candidate, engine in enumerate(engines):
        blocks = np.flatnonzero(~np.isnan(state.logs[candidate]))
        if blocks.size:
            last = int(blocks[-1])
            heat = state.logs[candidate, min(last, state.heat) : last + 1]
            mine = (-last, float(heat.mean()), candidate)
            found[engine] = min(mine, found.get(engine, mine))
    return [candidate for _, _, candidate in found.values()]


def raced_time(state: RaceState, candidate: int) -> float | None:
    """Return the geometric mean of its times in its blocks, nanoseconds if times were raced; None
    without a block."""
    logs = state.logs[candidate]
    logs = logs[~np.isnan(logs)]
    return math.exp(float(logs.mean())) if logs.size else None


def intervals(state: RaceState, reference: int) -> list[tuple[float, float | None] | None]:
    """Return, for every candidate, the mean log ratio to `reference` in the common blocks of its
    last heat, and half the width of its 95 % interval; None without such a block."""
    made: list[tuple[float, float | None] | None] = []
    for row in state.logs:
        ratios = row - state.logs[reference]
        ratios = ratios[~np.isnan(ratios)]
        if not ratios.size:
            made.append(None)
            continue
        half = None
        if ratios.size > 1:
            error = float(ratios.std(ddof=1)) / math.sqrt(ratios.size)
            half = two_sided(ratios.size - 1) * error
        made.append((float(ratios.mean()), half))
    return made
