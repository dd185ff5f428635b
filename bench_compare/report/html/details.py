"""What the panel of a case shows, packed in blocks that the page opens when asked.

A block holds some neighbouring cases, in columns: small, and quick to write. A reader opens a few
of thousands, so the page stays small and quick to open, too.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from bench_schema.document import SERIES

from bench_compare.metrics import PHASES
from bench_compare.parallel import share_out_beside
from bench_compare.report.html.front import short
from bench_compare.report.html.metrics import metric_columns, sides_with
from bench_compare.report.html.packing import packed
from bench_compare.report.html.sampling import Budget, budget
from bench_compare.report.html.series import Shown, shown_series, told
from bench_compare.report.html.sides import side_columns
from bench_compare.report.why import EngineChanges, case_changes, kinds
from bench_compare.rounds.lazy import facts_of_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_compare.model import CaseComparison, CaseSide, Comparison, Detail
    from bench_compare.report.why import SideChange
    from bench_compare.rounds.facts import Facts

T = TypeVar("T")

CHUNK = 128
"""Cases in a block. Their samples lie in the cache while they are reduced, and what is packed is
let go, so memory stays small."""
LEAST_SHARE = 1_000
"""Cases that are worth a process."""
SERIES_KEPT = ((1_000, len(SERIES)), (3_000, 2), (math.inf, 1))
"""Up to so many cases the page holds so many series of each, the one its verdict rests on first."""


class DetailBlock(NamedTuple):
    """`CHUNK` cases."""

    text: str
    """`packed`."""
    differing: list[list[str]]
    """Of each case the kinds of what differs between its sides."""


def blocks(comparison: Comparison) -> list[DetailBlock]:
    """In the order of the comparison."""
    return blocks_beside(comparison, lambda: None)[0]


def blocks_beside(comparison: Comparison, beside: Callable[[], T]) -> tuple[list[DetailBlock], T]:
    """`blocks`, and the rest of the page, which is made while other processes make these."""
    cases = comparison.cases
    most = next(number for up_to, number in SERIES_KEPT if len(cases) <= up_to)
    sides = [side for case in cases for side in (case.base, case.other)]
    facts = _facts(sides)
    pairs = zip(cases, facts[::2], facts[1::2], strict=True)
    shown = [shown_series(case.gate, (base, other), most) for case, base, other in pairs]
    plan = budget(sum(one.count for one in shown))
    material = Material(comparison, sides, facts, shown, plan, EngineChanges(comparison))
    counts = len(cases), CHUNK, LEAST_SHARE
    return share_out_beside(partial(_blocks_of, material), counts, beside)


@dataclass(frozen=True, eq=False)
class Material:
    """What the blocks of a page are made of."""

    comparison: Comparison
    sides: Sequence[CaseSide | None]
    """Base and other of each case."""
    facts: Sequence[Sequence[Facts]]
    """Of the rounds of each of these, for each document."""
    shown: Sequence[Shown]
    """Of each case."""
    plan: Budget
    engines: EngineChanges


def _facts(sides: Sequence[CaseSide | None]) -> list[list[Facts]]:
    held = [() if side is None else side.cases for side in sides]
    found = iter(facts_of_all([case.rounds for cases in held for case in cases]))
    return [list(itertools.islice(found, len(cases))) for cases in held]


def _blocks_of(material: Material, cases: range) -> list[DetailBlock]:
    found = []
    for start in range(cases.start, cases.stop, CHUNK):
        group = material.comparison.cases[start : min(start + CHUNK, cases.stop)]
        changes = [case_changes(case) for case in group]
        text = _text(material, slice(start, start + len(group)), changes)
        found.append(DetailBlock(text, [kinds(some) if some else [] for some in changes]))
    return found


def _text(material: Material, here: slice, changes: Sequence[Sequence[SideChange]]) -> str:
    """Of the block of these cases."""
    both = slice(2 * here.start, 2 * here.stop)
    group, shown = material.comparison.cases[here], material.shown[here]
    series, integers = told(group, shown, material.plan)
    metrics = metric_columns(group, material.comparison.metrics)
    phases = sides_with(metrics, PHASES)
    sides, readings = side_columns(material.sides[both], material.facts[both], phases)
    tree = {
        "cases": {
            **_case_columns(group, shown),
            "why": [
                [(one.name, one.base, one.other) for one in (*own, *material.engines.of(case))]
                for case, own in zip(group, changes, strict=True)
            ],
        },
        "sides": sides,
        "readings": len(readings),
        "metrics": {name: one.words for name, one in metrics.items()},
        "series": series,
    }
    return packed(tree, integers, [*(one.numbers for one in metrics.values()), readings])


def _case_columns(cases: Sequence[CaseComparison], shown: Sequence[Shown]) -> dict[str, list[Any]]:
    return {
        "reason": [case.reason for case in cases],
        "fingerprint": [case.fingerprint for case in cases],
        "notes": [[(note.kind, note.side, note.text) for note in case.notes] for case in cases],
        "detail": [_detail(case.detail) for case in cases],
        "leftOut": [one.left_out for one in shown],
    }


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
