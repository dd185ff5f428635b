"""The metrics of a block's cases: numbers as columns of single precision, words in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench_compare.comparison.judging.results import NUMBERS, neighbours, numbers_of
from bench_compare.model import RANK, Verdict
from bench_compare.report.html.front import floats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench_compare.model import CaseComparison
    from bench_compare.report.html.front import Floats


class Told(NamedTuple):
    """Of one metric, an entry for each case."""

    words: dict[str, Any]
    """Null where a case has no such metric. That it is the same needs no words."""
    numbers: Floats
    """`ResultColumns.values`."""


def metric_columns(cases: Sequence[CaseComparison], names: Sequence[str]) -> Mapping[str, Told]:
    held = [case.metrics for case in cases]
    together = neighbours(held)
    made: dict[str, Told] = {}
    if together is None:
        for name in names:
            found = [metrics.get(name) for metrics in held]
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
            numbers = np.array([numbers_of(m) for m in found], float).reshape(-1, NUMBERS)
            made[name] = Told(words, floats(numbers.T))
        return made
    every, rows = together
    for name in names:
        if name not in every:
            continue
        results = every[name]
        known, verdicts = results.held[rows], results.verdicts[rows]
        told = results.columns.part(rows)
        places = range(rows.start, rows.stop)
        words = {
            "verdicts": [RANK[verdict] for verdict in verdicts],
            "reasons": [
                results.reason(row) if has and verdict is not Verdict.SAME else None
                for row, has, verdict in zip(places, known, verdicts, strict=True)
            ],
            "units": [one if has else None for has, one in zip(known, told.standings, strict=True)],
        }
        made[name] = Told(words, floats(told.values))
    return made


def sides_with(told: Mapping[str, Told], names: Iterable[str]) -> Mapping[str, Sequence[bool]]:
    """Of some metrics, whether base and other of the first case have it, then of the second …"""
    return {
        name: np.isfinite(told[name].numbers[:2]).T.ravel().tolist()
        for name in names
        if name in told
    }
