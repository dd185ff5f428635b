"""The metrics of a block's cases: numbers as columns of single precision, words in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench_compare.model import RANK, Verdict
from bench_compare.report.html.front import floats, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench_compare.model import CaseComparison
    from bench_compare.report.html.front import Floats


class Told(NamedTuple):
    """One metric, with an entry for each case."""

    words: dict[str, Any]
    """Null if a case does not have the metric. The verdict *same* needs no words."""
    numbers: Floats
    """As `numbers_of` returns them."""


def metric_columns(cases: Sequence[CaseComparison], names: Sequence[str]) -> Mapping[str, Told]:
    made: dict[str, Told] = {}
    for name in names:
        found = [case.metrics.get(name) for case in cases]
        same = Verdict.SAME
        words: dict[str, Any] = {
            "verdicts": [None if m is None else RANK[m.verdict] for m in found],
            "reasons": [None if m is None or m.verdict is same else m.reason for m in found],
            "units": [
                None
                if m is None
                else (m.base_rounds, m.other_rounds, m.unit, m.provisional, m.rounds_needed)
                for m in found
            ],
        }
        made[name] = Told(words, floats(numbers_of(found)))
    return made


def sides_with(told: Mapping[str, Told], names: Iterable[str]) -> Mapping[str, Sequence[bool]]:
    """For some metrics: whether base and other of the first case have it, then of the second …"""
    return {
        name: np.isfinite(told[name].numbers[:2]).T.ravel().tolist()
        for name in names
        if name in told
    }
