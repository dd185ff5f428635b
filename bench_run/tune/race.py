"""Choice among contenders: arrays in, decisions out.

The contenders are ways to run one graph, or all graphs of a tuning. All of them have two short
rounds, so two processes each; those far behind the fastest in both are out. The others get ordinary
rounds until none may gain more than the margin over the default, or the fastest is known.

Rounds are independent and each holds all contenders, so their differences are taken round by round:
what moved all of them cancels. The interval of a mean of differences is Student's. Looks are few,
at numbers of rounds that are fixed before, and share the error of the intervals
(`bench_schema.estimate.looks`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from bench_schema.estimate import two_sided
from bench_schema.tuning import Ratio

from bench_run.text import percent_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Logs: TypeAlias = npt.NDArray[np.float64]

FAR = math.log(1.05)
"""Difference from the fastest, in each of the short rounds, of a contender that is out."""
NOISY = 3.0
"""Standard deviations of a short round that the difference has to exceed, too."""
MOST_FINALISTS = 8


def kept(logs: Logs, most: int = MOST_FINALISTS) -> list[int]:
    """Return the rows that stay in the race, the fastest first. `logs`: a row a contender, a column
    a short round."""
    means = logs.mean(axis=1)
    steps = logs[:, 0] - logs[:, -1]
    noise = 1.4826 * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2)
    far = (logs - logs[means.argmin()] > max(FAR, NOISY * noise)).all(axis=1)
    return [int(row) for row in np.argsort(means, kind="stable") if not far[row]][:most]


@dataclass(frozen=True)
class Contender:
    """One that has ordinary rounds, and is not wrong."""

    index: int
    rank: int
    """Among equals the lowest is preferred: the default's is 0."""
    logs: Logs
    """Logarithms of the times of its rounds."""


@dataclass(frozen=True)
class Decision:
    winner: int
    tied_with: tuple[int, ...]
    gain: Ratio | None
    reason: str


OTHERS = 2
"""Times as many degrees of freedom as its own that all pairs give to the variance of one."""


def ratio(base: Contender, other: Contender, common: float | None = None, looks: int = 1) -> Ratio:
    """Return the ratio of the time of `base` to that of `other`. `common`: the mean variance of
    differences of all contenders; the variance of these two is averaged with it, since few rounds
    determine one poorly. `looks`: number of looks at the rounds."""
    if base.index == other.index:
        return Ratio(1.0, 1.0, 1.0)
    rounds = min(base.logs.size, other.logs.size)
    steps = base.logs[:rounds] - other.logs[:rounds]
    mean = float(steps.mean())
    if rounds < 2:
        return Ratio(math.exp(mean))
    variance, degrees = float(steps.var(ddof=1)), rounds - 1
    if common is not None:
        variance, degrees = (variance + OTHERS * common) / (1 + OTHERS), degrees * (1 + OTHERS)
    half = two_sided(degrees, looks) * math.sqrt(variance / rounds)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


@dataclass(frozen=True)
class Lasting:
    """The contenders with the most rounds: the others were shown to be slower at a look."""

    them: Sequence[Contender]
    common: float | None
    """Mean variance of the differences of all pairs; None below three contenders."""

    @classmethod
    def of(cls, contenders: Sequence[Contender]) -> Lasting:
        most = max(c.logs.size for c in contenders)
        them = [c for c in contenders if c.logs.size == most]
        if len(them) < 3 or most < 2:
            return cls(them, None)
        logs = np.array([c.logs for c in them])
        pairs = [(a, b) for a in range(len(logs)) for b in range(a)]
        return cls(them, float(np.mean([(logs[a] - logs[b]).var(ddof=1) for a, b in pairs])))

    @property
    def fastest(self) -> Contender:
        return min(self.them, key=lambda c: float(c.logs.mean()))

    def behind(self, contender: Contender, looks: int) -> Ratio:
        """Return the time of a contender in that of the fastest."""
        return ratio(contender, self.fastest, self.common, looks)

    def equals(self, margin_ratio: float) -> list[Contender]:
        """Return the fastest, and those not shown to be behind it by half of the margin."""
        found = []
        for each in self.them:
            low = self.behind(each, 1).low
            if each.index == self.fastest.index or (
                low is not None and low <= 1 + margin_ratio / 2
            ):
                found.append(each)
        return found


def undecided(contenders: Sequence[Contender], margin_ratio: float, looks: int) -> frozenset[int]:
    """Return the contenders that need more rounds; none once the winner is known.

    While the default is not shown to be beaten, these are the default and all that may gain more
    than the margin over it. After that, all that may be the fastest, until each is shown to be
    slower than it by more than the margin, or not to be.
    """
    if not contenders:
        return frozenset()
    lasting = Lasting.of(contenders)
    every = frozenset(c.index for c in lasting.them)
    if lasting.them[0].logs.size < 2:
        return every if len(every) > 1 else frozenset()
    rivals, limit = list(lasting.them), 1 + margin_ratio
    base = next((c for c in rivals if c.index == 0), None)
    if base is not None:
        gains = {c.index: ratio(base, c, lasting.common, looks) for c in rivals}
        rivals = [c for c in rivals if (gains[c.index].high or 0.0) > limit]
        if all((gains[c.index].low or 0.0) <= limit for c in rivals):
            return frozenset(c.index for c in (base, *rivals)) if rivals else frozenset()
    still, is_open = set(), False
    for each in rivals:
        behind = lasting.behind(each, looks)
        if behind.low is not None and behind.high is not None and behind.low <= limit:
            still.add(each.index)
            is_open |= behind.high > limit
    return frozenset(still) if is_open else frozenset()


def decide(contenders: Sequence[Contender], margin_ratio: float, looks: int = 1) -> Decision:
    """Decide between contenders, of which there is at least one; the default has the index 0."""
    lasting = Lasting.of(contenders)
    equals = lasting.equals(margin_ratio)
    base = next((c for c in contenders if c.index == 0), None)
    if base is None:
        best = min(equals, key=_rank)
        return Decision(best.index, _others(equals, best), None, "the default did not complete")
    if base in equals:
        others = _others(equals, base)
        reason = "the default is among the fastest" if others else "the default is the fastest"
        return Decision(0, others, Ratio(1.0, 1.0, 1.0), reason)
    # The default stays unless a gain is shown to exceed the margin. Each contender is tested, and
    # not only the one that is preferred among equals: this one changes with noise. A default that
    # was dropped at a look is slower than all that are left.
    common, better = lasting.common, lasting.them
    if base in lasting.them:
        better = [c for c in better if _exceeds(ratio(base, c, common, looks), margin_ratio)]
    if not better:
        best, margin = min(equals, key=_rank), percent_text(margin_ratio)
        reason = f"the gain of candidate {best.index} is not shown to exceed {margin}"
        return Decision(0, _others(equals, base), Ratio(1.0, 1.0, 1.0), reason)
    best = min([c for c in equals if c in better] or better, key=_rank)
    others = _others(equals, best)
    reason = "first among equals" if others else "the fastest"
    return Decision(best.index, others, ratio(base, best, common, looks), reason)


def _exceeds(gain: Ratio, margin_ratio: float) -> bool:
    return gain.low is not None and gain.low > 1 + margin_ratio


def _rank(contender: Contender) -> int:
    return contender.rank


def _others(equals: Sequence[Contender], best: Contender) -> tuple[int, ...]:
    return tuple(sorted(c.index for c in equals if c.index != best.index))


Facts: TypeAlias = "tuple[bool | None, float | None, int | None]"
"""Determinism (True, False, unknown), error, workspace in bytes."""


def ranked(contenders: Sequence[Contender], facts: Sequence[Facts]) -> list[Contender]:
    """Return the contenders with ranks by deterministic, error, workspace and index; the default is
    always the first. What is not known comes after what is."""

    def key(place: int) -> tuple[bool, int, float, float, int]:
        deterministic, error, workspace = facts[place]
        return (
            contenders[place].index != 0,
            {True: 0, None: 1, False: 2}[deterministic],
            math.inf if error is None else error,
            math.inf if workspace is None else workspace,
            contenders[place].index,
        )

    order = sorted(range(len(contenders)), key=key)
    return [replace(contenders[place], rank=rank) for rank, place in enumerate(order)]
