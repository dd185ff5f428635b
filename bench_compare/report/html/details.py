"""What the panel of a case shows, packed in blocks that the page opens when asked.

A block holds some neighbouring cases, in columns: small, and quick to write. A reader opens a few
of thousands, so the page stays small and quick to open, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from bench_schema.document import SERIES

from bench_compare.metrics import PHASES
from bench_compare.report.html.front import short
from bench_compare.report.html.metrics import metric_columns, sides_with
from bench_compare.report.html.packing import packed
from bench_compare.report.html.sampling import budget
from bench_compare.report.html.series import shown_series, told
from bench_compare.report.html.sides import side_columns
from bench_compare.report.why import EngineChanges, case_changes, kinds
from bench_compare.rounds.facts import facts as facts_of

if TYPE_CHECKING:
    from bench_compare.model import Comparison, Detail

CHUNK = 128
"""Cases in a block. Their samples lie in the cache while they are reduced, and what is packed is
let go, so memory stays small."""
SERIES_KEPT = ((1_000, len(SERIES)), (3_000, 2), (math.inf, 1))
"""Up to so many cases the page holds so many series of each, the one its verdict rests on first."""


class DetailBlock(NamedTuple):
    """`CHUNK` cases."""

    text: str
    """`packed`."""
    differing: list[list[str]]
    """Of each case the kinds of what differs between its sides."""


def blocks(comparison: Comparison) -> list[DetailBlock]:
    """Pack the panels of all cases, in the order of the comparison."""
    cases = comparison.cases
    most = next(number for up_to, number in SERIES_KEPT if len(cases) <= up_to)
    sides = [side for case in cases for side in (case.base, case.other)]
    held = [() if side is None else side.cases for side in sides]
    facts = [[facts_of(case.rounds) for case in some] for some in held]
    pairs = zip(cases, facts[::2], facts[1::2], strict=True)
    shown = [shown_series(case.gate, (base, other), most) for case, base, other in pairs]
    plan = budget(sum(one.count for one in shown))
    engines = EngineChanges(comparison)

    made = []
    for start in range(0, len(cases), CHUNK):
        stop = min(start + CHUNK, len(cases))
        group, here = cases[start:stop], shown[start:stop]
        both = slice(2 * start, 2 * stop)
        changes = [case_changes(case) for case in group]
        series, integers = told(group, here, plan)
        metrics = metric_columns(group, comparison.metrics)
        columns, readings = side_columns(sides[both], facts[both], sides_with(metrics, PHASES))
        tree = {
            "cases": {
                "reason": [case.reason for case in group],
                "fingerprint": [case.fingerprint for case in group],
                "notes": [[(n.kind, n.side, n.text) for n in case.notes] for case in group],
                "detail": [_detail(case.detail) for case in group],
                "leftOut": [one.left_out for one in here],
                "why": [
                    [(one.name, one.base, one.other) for one in (*own, *engines.of(case))]
                    for case, own in zip(group, changes, strict=True)
                ],
            },
            "sides": columns,
            "readings": len(readings),
            "metrics": {name: one.words for name, one in metrics.items()},
            "series": series,
        }
        text = packed(tree, integers, [*(one.numbers for one in metrics.values()), readings])
        made.append(DetailBlock(text, [kinds(some) if some else [] for some in changes]))
    return made


def _detail(detail: Detail | None) -> dict[str, Any] | None:
    if detail is None:
        return None
    return {
        "metric": detail.metric,
        "ratio": short(detail.median_ratio),
        "low": short(detail.bootstrap_low),
        "high": short(detail.bootstrap_high),
        "shift": short(detail.shift_ns),
        "quantiles": [[percent, short(r)] for percent, r in sorted(detail.quantile_ratios.items())],
    }
