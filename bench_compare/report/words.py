"""Sentences and facts that every report shows, as plain strings."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bench_schema import units
from bench_schema.names import safe

from bench_compare.comparison.judge import LEAST_UNITS
from bench_compare.metrics import METRICS
from bench_compare.model import NEWS, Verdict
from bench_compare.report.rows import QUIET
from bench_compare.report.why import case_changes, kinds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_schema.document import Document

    from bench_compare.model import (
        BadNews,
        CaseComparison,
        CaseSide,
        Comparison,
        MetricComparison,
        Side,
        SuiteNumber,
    )

VANISHED = NEWS[: NEWS.index(Verdict.SLOWER)]
"""News without a ratio, worst first: shown as sentences."""


OTHERS = {
    "plan": "another plan",
    "kernels": "other kernels",
    "launch": "another launch",
    "clock": "another clock",
}
"""Words for each kind of `SideChange`."""
CODE = ("libraries", "plugin", "plugin sha256", "engines")
"""Differences between two sides that may be another machine code."""
MOVED = (Verdict.SLOWER, Verdict.FASTER)
MOST_LAUNCHES = 5
"""Cases whose launches a text names."""
UNKNOWN = "unknown"
"""Word for values that documents of other tools do not have."""


def title(comparison: Comparison) -> str:
    others = ", ".join(safe(side.label) for side in comparison.others)
    return f"{safe(comparison.base.label)} → {others}"


def _distinct(values: Iterable[str | None]) -> str:
    known = (value for value in values if value and value != UNKNOWN)
    return ", ".join(dict.fromkeys(safe(value) for value in known))


def _rounds(document: Document) -> str:
    """Return a text with the number of rounds that the cases of a document have, and the requested
    number if some have fewer."""
    asked = document.run.settings.rounds
    ran = sorted({count for case in document.cases if (count := len(case.rounds))}) or [asked]
    some = f"{ran[0]}" if len(ran) == 1 else f"{ran[0]} to {ran[-1]}"
    of = f" of {asked}" if ran[0] < asked else ""
    return f"{some}{of} round{'' if ran == [asked] == [1] else 's'}"


def _in_blocks(document: Document) -> bool:
    """Return True if engines of a graph took turns in blocks."""
    first = next((case.rounds for case in document.cases if len(case.rounds)), ())
    return any(one.blocks for one in first[:1])


def side_facts(side: Side) -> dict[str, str]:
    """Return facts on a side and its machine, by name; unknown facts are left out."""
    documents = [source.document for source in side.sources]
    engines = [e for d in documents for e in d.engines if e.key in side.engines]
    sampling, timing, libraries = [], [], []
    for document in documents:
        settings = document.run.settings
        if settings.iterations != 0:  # unknown where another tool's document does not tell of them
            warmup = f"{settings.warmup} warm-up each"
            asked = settings.iterations
            many = "iterations by time" if asked is None else f"{asked} iterations in all"
            taken = "engines in turns, block by block" if _in_blocks(document) else many
            sampling.append(f"{_rounds(document)}, {taken}, {warmup}")
        kinds = (("", settings.timer), ("cache ", settings.cache), ("", settings.duty))
        known = [
            (lead, text) for lead, text in (*kinds, ("math ", settings.math)) if text != UNKNOWN
        ]
        timing.append(", ".join(f"{lead}{text}" for lead, text in known))
    for e in engines:
        versions = ", ".join(f"{name} {version}" for name, version in e.libraries.items())
        shown = e.key if e.key == e.name else f"{e.key} ({e.name})"
        libraries.append(f"{shown}: {versions}" if versions else shown)
    facts = {
        "documents": _distinct(source.path for source in side.sources),
        "format": _distinct(source.format for source in side.sources if source.imported),
        "started": _distinct(
            instant(d.run.started) for d in documents if not d.run.started.startswith("1970")
        ),
        "tags": _distinct(f"{key}={value}" for d in documents for key, value in d.run.tags.items()),
        "host": _distinct(d.machine.host for d in documents),
        "os": _distinct(d.machine.os for d in documents),
        "cpu": _distinct(d.machine.cpu.model for d in documents),
        "device": _distinct(e.device_kind for e in engines),
        "driver": _distinct(device.driver for d in documents for device in d.machine.devices),
        "engine": _distinct(libraries),
        "plugin": _distinct(e.plugin_path for e in engines),
        "sampling": _distinct(sampling),
        "timing": _distinct(timing),
        "tool": _distinct(f"{d.run.tool.name} {d.run.tool.version}" for d in documents),
        "graphs at": _distinct(
            r.commit[:12] + (" with changes" if r.dirty else "")
            for r in (d.machine.graphs_revision for d in documents)
            if r is not None
        ),
    }
    return {name: text for name, text in facts.items() if text}


def news_text(news: BadNews) -> str:
    """Return the name and the event as text; for the suite as a whole the sentence alone."""
    text = news.sentence if news.case is None else f"{news.name}: {news.verdict}, {news.sentence}"
    return safe(f"allowed: {text}" if news.allowed else text)


def other_bad_news(comparison: Comparison) -> list[BadNews]:
    """Return bad news that neither a headline verdict nor a common movement reports: of other
    metrics, of devices, or allowed."""
    told = {(case.id, case.verdict) for case in comparison.cases}
    moved = {movement.reason for movement in comparison.movements}
    return [
        n
        for n in comparison.bad_news
        if n.allowed or ((n.case, n.verdict) not in told and n.sentence not in moved)
    ]


def instant(text: str) -> str:
    """Return an ISO instant without what a reader skips: ``2026-03-01 08:00 UTC``."""
    day, _, rest = text.partition("T")
    zone = rest[8:].lstrip("0123456789.")
    shown = "UTC" if zone in {"Z", "+00:00"} else zone
    return f"{day} {rest[:5]} {shown}".rstrip()


def counts(comparison: Comparison) -> list[tuple[Verdict, int]]:
    """Return the verdicts that occurred with their counts, worst first."""
    return [(v, comparison.counts[v]) for v in NEWS if comparison.counts.get(v)]


def suite_text(number: SuiteNumber) -> str:
    """Return the suite number in a sentence."""
    where = "all cases" if number.scope == "all" else safe(number.name)
    cases = units.count_text(number.count, "case")
    text = f"{metric_title(number.metric)}, geometric mean of {cases}"
    if number.scope != "all":
        text += f" of {where}"
    if units.is_too_noisy(number.ci_low, number.ci_high):
        return f"{text}: {units.NOTHING}"
    if number.ci_low is not None and number.ci_high is not None:
        ends, words = (number.ci_low, number.ci_high), METRICS[number.metric].words
        return f"{text}: {units.change_with_interval(number.ratio, *ends, '95 % CI ', words)}"
    text += f": {units.change_text(number.ratio, METRICS[number.metric].words)}"
    source = "summaries" if number.unit == "summary" else f"a single {number.unit} a side"
    return f"{text} (no interval from {source})"


def movement_texts(comparison: Comparison) -> list[str]:
    """Return the reason why most of several cases moved the same way, by the metric that decides,
    otherwise by each; nothing if they did not. The number that leads is that of `suite_text`."""
    gated = [m for m in comparison.movements if m.metric == comparison.gate]
    units = {side.label for side in comparison.others if side.is_unit}
    lead = (
        "{}: most cases moved together" if many_others(comparison) else "Most cases moved together"
    )
    found = []
    for one in gated or comparison.movements:
        why = one.reason.partition(": ")[2]
        if one.other_label in units:
            found.append(safe(sentence(why.rpartition("; ")[2])))
        elif one.cases > 1 and one.verdict not in (Verdict.SAME, Verdict.UNCLEAR):
            found.append(safe(f"{lead.format(one.other_label)}: {why}"))
    return found


def unfinished(side: Side) -> list[str]:
    """Return paths of the documents whose run did not reach its end."""
    return [source.path for source in side.sources if not source.document.run.complete]


def why_text(comparison: Comparison) -> str:
    """Return a sentence on how many of the cases that moved have another plan, other kernels or
    another clock; empty if none has."""
    moved = [case for case in comparison.cases if case.verdict not in QUIET]
    counts = Counter(kind for case in moved for kind in kinds(case_changes(case)))
    if not counts:
        return ""
    parts = ", ".join(f"{OTHERS[kind]} in {number}" for kind, number in counts.items())
    cases = "1 changed case" if len(moved) == 1 else f"{len(moved)} changed cases"
    return f"Of {cases}, the other side has {parts}."


def launch_texts(comparison: Comparison) -> list[str]:
    """Return, for cases that moved with the same kernels, what differs in their launches."""
    found, many = [], many_others(comparison)
    for case in comparison.cases:
        changes = [] if case.verdict in QUIET else list(case_changes(case))
        told = [
            f"{each.name} {each.base} → {each.other}" for each in changes if each.kind == "launch"
        ]
        if told:
            lead = f"{case.other_label}: " if many else ""
            found.append(safe(f"{lead}{case_name(case)}: {', '.join(told)}"))
    left = len(found) - MOST_LAUNCHES
    more = [f"{left} more cases were launched in another way"] if left > 0 else []
    return [*found[:MOST_LAUNCHES], *more, *_same_code_text(comparison)]


def _same_code_text(comparison: Comparison) -> list[str]:
    """Return a sentence if cases moved although the same kernels of the same libraries ran."""
    changed = {each.other_label for each in comparison.differences if each.name in CODE}
    same = [
        case
        for case in comparison.cases
        if case.verdict in MOVED
        and case.other_label not in changed
        and not {each.kind for each in case_changes(case)} & {"plan", "kernels", "launch"}
        and all(_launched(side) for side in (case.base, case.other))
    ]
    if not same:
        return []
    cases = "1 changed case has" if len(same) == 1 else f"{len(same)} changed cases have"
    what = "the same libraries, kernels and launches on both sides"
    return [f"{cases} {what}: suspect the machine or the settings."]


def _launched(side: CaseSide | None) -> bool:
    """Return True if the launches of the side's kernels are known."""
    kernels = [] if side is None else [kernel for case in side.cases for kernel in case.kernels]
    return any(kernel.launch is not None for kernel in kernels)


def sensitivity_texts(comparison: Comparison) -> list[str]:
    """Return sentences on the smallest change that each comparison would have seen."""
    many = many_others(comparison)
    return [
        safe(f"{one.other_label}: {one.sentence}" if many else sentence(one.sentence))
        for one in comparison.sensitivity
    ]


def sentence(text: str) -> str:
    """Return the text with a capital letter."""
    return text[:1].upper() + text[1:]


def headline_numbers(comparison: Comparison, scope: str = "all") -> list[SuiteNumber]:
    """Return suite numbers of a scope for the gate metric, otherwise for every metric there is."""
    numbers = [n for n in comparison.suite if n.scope == scope]
    gated = [n for n in numbers if n.metric == comparison.gate]
    return gated or numbers


def metric_title(name: str) -> str:
    return METRICS[name].title


def metric_value(value: float | None, name: str) -> str:
    return units.value_text(value, METRICS[name].unit)


def case_name(case: CaseComparison) -> str:
    """Return name and variant, in one printable line."""
    variant = ", ".join(f"{key}={value}" for key, value in case.variant.items())
    return safe(f"{case.name} [{variant}]" if variant else case.name)


def provisional(case: CaseComparison) -> bool:
    """Return True if the headline is that of a metric with fewer rounds than it needs."""
    gate = case.gate_metric
    return gate is not None and gate.verdict is case.verdict and gate.provisional


def allowed_cases(comparison: Comparison) -> frozenset[str]:
    """Return ids of the cases whose verdict is bad news that was allowed."""
    if not any(one.allowed for one in comparison.bad_news):
        return frozenset()
    told = {(case.id, case.verdict) for case in comparison.cases}
    news = [one for one in comparison.bad_news if (one.case, one.verdict) in told]
    loud = {one.case for one in news if not one.allowed}
    return frozenset(one.case for one in news if one.case is not None and one.case not in loud)


def verdict_text(case: CaseComparison, allowed: bool) -> str:
    """Return the verdict, with a question mark if it is provisional, and whether it was allowed."""
    doubt = "?" if provisional(case) else ""
    return f"{case.verdict}{', allowed' if allowed else ''}{doubt}"


NOUNS = {"document": "documents", "pair": "pairs"}
"""Nouns of units other than rounds, singular → plural."""


def provisional_text(shown: Iterable[CaseComparison]) -> str:
    """Return the meaning of a question mark; empty without one."""
    metrics = [m for case in shown if provisional(case) and (m := case.gate_metric) is not None]
    raw = [m for m in metrics if m.unit == "summary"]
    few = [
        m
        for m in metrics
        if min(m.base_rounds, m.other_rounds) < LEAST_UNITS and m.unit != "summary"
    ]
    nouns = dict.fromkeys(NOUNS.get(m.unit, "rounds") for m in few)
    why = ["summary only, no samples: the raw ratio counts"] if raw else []
    why += [f"fewer than {LEAST_UNITS} {' or '.join(nouns)} a side"] if few else []
    if len(few) + len(raw) < len(metrics):
        why.append("another unit of hardware")
    return f"? provisional: {', or '.join(why)}" if why else ""


def values(case: CaseComparison) -> tuple[str, str, MetricComparison | None]:
    """Return base and other of the gate metric as text, and the metric; two dashes and None without
    one."""
    metric = case.gate_metric
    if metric is None:
        return "-", "-", None
    return (
        metric_value(metric.base, metric.metric),
        metric_value(metric.other, metric.metric),
        metric,
    )


def many_engines(comparison: Comparison) -> bool:
    return len({case.engine for case in comparison.cases}) > 1


def many_others(comparison: Comparison) -> bool:
    return len(comparison.others) > 1
