"""What became worse beside the metric that decides: no verdict tells it, so a sentence does."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from bench_compare.comparison.judging.on_demand import verdict_of
from bench_compare.comparison.judging.verdict import percent
from bench_compare.comparison.regressions import WORSENED
from bench_compare.metrics import METRICS, Rate
from bench_compare.metrics.init import PHASES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.model import CaseComparison
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
    worse: dict[str, dict[str, list[CaseComparison]]] = defaultdict(lambda: defaultdict(list))
    told = [name for name in TOLD if name not in policy.fail_on]
    for case in cases:
        gate = None if case.gate is None else verdict_of(case.metrics, case.gate)
        if gate is None or gate in WORSENED:
            continue
        for name in told:
            if verdict_of(case.metrics, name) in WORSENED:
                worse[case.other_label][name].append(case)
    for label, metrics in worse.items():
        parts = [_part(name, some) for name, some in metrics.items()]
        yield (
            f"{label}: worse beside what decides: {'; '.join(parts)} "
            f"(--fail-on {','.join(metrics)} makes it count)"
        )


def _part(name: str, cases: Sequence[CaseComparison]) -> str:
    ratios = [case.metrics[name].ratio or 0.0 for case in cases]
    ratio = max(ratios)
    worst = cases[ratios.index(ratio)].name
    change = f", {percent(ratio)}" if ratio else ""
    if len(cases) == 1:
        return f"{METRICS[name].title} of {worst}{change}"
    return f"{METRICS[name].title} of {len(cases)} cases, most that of {worst}{change}"
