"""CSV: one row for each case and metric, plain numbers, empty where unknown."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from bench_schema.csv_cells import plain_cell

from bench_compare.comparison.judging.results import stretches
from bench_compare.metrics import METRICS
from bench_compare.parallel import share_out
from bench_compare.report import words
from bench_compare.report.rows import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_compare.comparison.judging.results import Results, Standing
    from bench_compare.model import CaseComparison, Comparison, MetricComparison, View

LEAST_SHARE = 2_000
"""Cases that are worth a process."""

CASE_COLUMNS: dict[str, Callable[[CaseComparison], object]] = {
    "id": lambda case: case.id,
    "verdict": lambda case: case.verdict.value,
    "name": lambda case: plain_cell(case.name),
    "variant": lambda case: plain_cell(" ".join(f"{k}={v}" for k, v in case.variant.items())),
    "engine": lambda case: plain_cell(case.engine),
    "other_label": lambda case: plain_cell(case.other_label),
    "family": lambda case: plain_cell(case.family),
    "data_type": lambda case: plain_cell(case.data_type),
    "fingerprint": lambda case: plain_cell(case.fingerprint),
    "reason": lambda case: plain_cell(case.reason),
    "changes": lambda case: plain_cell("; ".join(f"{c.verdict}: {c.reason}" for c in case.changes)),
    "notes": lambda case: plain_cell("; ".join(f"{n.side}: {n.text}" for n in case.notes)),
}
UNFINISHED = "unfinished"
"""Column with the sides of which a run did not reach its end: ``base``, ``other``, ``base other``,
or nothing."""
WARNINGS = "comparison_warnings"
"""The last column, the same in every row: what a reader must know of the whole comparison."""
MOST_WARNINGS = 50


def _seen_from(metric: MetricComparison) -> float | None:
    """Of metrics where more is worse, the growth that would have been called; empty: none."""
    return metric.seen_ratio if METRICS[metric.metric].better == "lower" else None


METRIC_COLUMNS: dict[str, Callable[[MetricComparison], object]] = {
    "metric": attrgetter("metric"),
    "unit": lambda m: METRICS[m.metric].unit,
    "base": attrgetter("base"),
    "other": attrgetter("other"),
    "ratio": attrgetter("ratio"),
    "ci_low": attrgetter("ci_low"),
    "ci_high": attrgetter("ci_high"),
    "p": attrgetter("p"),
    "q": attrgetter("q"),
    "metric_verdict": lambda m: m.verdict.value,
    "threshold_ratio": attrgetter("threshold_ratio"),
    "base_rounds": attrgetter("base_rounds"),
    "other_rounds": attrgetter("other_rounds"),
    "unit_of_rounds": attrgetter("unit"),
    "provisional": lambda m: str(m.provisional).lower(),
    "rounds_needed": attrgetter("rounds_needed"),
    "seen_from_ratio": _seen_from,
}


def render(comparison: Comparison, view: View) -> str:
    """All cases that pass the filter; a case without metrics keeps one row."""
    unfinished = _unfinished(comparison)
    warnings = _warnings([*comparison.problems, *comparison.warnings, *_news(comparison)])
    cases = list(rows(comparison, replace(view, all=True, sort="document")))
    lines = share_out(
        lambda part: _lines(cases[part.start : part.stop], unfinished, warnings),
        len(cases),
        1,
        LEAST_SHARE,
    )
    of_case = dict(zip((case.id for case in cases), lines, strict=True))
    order = rows(comparison, replace(view, all=True))
    head = _text([*CASE_COLUMNS, UNFINISHED, *METRIC_COLUMNS, WARNINGS])
    return "\n".join([head, *(of_case[case.id] for case in order), ""])


def _warnings(texts: Sequence[str]) -> str:
    """It stands in each row: ten thousand of them in as many rows would be gigabytes."""
    shown, more = list(texts[:MOST_WARNINGS]), len(texts) - MOST_WARNINGS
    if more > 0:
        shown.append(f"and {more} more, which --json tells")
    return plain_cell("; ".join(shown))


def _lines(cases: Sequence[CaseComparison], unfinished: dict[str, str], warnings: str) -> list[str]:
    """All rows of each case."""
    last = _text([warnings])
    found = []
    for case, cells in zip(cases, _cells(cases), strict=True):
        head = [read(case) for read in CASE_COLUMNS.values()]
        first = _text([*head, unfinished[case.other_label]])
        found.append("\n".join(f"{first},{one},{last}" for one in cells or [NO_METRIC]))
    return found


def _cells(cases: Sequence[CaseComparison]) -> Iterator[Sequence[str]]:
    """Of each case a text for each of its metrics."""
    for metrics, place in stretches([case.metrics for case in cases]):
        if place is None:
            yield from ([_of_metric(one) for one in each.values()] for each in metrics)
            continue
        results, rows = place
        columns = [_of_column(name, one, rows) for name, one in results.items()]
        yield from ([one for one in row if one is not None] for row in zip(*columns, strict=True))


def _of_metric(metric: MetricComparison) -> str:
    values = (read(metric) for read in METRIC_COLUMNS.values())
    return _text([f"{one:.10g}" if isinstance(one, float) else one for one in values])


def _of_column(name: str, results: Results, rows: slice) -> list[str | None]:
    """The same as `_of_metric` of neighbouring cases; None where a case has no such metric."""
    told, metric = results.columns.part(rows), METRICS[name]
    *numbers, threshold = told.numbers
    base, other, ratio, low, high, q = map(_number_texts, numbers)
    seen = results.seen[rows] if metric.better == "lower" else [None] * len(base)
    columns = zip(
        results.held[rows],
        base,
        other,
        ratio,
        low,
        high,
        _number_texts(told.p),
        q,
        results.verdicts[rows],
        _number_texts(threshold),
        told.standings,
        _number_texts(seen),
        strict=True,
    )
    first = _text([name, metric.unit])
    return [
        f"{first},{','.join(values)},{verdict.value},{limit},{_standing_text(standing)},{size}"
        if held
        else None
        for held, *values, verdict, limit, standing, size in columns
    ]


@lru_cache(1024)
def _standing_text(standing: Standing) -> str:
    left, right, unit, provisional, needed = standing
    return _text([left, right, unit, str(provisional).lower(), needed])


def _number_texts(values: Sequence[float | None]) -> list[str]:
    return ["" if value is None else f"{value:.10g}" for value in values]


def _text(cells: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


NO_METRIC = _text(["" for _ in METRIC_COLUMNS])


def _unfinished(comparison: Comparison) -> dict[str, str]:
    """By the label of the other side."""
    found = {}
    for other in comparison.others:
        sides = {"base": comparison.base, "other": other}
        found[other.label] = " ".join(n for n, side in sides.items() if words.unfinished(side))
    return found


def _news(comparison: Comparison) -> Iterator[str]:
    """Bad news of no single case, and settings that must agree and do not."""
    yield from (words.news_text(news) for news in comparison.bad_news if news.case is None)
    yield from words.sensitivity_texts(comparison)
    yield from (
        f"{d.name}: {d.base} → {d.other}"
        for d in comparison.differences
        if d.must_agree or d.name == "driver"
    )
