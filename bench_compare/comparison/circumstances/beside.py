"""What became worse beside the metric that decides: no verdict tells it, so a sentence does."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from bench_compare.comparison.judging.verdict import percent
from bench_compare.comparison.regressions import WORSENED
from bench_compare.metrics import METRICS, Rate
from bench_compare.metrics.init import PHASES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.model import CaseComparison, MetricComparison
    from bench_compare.policy.values import Policy

UNSURE = "peak_bytes"
"""On a processor one number a document, counted by the kernel in pages: between identical runs it
moved by 17 %, and nothing says how much it scatters."""
TOLD = tuple(
    name
    for name, row in METRICS.items()
    if row.unit and name not in (*PHASES, UNSURE) and not isinstance(row.reading, Rate)
)
"""Times, initialisation as a whole, workspace and energy; rates follow the times."""


def beside_warnings(cases: Sequence[CaseComparison], policy: Policy) -> Iterator[str]:
    """A sentence for each other side that has such cases. Metrics that `policy` counts are bad news
    anyway; what goes with a slow-down that is told is not told again."""
    found: dict[str, dict[str, list[MetricComparison]]] = defaultdict(lambda: defaultdict(list))
    names: dict[tuple[str, str], str] = {}
    for case in cases:
        gate = case.gate_metric
        if gate is None or gate.verdict in WORSENED:
            continue
        for name in TOLD:
            metric = case.metrics.get(name)
            if name not in policy.fail_on and metric is not None and metric.verdict in WORSENED:
                worst = max(found[case.other_label][name], key=_size, default=None)
                if worst is None or _size(metric) > _size(worst):
                    names[case.other_label, name] = case.name
                found[case.other_label][name].append(metric)
    for label, metrics in found.items():
        parts = [_part(name, some, names[label, name]) for name, some in metrics.items()]
        yield (
            f"{label}: worse beside what decides: {'; '.join(parts)} "
            f"(--fail-on {','.join(metrics)} makes it count)"
        )


def _size(metric: MetricComparison) -> float:
    return metric.ratio or 0.0


def _part(name: str, worse: Sequence[MetricComparison], worst: str) -> str:
    ratio = max(map(_size, worse))
    change = f", {percent(ratio)}" if ratio else ""
    if len(worse) == 1:
        return f"{METRICS[name].title} of {worst}{change}"
    return f"{METRICS[name].title} of {len(worse)} cases, most that of {worst}{change}"
