"""Totals of the suite from confirmed rounds, and the choice of one combination for all graphs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench_schema.numbers.student import two_sided
from bench_schema.tuning import Ratio, Total

from bench_run.tune.choosing.decide import Decision, Finalist, decide, ratio
from bench_run.tune.choosing.whole import combinations, original_of, total_logs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from bench_run.tune.findings import Raced

    Logs = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Suite:
    raced: Sequence[Raced]
    logs: Mapping[str, Logs]
    """Of the rounds of confirmed cases that are right, by id."""

    def measured(self, chosen: Mapping[int, int]) -> list[int]:
        """Places of the graphs whose default and chosen option both have times."""
        return [
            number
            for number, each in enumerate(self.raced)
            if all(each.options[i].case.id in self.logs for i in (0, chosen[number]))
        ]

    def pair(self, number: int, winner: int) -> Pair:
        each = self.raced[number]
        known = [self.logs[each.options[index].case.id] for index in (0, winner)]
        rounds = min(logs.size for logs in known)
        return Pair(each.graph.loaded.repeat, known[0][:rounds], known[1][:rounds])


@dataclass(frozen=True)
class Gain:
    """What all graphs take by default and with their winners."""

    default_ns: float
    tuned_ns: float
    ratio: Ratio


@dataclass(frozen=True)
class Pair:
    """Rounds of a graph's default and of its winner, as many of both, and how often it occurs."""

    weight: int
    default: Logs
    winner: Logs


def total_gain(suite: Suite, winners: Mapping[int, int], looks: int) -> Gain | None:
    """Of the graphs that have times. Graphs have as many rounds as each needed, and their errors
    are independent; each moves the logarithm of a total by its share of it, and the degrees of
    freedom are Welch's (1947)."""
    pairs = [suite.pair(number, winners[number]) for number in suite.measured(winners)]
    if not pairs:
        return None
    default_ns = math.fsum(pair.weight * _mean_ns(pair.default) for pair in pairs)
    tuned_ns = math.fsum(pair.weight * _mean_ns(pair.winner) for pair in pairs)
    errors = [_variance(pair, default_ns, tuned_ns) for pair in pairs]
    estimate = default_ns / tuned_ns
    if any(rounds < 2 for _, rounds in errors):
        return Gain(default_ns, tuned_ns, Ratio(estimate))
    variance = math.fsum(each for each, _ in errors)
    weights = math.fsum(each**2 / (rounds - 1) for each, rounds in errors)
    degrees = max(1, int(variance**2 / weights)) if weights > 0 else 1
    half = two_sided(degrees, looks) * math.sqrt(variance)
    interval = estimate * math.exp(-half), estimate * math.exp(half)
    return Gain(default_ns, tuned_ns, Ratio(estimate, *interval))


def _mean_ns(logs: Logs) -> float:
    return math.exp(float(logs.mean()))


def _variance(pair: Pair, default_ns: float, tuned_ns: float) -> tuple[float, int]:
    """What a graph adds to the variance of the logarithm of the ratio of totals; its rounds."""
    rounds = int(pair.default.size)
    if rounds < 2:
        return 0.0, rounds
    share = pair.weight * _mean_ns(pair.default) / default_ns
    tuned_share = pair.weight * _mean_ns(pair.winner) / tuned_ns
    moved = share * pair.default - tuned_share * pair.winner
    return float(moved.var(ddof=1)) / rounds, rounds


def decide_whole(
    suite: Suite, decisions: Sequence[Decision], margin_ratio: float
) -> list[Decision]:
    """One combination for all graphs; each graph's own gain with it. One that leaves a graph with a
    default that breaks a limit wins only where nothing else is left."""
    keys = [c.key for c in combinations(suite.raced)]
    known = {i: total_logs(suite.raced, key, suite.logs) for i, key in enumerate(keys)}
    finalists = [Finalist(i, i, logs) for i, logs in known.items() if logs is not None]
    if not finalists or keys[0] != "":
        return list(decisions)
    rivals = [f for f in finalists if _broken(suite.raced, keys[f.index]) is None]
    whole = decide(rivals or finalists, 0, margin_ratio)
    why, broken = whole.reason, _broken(suite.raced, "")
    if broken is not None:
        others = f"the default breaks a limit: {broken}"
        why = f"the fastest within the limits; {others}" if rivals else f"{why}; {others}"
    reason = f"one for all graphs: {keys[whole.winner] or 'the default'}, {why}"
    return [_under(each, keys[whole.winner], suite, reason) for each in suite.raced]


def _broken(raced: Sequence[Raced], key: str) -> str | None:
    """The limit that a graph breaks under a combination that leaves it with its default."""
    left = (each for each in raced if original_of(each, key) == 0)
    return next((each.beyond for each in left if each.beyond is not None), None)


def _under(each: Raced, key: str, suite: Suite, reason: str) -> Decision:
    index = original_of(each, key)
    default = suite.logs.get(each.options[0].case.id)
    if index is None:
        return Decision(0, (), None, reason)
    mine = suite.logs.get(each.options[index].case.id)
    gain = None
    if default is not None and mine is not None:
        gain = ratio(Finalist(0, 0, default), Finalist(index, 1, mine))
    return Decision(index, (), gain, reason)


def totals(suite: Suite, decisions: Sequence[Decision]) -> tuple[Total, ...]:
    """Of every combination: confirmed where all graphs were, else as the race estimates it."""
    chosen = {each.options[d.winner].key for each, d in zip(suite.raced, decisions, strict=True)}
    found = []
    for one in combinations(suite.raced):
        confirmed_ns = _confirmed_ns(suite, one.key)
        time_ns = one.total_ns if confirmed_ns is None else confirmed_ns
        total = Total(dict(one.variant), time_ns, confirmed_ns is not None, one.missing)
        found.append(replace(total, chosen=chosen == {one.key}))
    return tuple(found)


def _confirmed_ns(suite: Suite, key: str) -> float | None:
    """Of one combination, the sum of what is told of each graph."""
    parts = []
    for each in suite.raced:
        index = original_of(each, key)
        found = None if index is None else suite.logs.get(each.options[index].case.id)
        if found is None:
            return None
        parts.append(each.graph.loaded.repeat * _mean_ns(found))
    return math.fsum(parts)
