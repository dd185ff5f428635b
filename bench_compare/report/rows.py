"""Selection and order of the cases: the same rows in every renderer."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bench_compare.errors import UsageError
from bench_compare.model import RANK, CaseComparison, Comparison, Verdict, View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

QUIET = frozenset({Verdict.SAME, Verdict.UNCLEAR, Verdict.UNMEASURED})
"""Shown only on demand (``--all``)."""


MOST_PANELS = 1_000
"""Cases of a page that have a panel: each takes about 1 kB and 3 ms."""


def with_panels(ids: Iterable[str]) -> frozenset[str]:
    """Return the ids of the cases that have a panel: those that come first."""
    return frozenset([*dict.fromkeys(ids)][:MOST_PANELS])


def panels_text(cases: int) -> str:
    """Return a sentence on which cases have a panel; empty if all have."""
    told = f"Details: of the first {MOST_PANELS:,} cases by news; --filter NAME puts others first."
    return told if cases > MOST_PANELS else ""


def size_of(case: CaseComparison) -> float:
    metric = case.gate_metric
    return 1.0 if metric is None or metric.ratio is None else metric.ratio


def time_of(case: CaseComparison) -> float:
    metric = case.gate_metric
    values = () if metric is None else (metric.other, metric.base)
    return next((value for value in values if value is not None), 0.0)


def gained(case: CaseComparison) -> float:
    """Return the growth of the value."""
    metric = case.gate_metric
    if metric is None or metric.base is None or metric.other is None:
        return -math.inf
    return metric.other - metric.base


def news_rank(case: CaseComparison) -> float:
    """Return the place of a case among all news: a suspect stands right after those that are
    slower."""
    return RANK[Verdict.SLOWER] + 0.5 if case.is_suspect else RANK[case.verdict]


SORTS: dict[str, Callable[[CaseComparison], tuple[object, ...]]] = {
    "news": lambda case: (news_rank(case), -size_of(case), case.name),
    "ratio": lambda case: (-size_of(case), case.name),
    "difference": lambda case: (-gained(case), case.name),
    "name": lambda case: (case.name, case.engine),
    "family": lambda case: (case.family, case.name),
    "time": lambda case: (-time_of(case), case.name),
    "document": lambda _case: (),
}


def matches(texts: Iterable[str], pattern: str) -> bool:
    """Return True if every word of the pattern is part of one of the texts, or a glob that matches
    it; letter case does not count."""
    words = [word.lower() for word in texts]
    for wanted in pattern.lower().split():
        fits = fnmatchcase if any(sign in wanted for sign in "*?[") else str.__contains__
        if not any(fits(word, wanted) for word in words):
            return False
    return True


def rows(comparison: Comparison, view: View) -> tuple[CaseComparison, ...]:
    """Return the cases that pass the filter, sorted; raises `UsageError` for an unknown sort."""
    if view.sort not in SORTS:
        raise UsageError(f"--sort: no order {view.sort!r}; choose from {', '.join(SORTS)}")
    shown = comparison.cases
    if view.filter is not None:
        shown = tuple(case for case in shown if matches(_texts(case), view.filter))
        verdicts = [verdict.value for verdict in Verdict]  # one that no case has is not a mistake
        if not shown and not any(
            matches([*_texts(case), *verdicts], view.filter) for case in comparison.cases
        ):
            names = ", ".join(dict.fromkeys(case.name for case in comparison.cases[:2]))
            fits = f"none of {len(comparison.cases)} cases fits {view.filter!r}"
            raise UsageError(f"--filter: {fits}; their names are like {names}")
    return tuple(sorted(shown, key=SORTS[view.sort]))


def _texts(case: CaseComparison) -> Iterator[str]:
    """Yield the texts that a filter searches."""
    yield from (case.name, case.family, case.engine, case.data_type, case.verdict.value)
    yield from (f"{name}={value}" for name, value in case.variant.items())
    yield from (side.name for side in (case.base, case.other) if side is not None)
