"""Who wins, from the ordinary rounds of the finalists. Arrays in, decisions out.

The rounds of the finalists were taken in turns, so their differences are taken round by round:
what moved all of them cancels. The interval of a mean of differences is Student's. Who is tied is
decided here, not in the race: that ran in one process, where a plan's place in memory may favour it
by as much as ties are apart; rounds are of as many processes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from bench_schema.numbers.student import two_sided
from bench_schema.tuning import Ratio

from bench_run.text import percent_text
from bench_run.tune.racing.rules import preferred

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt


@dataclass(frozen=True)
class Finalist:
    """A candidate that was confirmed: completed, and not wrong."""

    index: int
    rank: int
    """Among equals the lowest is preferred: the default's is 0."""
    logs: npt.NDArray[np.float64]
    """Of each round what is to be made small: time, energy, or their product."""


@dataclass(frozen=True)
class Decision:
    winner: int
    tied_with: tuple[int, ...]
    gain: Ratio | None
    reason: str


OTHERS = 2
"""Times as many degrees of freedom as its own that all pairs give to the variance of one."""


def ratio(base: Finalist, other: Finalist, common: float | None = None, looks: int = 1) -> Ratio:
    """What `base` takes, in what `other` takes. `common`: the mean variance of differences of all
    finalists; with it that of these two is averaged, since few rounds say little of one. `looks`:
    how often it is looked whether the rounds are enough."""
    rounds = min(base.logs.size, other.logs.size)
    if base.index == other.index:
        return Ratio(1.0, 1.0, 1.0)
    steps = base.logs[:rounds] - other.logs[:rounds]
    mean = float(steps.mean())
    if rounds < 2:
        return Ratio(math.exp(mean))
    variance, degrees = float(steps.var(ddof=1)), rounds - 1
    if common is not None:
        variance, degrees = (variance + OTHERS * common) / (1 + OTHERS), degrees * (1 + OTHERS)
    half = two_sided(degrees, looks) * math.sqrt(variance / rounds)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def common_variance(finalists: Sequence[Finalist]) -> float | None:
    """Mean variance of the differences, round by round, of all pairs; None below three finalists
    and two rounds."""
    rounds = min((f.logs.size for f in finalists), default=0)
    if len(finalists) < 3 or rounds < 2:
        return None
    logs = np.array([f.logs[:rounds] for f in finalists])
    pairs = [(a, b) for a in range(len(logs)) for b in range(a)]
    return float(np.mean([(logs[a] - logs[b]).var(ddof=1) for a, b in pairs]))


def decide(
    finalists: Sequence[Finalist], default: int, margin_ratio: float, looks: int = 1
) -> Decision:
    """At least one finalist is there."""
    lasting = still_open(finalists, default, margin_ratio, looks)
    common = common_variance(lasting)
    equals = tied_finalists(lasting, margin_ratio, common)
    base = next((f for f in lasting if f.index == default), None)
    if base is None:
        best = min(equals, key=_rank)
        return Decision(best.index, _others(equals, best), None, "the default did not complete")
    gains = {f.index: ratio(base, f, common, looks) for f in lasting}
    better = [f for f in lasting if f is not base and _exceeds(gains[f.index], margin_ratio)]
    if not better:
        return _default(base, equals, margin_ratio)
    best = min([f for f in equals if f in better] or better, key=_rank)
    others = _others(equals, best)
    reason = "first among equals" if others else "the fastest"
    by_index = {finalist.index: finalist for finalist in finalists}
    gain = ratio(by_index[default], by_index[best.index], common, looks)
    return Decision(best.index, others, gain, reason)


def _default(base: Finalist, equals: Sequence[Finalist], margin_ratio: float) -> Decision:
    """It stays, since nobody is shown to be better by more than the margin. Whether somebody is, is
    asked of each and not only of the one that is preferred among equals: that one changes with
    noise, and with it the default would come and go."""
    others = _others(equals, base)
    reason = "the default is among the fastest" if others else "the default is the fastest"
    if base not in equals:
        best = min(equals, key=_rank)
        reason = (
            f"the gain of candidate {best.index} is not shown to exceed "
            f"{percent_text(margin_ratio)}"
        )
    return Decision(base.index, others, Ratio(1.0, 1.0, 1.0), reason)


def still_open(
    finalists: Sequence[Finalist], default: int, margin_ratio: float, looks: int
) -> list[Finalist]:
    """The default and those that may win, in as many rounds as all of these have. Who was shown to
    be slower at a look got no more rounds and is left out as it was then; of the rest, only those
    whose times are told get more once it is known who wins."""
    left = list(finalists)
    while True:
        rounds = min(f.logs.size for f in left)
        then = [_first(f, rounds) for f in left]
        slower = {f.index for f in shown_slower(then, margin_ratio, looks)} - {default}
        stay = [f for f in left if f.index not in slower or f.logs.size > rounds]
        if len(stay) == len(left):
            return then
        left = stay


def _first(finalist: Finalist, rounds: int) -> Finalist:
    return replace(finalist, logs=finalist.logs[:rounds])


def shown_slower(finalists: Sequence[Finalist], margin_ratio: float, looks: int) -> list[Finalist]:
    """Who is behind the fastest by more than the margin, so that more rounds of it are in vain."""
    common = common_variance(finalists)
    fastest = min(finalists, key=lambda f: float(f.logs.mean()))
    return [f for f in finalists if _exceeds(ratio(f, fastest, common, looks), margin_ratio)]


def _exceeds(gain: Ratio, margin_ratio: float) -> bool:
    return gain.low is not None and gain.low > 1 + margin_ratio


def _rank(finalist: Finalist) -> int:
    return finalist.rank


def _others(equals: Sequence[Finalist], best: Finalist) -> tuple[int, ...]:
    return tuple(sorted(f.index for f in equals if f.index != best.index))


def tied_finalists(
    finalists: Sequence[Finalist], margin_ratio: float, common: float | None = None
) -> list[Finalist]:
    """The fastest and who is as fast: behind by less than a border between half the margin and the
    margin (`racing.rules.preferred`), or not shown to be behind by more than half of it."""
    rounds = min(f.logs.size for f in finalists)
    means = np.array([float(f.logs[:rounds].mean()) for f in finalists])
    behind = means - means.min()
    ranks = np.array([f.rank for f in finalists], np.int64)
    _, border = preferred(behind, ranks, math.log1p(margin_ratio))
    fastest = finalists[int(np.argmin(behind))]

    def is_shown_slower(finalist: Finalist) -> bool:
        low = ratio(finalist, fastest, common).low
        return low is None or low > 1 + margin_ratio / 2

    rows = zip(finalists, behind, strict=True)
    return [f for f, far in rows if far <= border or not is_shown_slower(f)]


Facts: TypeAlias = "tuple[bool | None, float | None, int | None]"
"""Whether it is deterministic, its error, its workspace in bytes."""


def rank_candidates(facts: Mapping[int, Facts], default: int) -> dict[int, int]:
    """Ranks by deterministic, error, workspace and index; the default is always the first. What is
    not known comes after what is."""

    def key(index: int) -> tuple[bool, int, float, float, int]:
        deterministic, error, workspace = facts[index]
        order = {True: 0, None: 1, False: 2}[deterministic]
        return (
            index != default,
            order,
            math.inf if error is None else error,
            math.inf if workspace is None else workspace,
            index,
        )

    return {index: rank for rank, index in enumerate(sorted(facts, key=key))}


@dataclass(frozen=True)
class Point:
    """A confirmed candidate among the others; None: not known of any of them."""

    index: int
    logs: npt.NDArray[np.float64]
    """Of the times of its rounds."""
    error: float | None
    workspace_bytes: int | None
    energy_j: float | None


def pareto(points: Sequence[Point]) -> tuple[int, ...]:
    """Those than which no other is better in something and worse in nothing. Faster is only what
    is faster beyond the interval."""
    return tuple(sorted(p.index for p in points if not any(_beats(q, p) for q in points if q != p)))


def _beats(one: Point, other: Point) -> bool:
    faster, slower = _speed(one, other)
    better, worse = [faster], [slower]
    for a, b in (
        (one.error, other.error),
        (one.workspace_bytes, other.workspace_bytes),
        (one.energy_j, other.energy_j),
    ):
        if a is not None and b is not None:
            better.append(a < b)
            worse.append(a > b)
    return any(better) and not any(worse)


def _speed(one: Point, other: Point) -> tuple[bool, bool]:
    """Whether one is surely faster than the other, and whether surely slower."""
    found = ratio(Finalist(0, 0, other.logs), Finalist(1, 0, one.logs))
    low = found.estimate if found.low is None else found.low
    high = found.estimate if found.high is None else found.high
    return low > 1, high < 1
