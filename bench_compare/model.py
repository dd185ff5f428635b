"""A comparison as a value: what was held against what, each verdict with its reason, the bad news.

Frozen dataclasses and two small pure functions, no I/O and no statistics: `comparison/` builds a
`Comparison`, the renderers only arrange it. Times are nanoseconds, every ``*_ratio`` and ``ratio``
is other / base (above 1: the other side's number is larger), and ``None`` means "not known".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec
from bench_schema.report.model import Conclusion as Conclusion
from bench_schema.report.model import View as View
from bench_schema.report.model import Word as Word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_schema.document import Case, Document


class Verdict(str, Enum):
    """Verdict on a case, or on one metric of it. The value is the word in reports."""

    FASTER = "faster"
    SLOWER = "slower"
    BETTER = "better"
    """`FASTER` for metrics other than speed: memory, energy, error."""
    WORSE = "worse"
    SAME = "same"
    UNCLEAR = "unclear"
    CLOCK = "clock"
    """The time moved and the cycles did not."""
    BROKEN = "broken"
    FIXED = "fixed"
    ADDED = "added"
    REMOVED = "removed"
    NEWLY_WRONG = "newly wrong"
    WRONG = "wrong"
    """Wrong on both sides, or on the only one that has the case."""
    NEWLY_UNSUPPORTED = "newly unsupported"
    LOST = "lost"
    """Base had it and other has not: checked outputs, equal bytes, accuracy, device time."""
    INCOMPARABLE = "incomparable"
    UNMEASURED = "not measured"
    """Neither side completed it, or the metric is not in both documents."""

    def __str__(self) -> str:
        return self.value


SWAPPED: Mapping[Verdict, Verdict] = {
    Verdict.FASTER: Verdict.SLOWER,
    Verdict.SLOWER: Verdict.FASTER,
    Verdict.BETTER: Verdict.WORSE,
    Verdict.WORSE: Verdict.BETTER,
    Verdict.BROKEN: Verdict.FIXED,
    Verdict.NEWLY_WRONG: Verdict.FIXED,
    Verdict.NEWLY_UNSUPPORTED: Verdict.FIXED,
    Verdict.ADDED: Verdict.REMOVED,
    Verdict.REMOVED: Verdict.ADDED,
}
"""The verdict when base and other change places; those not listed stay. What was fixed may come
back as any of three."""

NEWS: tuple[Verdict, ...] = (
    Verdict.BROKEN,
    Verdict.NEWLY_WRONG,
    Verdict.WRONG,
    Verdict.REMOVED,
    Verdict.NEWLY_UNSUPPORTED,
    Verdict.LOST,
    Verdict.INCOMPARABLE,
    Verdict.SLOWER,
    Verdict.WORSE,
    Verdict.CLOCK,
    Verdict.FIXED,
    Verdict.FASTER,
    Verdict.BETTER,
    Verdict.ADDED,
    Verdict.UNCLEAR,
    Verdict.UNMEASURED,
    Verdict.SAME,
)
"""Worst first; the order of sentences, tables, legends and summaries."""
RANK = {verdict: place for place, verdict in enumerate(NEWS)}

SUSPECT_RATIO = 1.2
"""An unclear case that may be so much slower keeps a comparison from PASS."""
SUSPECT_OF_DOCUMENTS_RATIO = 1.15
"""The same of several documents, whose mean hides more of what one of them shows: of five, one that
is ×1.3 slower."""

SideName: TypeAlias = Literal["base", "other"]
Scope: TypeAlias = Literal["all", "weighted", "family", "engine"]
Unit: TypeAlias = Literal["pair", "document", "round", "iteration", "summary"]
"""Independent observation of a case: a pair of base and other of one visit if both are in the same
documents; documents if a side has several; otherwise rounds. A single round leaves only its
iterations, and the verdict is provisional. A summary has no samples."""


@dataclass(frozen=True, eq=False)
class Source:
    """One document that was read, and how."""

    path: str
    document: Document
    format: str
    """``bench`` for our own document, otherwise tool and layout: ``dnn-benchmarking v2``."""
    notes: tuple[str, ...] = ()

    @property
    def imported(self) -> bool:
        return self.format != "bench"


@dataclass(frozen=True, eq=False)
class Side:
    """One thing that is compared: all documents under one label. Machine, engines and run facts
    are those of its documents."""

    label: str
    sources: tuple[Source, ...]
    engines: tuple[str, ...]
    """Keys of the engines whose cases belong to this side."""
    is_unit: bool = False
    """A unit of hardware: that it is another one is the question, and no reservation."""


@dataclass(frozen=True)
class SettingDifference:
    """A setting, or a fact of machine or engine, that the two sides do not share."""

    name: str
    """``timer``, ``cache``, ``device kind``, ``driver`` …"""
    base: str
    other: str
    other_label: str
    must_agree: bool
    """True: the numbers do not mean the same thing, and the comparison is undecided unless it is
    allowed."""
    allowed: bool = False
    """Named by ``--allow``."""


@dataclass(frozen=True)
class Note:
    """Something a reader of a verdict should know about the samples behind it."""

    kind: str
    """``drift``, ``not warm``, ``bimodal``, ``outliers``, ``imported``, ``throttled``,
    ``disturbed``, ``nondeterministic``, ``wrong``, ``setting``, ``no gate``."""
    side: SideName
    text: str


class MetricComparison(msgspec.Struct, frozen=True, gc=False):
    """One metric of one case.

    A dataclass in all but name: there are 50,000 of them, and this takes a seventh of the time.
    """

    metric: str
    """Name of a row of `bench_compare.metrics.METRICS`, which knows unit and direction."""
    base: float | None
    """The side's value: median of each unit, geometric mean over units."""
    other: float | None
    ratio: float | None
    ci_low: float | None
    """95 % interval of `ratio`."""
    ci_high: float | None
    p: float | None
    q: float | None
    """p after Benjamini-Hochberg over all cases of the metric."""
    verdict: Verdict
    make_reason: Callable[[], str]
    """Makes `reason`, which few are asked for."""
    threshold_ratio: float
    """The practical threshold that was applied: 0.01 is 1 %."""
    base_rounds: int
    """Independent units of each side, see `unit`."""
    other_rounds: int
    unit: Unit
    provisional: bool
    rounds_needed: int | None
    """More units a side that would decide an unclear verdict."""
    needed_unit: Unit
    """Unit of `rounds_needed`."""
    seen_ratio: float | None = None
    """Smallest slow-down of this case that would be found with a probability of 90 %; None if
    unknown or if there is none."""

    @property
    def reason(self) -> str:
        """One sentence."""
        return self.make_reason()


class Change(NamedTuple):
    """Change of a case's outcome, separate from its numbers."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, eq=False)
class CaseSide:
    """Cases of one side: one for each document that contains the case."""

    name: str
    """Graph name in that side."""
    engine: str
    cases: tuple[Case, ...]
    sources: tuple[int, ...]
    """Parallel to `cases`: index into `Side.sources`."""
    missing: int = 0
    """Runs that should hold the case and do not."""
    awaited: int = 0
    """Runs that do not hold the case, and have not ended."""


@dataclass(frozen=True, eq=False)
class CaseComparison:
    """One graph on one engine with one variant, base against one other side."""

    id: str
    """Short, unique in the comparison, safe as an anchor: ``c0017``."""
    name: str
    """Graph name for people: the other side's, otherwise the base's."""
    fingerprint: str
    family: str
    data_type: str
    engine: str
    """Key, ``a → b`` where engines are compared."""
    variant: Mapping[str, str]
    other_label: str
    """Label of the side `other`."""
    base: CaseSide | None
    other: CaseSide | None
    verdict: Verdict
    """The headline: what became of the case if that is news, otherwise the gate metric's
    verdict."""
    make_reason: Callable[[], str]
    """Makes `reason`, which few are asked for."""
    gate: str | None
    """Name of the metric that `verdict` rests on."""
    metrics: Mapping[str, MetricComparison]
    changes: tuple[Change, ...] = ()
    """All that became of it, worst first; `verdict` is one of them or that of the gate metric."""
    make_notes: Callable[[], tuple[Note, ...]] = tuple
    """Makes `notes`, which need the samples."""

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """Reservations about the samples. Verdicts do not depend on them."""
        return self.make_notes()

    @property
    def is_suspect(self) -> bool:
        """True for an unclear case that looks slower by more than the threshold, and may be much
        slower: one bad document or round of several makes such a case."""
        metric = self.gate_metric
        if metric is None or metric.verdict is not Verdict.UNCLEAR or metric.ratio is None:
            return False
        least = SUSPECT_OF_DOCUMENTS_RATIO if metric.unit == "document" else SUSPECT_RATIO
        may_be = metric.ci_high is None or metric.ci_high >= least
        return may_be and metric.ratio > 1 + metric.threshold_ratio

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        return self.make_reason()

    @property
    def gate_metric(self) -> MetricComparison | None:
        """The metric that `verdict` rests on."""
        return None if self.gate is None else self.metrics.get(self.gate)

    @property
    def renamed(self) -> bool:
        """True if the two sides use different names for the same graph."""
        return (
            self.base is not None and self.other is not None and self.base.name != self.other.name
        )


@dataclass(frozen=True)
class SuiteNumber:
    """Geometric mean of the ratios of all matched cases of a scope, with a Welch interval over
    rounds or documents."""

    other_label: str
    metric: str
    scope: Scope
    name: str
    """``all``, ``weighted by time``, or the family's or the engine's name."""
    ratio: float
    ci_low: float | None
    """Unknown with a single round a side."""
    ci_high: float | None
    count: int
    """Cases in it."""
    rounds: tuple[int, int]
    """Units of base and other."""
    unit: Unit


@dataclass(frozen=True)
class CommonMovement:
    """Common movement of all cases of a side: an effect of the environment or of the whole
    build."""

    other_label: str
    metric: str
    ratio: float
    ci_low: float | None
    ci_high: float | None
    verdict: Verdict
    reason: str
    cases: int
    """Number of cases; with few cases the common movement is their own."""


@dataclass(frozen=True)
class Sensitivity:
    """Sensitivity of the comparison with one side: the smallest slow-downs that would have been
    found (`MetricComparison.seen_ratio`)."""

    other_label: str
    metric: str
    cases: int
    median_ratio: float | None
    """Slow-down that is found in half of the cases; None: in less than half."""
    p90_ratio: float | None
    """The same for nine of ten cases."""
    blind: bool
    """True if more than one case in ten could hide a slow-down of 50 %."""
    sentence: str


@dataclass(frozen=True)
class BadNews:
    """A thing that turns the exit code to 2, unless it was allowed by name."""

    case: str | None
    """`CaseComparison.id`; None for the suite as a whole."""
    name: str
    metric: str | None
    verdict: Verdict
    sentence: str
    allowed: bool


@dataclass(frozen=True)
class FalseAlarms:
    """Result of ``--aa``: verdicts that cannot be true, because both halves are one build."""

    metric: str
    splits: int
    judged: int
    """Verdicts in all, over splits."""
    alarms: int
    """Number of them that are faster or slower."""
    unclear: int
    rate_ratio: float
    limit_ratio: float
    sentence: str
    threshold_ratio: float | None = None
    """Threshold that this machine supports with three documents a side."""
    shows_runs: bool = True
    """False for halves of one document, which do not show what differs between documents."""

    @property
    def trusted(self) -> bool:
        """True if the rate of false alarms is within its limit and not all verdicts are unclear. If
        all are, neither false alarms nor their absence was shown."""
        within = self.rate_ratio <= self.limit_ratio and self.unclear < self.judged
        return within and self.shows_runs


@dataclass(frozen=True)
class Invocation:
    """Properties of the command line that the conclusion depends on."""

    record: str | None = None
    """The file that holds the result as JSON."""
    passed_over: tuple[str, ...] = ()
    """Sentences on files in folders that are not documents."""
    allow_no_answer: bool = False


@dataclass(frozen=True, eq=False)
class Comparison:
    base: Side
    others: tuple[Side, ...]
    """The other sides, at least one; all are compared with the same base."""
    gate: str | None
    """The metric that decides; a case without it falls back to the next gate it has."""
    metrics: tuple[str, ...]
    """Metrics compared, in table order."""
    differences: tuple[SettingDifference, ...]
    cases: tuple[CaseComparison, ...]
    """Cases in document order; `bench_compare.report.rows.rows` sorts and filters."""
    suite: tuple[SuiteNumber, ...]
    movements: tuple[CommonMovement, ...]
    counts: Mapping[Verdict, int]
    """Headline verdicts; every verdict is a key, zero included."""
    bad_news: tuple[BadNews, ...]
    problems: tuple[str, ...]
    """Sentences: why the question could not be answered (exit 1)."""
    warnings: tuple[str, ...] = ()
    """Sentences a reader must see first: same name with another meaning, unfinished runs …"""
    sensitivity: tuple[Sensitivity, ...] = ()
    """Sensitivity for each other side with measured cases; every "no change" is printed with it."""
    policy: Mapping[str, str] = field(default_factory=dict)
    """Requested policy as text: thresholds, gates, centring, allowed names."""
    threshold_ratio: float | None = None
    """Threshold of `gate`; None if graphs have separate thresholds."""
    invocation: Invocation = field(default_factory=Invocation)


def swapped(verdict: Verdict) -> Verdict:
    """Return the verdict when base and other change places (`SWAPPED`)."""
    return SWAPPED.get(verdict, verdict)
