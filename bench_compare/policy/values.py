"""What counts: thresholds, what is a regression, what is allowed."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bench_compare.metrics import METRICS, Rate, Sampled
from bench_compare.model import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ALWAYS_BAD = frozenset(
    {Verdict.BROKEN, Verdict.REMOVED, Verdict.NEWLY_WRONG, Verdict.WRONG, Verdict.LOST}
)
"""Bad news whatever ``--fail-on`` says; only a name can be allowed to."""

SUITE = "suite"
"""The word of ``--fail-on`` and the name for ``--allow`` that mean the common movement."""

DEFAULT_FAIL_ON = (Verdict.SLOWER.value, Verdict.NEWLY_UNSUPPORTED.value, SUITE)


@dataclass(frozen=True)
class Allowance:
    """A case that may be bad news; ``verdict`` None allows any."""

    pattern: str
    verdict: Verdict | None = None


@dataclass(frozen=True)
class GraphRule:
    """A threshold of its own for the graphs that ``pattern`` fits; a later rule wins."""

    pattern: str
    threshold_ratio: float
    metric: str | None = None


@dataclass(frozen=True)
class Limit:
    """A number of cases, or a share of them."""

    count: int = 0
    share: float | None = None

    def __str__(self) -> str:
        return str(self.count) if self.share is None else f"{100 * self.share:.3g}%"


@dataclass(frozen=True)
class Policy:
    threshold_ratio: float | None = None
    """Of times and rates; other metrics keep the threshold of their row."""
    metric_thresholds: Mapping[str, float] = field(default_factory=dict)
    rules: tuple[GraphRule, ...] = ()
    metrics: tuple[str, ...] = tuple(METRICS)
    fail_on: frozenset[str] = frozenset(DEFAULT_FAIL_ON)
    """Verdict words or names of metrics (any worsening of that metric); the common movement gates
    always."""
    allow: tuple[Allowance, ...] = ()
    strict: bool = False
    required_sensitivity_ratio: float | None = None
    """Nine of ten cases must be able to show a slow-down of this share."""
    max_unclear: Limit | None = None
    """More unclear cases are no answer."""
    alpha_ratio: float = 0.05
    floor_sd: float = 0.002
    details: int = 0
    """Flagged cases that get a closer look (`Detail`)."""

    def threshold(self, metric: str) -> float:
        """Threshold of a metric where no graph rule speaks."""
        row = METRICS[metric]
        if metric in self.metric_thresholds:
            return self.metric_thresholds[metric]
        if self.threshold_ratio is not None and isinstance(row.reading, Sampled | Rate):
            return self.threshold_ratio
        return row.threshold_ratio

    def thresholds(self, metric: str, names: Iterable[str]) -> list[float]:
        """Threshold of a metric for each of the graphs."""
        general = self.threshold(metric)
        rules = [rule for rule in reversed(self.rules) if rule.metric in (None, metric)]
        if not rules:
            return [general for _ in names]
        return [
            next((rule.threshold_ratio for rule in rules if fits(name, rule.pattern)), general)
            for name in names
        ]

    def allows(self, names: Iterable[str], verdict: Verdict) -> bool:
        """Whether any of the names of a case may be this bad news."""
        return any(
            rule.verdict in (None, verdict) and fits(name, rule.pattern)
            for name in names
            for rule in self.allow
        )


def fits(name: str, pattern: str) -> bool:
    """Equal, or a glob that matches; equality first, as names may hold brackets."""
    return name == pattern or fnmatchcase(name, pattern)
