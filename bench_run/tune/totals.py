"""Totals of the suite from confirmed rounds, and the choice of one combination for all graphs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.tuning import Total

from bench_run.tune.decide import Decision, Finalist, decide, ratio
from bench_run.tune.whole import combinations, original_of, total_logs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

    def total(self, chosen: Mapping[int, int], numbers: Sequence[int]) -> Logs | None:
        """Logarithm of the total in each round, of one option for each of these graphs."""
        total: Logs | None = None
        for number in numbers:
            each = self.raced[number]
            found = self.logs[each.options[chosen[number]].case.id]
            part = each.graph.loaded.repeat * np.exp(found)
            rounds = part.size if total is None else min(total.size, part.size)
            total = part[:rounds] if total is None else total[:rounds] + part[:rounds]
        return None if total is None else np.log(total)


def decide_whole(
    suite: Suite, decisions: Sequence[Decision], margin_ratio: float
) -> list[Decision]:
    """One combination for all graphs; each graph's own gain with it."""
    keys = [c.key for c in combinations(suite.raced)]
    known = {i: total_logs(suite.raced, key, suite.logs) for i, key in enumerate(keys)}
    finalists = [Finalist(i, i, logs) for i, logs in known.items() if logs is not None]
    if not finalists or keys[0] != "":
        return list(decisions)
    whole = decide(finalists, 0, [f.index for f in finalists], margin_ratio)
    reason = f"one for all graphs: {keys[whole.winner] or 'the default'}, {whole.reason}"
    return [_under(each, keys[whole.winner], suite, reason) for each in suite.raced]


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
        logs = total_logs(suite.raced, one.key, suite.logs)
        time_ns = one.total_ns if logs is None else math.exp(float(logs.mean()))
        total = Total(dict(one.variant), time_ns, logs is not None, one.missing)
        found.append(replace(total, chosen=chosen == {one.key}))
    return tuple(found)
