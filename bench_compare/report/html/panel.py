"""The panel of a case as markup with its figures: what moved, samples, metrics, validation, kernels
and facts. Panels travel packed until a reader opens them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema import units
from bench_schema.document import PAID_ONCE
from bench_schema.launches import launch_text
from bench_schema.names import cut
from bench_schema.report.model import Chart, Panel

from bench_compare.comparison.circumstances.facts import facts
from bench_compare.metrics import METRICS, PHASES, Rate
from bench_compare.report.figures import samples
from bench_compare.report.html import figure_element
from bench_compare.report.html.markup import Html, escaped, joined, note, tag
from bench_compare.report.html.tables import badge, plain, state_badge
from bench_compare.report.html.tables import facts as facts_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bench_schema.document import Case, OutputValidation, Validation
    from bench_schema.report.model import State

    from bench_compare.model import CaseComparison, CaseSide, Comparison, MetricComparison, Verdict
    from bench_compare.report.figures.base import Figure
    from bench_compare.report.why import SideChange

Both = list[tuple[str, "CaseSide | None"]]
LONGEST_TEXT = 2_000
MOST_MOVED = 240
"""Characters of a fact that differs: the table of kernels has whole names."""
WORST = 8
"""Mismatches shown for an output."""
UNKNOWN = "–"


class Panels:
    """Makes the panels of one comparison; `names` are those of the sides, `states` the looks of
    verdicts."""

    def __init__(
        self, comparison: Comparison, names: Sequence[str], states: Mapping[Verdict, State]
    ) -> None:
        self.names, self.states, self.count = names, states, len(comparison.cases)
        self.buckets = samples.buckets_of(self.count)

    def of(
        self, case: CaseComparison, state: State, about: str, changes: Sequence[SideChange]
    ) -> Panel:
        """Return the panel; `state` and `about` of its row, `changes`: what else differs."""
        sides = (case.base, case.other)[: len(self.names)]
        both = [(name, side) for name, side in zip(self.names, sides, strict=True)]
        figures: list[Figure] = []
        parts = [
            tag("h2", case.name, id="panel-title"),
            tag("p", state_badge(state), " ", tag("span", about, class_="note")),
            tag("p", case.reason, class_="reason"),
        ]
        if case.renamed and case.base is not None:
            parts.append(note(f"Called {case.base.name} in the base; the graph means the same."))
        parts += [
            _section("What became of it", _outcomes(both)),
            _section("What moved besides", self._moved(case, changes)),
            _notes(case, self.names),
            self._samples(case, both, figures),
            _section("Metrics", self._metrics(case)),
            _section("Validation", _validations(both)),
            _section("Initialisation", _init(both) if len(both) == 1 else []),
            _section("Kernels and their launches", _kernels(both)),
            *self._other_samples(case, both, figures),
            _section("Facts", [_facts(case, both)]),
        ]
        return Panel(case.id, joined(parts), figures)

    def _moved(self, case: CaseComparison, changes: Sequence[SideChange]) -> list[Html]:
        if changes:
            rows = [
                [one.name, cut(one.base, MOST_MOVED), cut(one.other, MOST_MOVED)] for one in changes
            ]
            return [facts_table(rows, ["", *self.names])]
        both = (case.base, case.other)
        if all(side and side.cases[-1].outcome.status == "completed" for side in both):
            return [note("No plan, kernel, launch or clock differs between the sides.")]
        return []

    def _series(self, case: CaseComparison, both: Both) -> tuple[list[str], ...]:
        sampled = {
            name
            for _, side in both
            if side is not None
            for one in side.cases
            for name in facts(one.rounds).sampled
        }
        return samples.shown_series(self.count, sampled, case.gate)

    def _samples(self, case: CaseComparison, both: Both, figures: list[Figure]) -> Html:
        """Return the samples of the series that decides."""
        shown, _ = self._series(case, both)
        if not shown:
            return _section("Summary", _summaries(both))
        return _section(
            f"Samples: {_title(shown[0])}", self._figures(shown[0], case, both, figures)
        )

    def _other_samples(
        self, case: CaseComparison, both: Both, figures: list[Figure]
    ) -> Iterator[Html]:
        shown, left = self._series(case, both)
        for name in shown[1:]:
            title = tag("summary", f"Samples: {_title(name)}")
            yield tag("details", title, *self._figures(name, case, both, figures))
        if left:
            titles = "; ".join(map(_title, left))
            why = f"Left out, to keep a page of {self.count} cases small"
            yield note(f"{why}: samples of {titles}.")

    def _figures(
        self, name: str, case: CaseComparison, both: Both, figures: list[Figure]
    ) -> list[Html]:
        held = [samples.held_series(side, name) for _, side in both]
        known = [one for one in held if one is not None]
        if not known:
            return []
        frame = samples.frame_of(known)
        drawn = []
        for figure, words in (
            (samples.distribution(held, self.names, frame), "distribution"),
            (samples.course(held, self.names, self.buckets), "iterations in order"),
        ):
            figures.append(figure)
            chart = Chart(figure, label=f"Samples, {_title(name)}: {words}")
            drawn.append(figure_element(len(figures) - 1, chart))
        count = note(samples.counts_note(held, self.names, frame))
        return [drawn[0], note(_told(case.metrics.get(name))), drawn[1], count]

    def _metrics(self, case: CaseComparison) -> list[Html]:
        if not case.metrics:
            return []
        heads = ("metric", "verdict", "base", "other", "difference", "change", "95 % interval")
        items = [plain(heads, [self._metric_row(one) for one in case.metrics.values()], words=2)]
        return [*items, *([note(_rests_on(case.gate_metric))] if case.gate_metric else [])]

    def _metric_row(self, one: MetricComparison) -> list[str]:
        metric, state = METRICS[one.metric], self.states[one.verdict]
        moved = None
        if one.base is not None and one.other is not None:
            is_rate = isinstance(metric.reading, Rate)  # its difference says little
            moved = None if is_rate else one.other - one.base
        noisy = units.is_too_noisy(one.ci_low, one.ci_high)
        ends = (one.ci_low, one.ci_high, metric.words)
        return [
            metric.title,
            badge(state.word + ("?" if one.provisional else ""), state.tone),
            *(
                UNKNOWN if value is None else units.value_text(value, metric.unit)
                for value in (one.base, one.other)
            ),
            "" if not moved else ("+" if moved > 0 else "") + units.value_text(moved, metric.unit),
            "" if one.ratio is None or noisy else units.change_text(one.ratio, metric.words),
            "" if one.ci_low is None else units.interval_text(*ends),
        ]


def _rests_on(gate: MetricComparison) -> str:
    """Return what the verdict of the metric that decides rests on."""
    held = f"{gate.base_rounds} and {gate.other_rounds} {gate.unit}s as independent units"
    none = "summaries without samples: no interval"
    more = gate.rounds_needed
    parts = [
        "" if gate.q is None else f"q {units.significant(gate.q, 2)} after false-discovery control",
        f"practical threshold {units.share_text(gate.threshold_ratio)}",
        none if gate.unit == "summary" else held,
        "" if more is None else f"about {more} more would decide",
    ]
    return f"{_title(gate.metric)}: {'; '.join(filter(None, parts))}"


def _section(title: str, items: Sequence[Html]) -> Html:
    return tag("section", tag("h3", title), *items) if items else Html()


def _title(name: str) -> str:
    return METRICS[name].title if name in METRICS else name


def _outcomes(both: Both) -> list[Html]:
    items = []
    for name, side in both:
        if side is None:
            items.append(tag("p", f"{name}: does not hold this case"))
            continue
        outcome = side.cases[-1].outcome
        if outcome.status == "completed":
            continue
        where = f" in {outcome.phase.replace('_', ' ')}" if outcome.phase else ""
        reason = f": {outcome.reason}" if outcome.reason else ""
        items.append(tag("p", f"{name}: {outcome.status}{where}{reason}"))
        if outcome.detail:
            lines = outcome.detail[-LONGEST_TEXT:].splitlines()
            items.append(tag("pre", Html("\n".join(map(escaped, lines))), tabindex="0"))
    return items


def _notes(case: CaseComparison, names: Sequence[str]) -> Html:
    """Return a line for each kind of note; notes that both sides have are said once."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in case.notes:
        found.setdefault(one.kind, {}).setdefault(one.text, []).append(one.side)
    lines = []
    for kind, texts in found.items():
        parts = [
            f"{' and '.join(names) if len(set(sides)) > 1 else sides[0]}: {text}"
            for text, sides in texts.items()
        ]
        lines.append(tag("li", tag("strong", kind), f" {'; '.join(parts)}"))
    return tag("ul", *lines, class_="notes") if lines else Html()


def _told(metric: MetricComparison | None) -> str:
    text = "Dots: the time of each round; with several documents a diamond each."
    if metric is None or metric.unit in ("summary", "iteration"):
        return text
    return f"{text} The {metric.unit}s decide, not the iterations."


SUMMARY = {
    "samples": "count",
    "least": "min",
    "5 %": "p5",
    "median": "median",
    "mean": "mean",
    "95 %": "p95",
    "largest": "max",
}


def _summaries(both: Both) -> list[Html]:
    """Return the statistics of an imported document, in place of samples."""
    rows = []
    for name, side in both:
        for series, summary in {} if side is None else side.cases[-1].summary.items():
            values = [getattr(summary, field) for field in SUMMARY.values()]
            rows.append((f"{name}, {_title(series)}", values))
    if not rows:
        return [tag("p", "No samples: the case was not measured.")]
    kept = [at for at in range(len(SUMMARY)) if any(_is_known(v[at], at) for _, v in rows)]
    texts = [[title, *(_summary_text(v[at], at) for at in kept)] for title, v in rows]
    heads = [*SUMMARY]
    why = "The document holds no samples, so there is no distribution and no course."
    return [note(why), plain(["", *(heads[at] for at in kept)], texts)]


def _summary_text(value: float, at: int) -> str:
    if not _is_known(value, at):
        return UNKNOWN
    return f"{value:,}" if at == 0 else units.value_text(value, "ns")


def _is_known(value: float, at: int) -> bool:
    return value == value and not (at == 0 and value == 0)


OUTPUT_HEADS = ("output", "elements", "wrong", "max abs", "max rel", "rel. L2", "rtol", "atol")
SAME_BYTES = {
    None: "",
    True: ", the same bytes each time",
    False: ", not the same bytes each time",
}


def _validations(both: Both) -> list[Html]:
    """Return the first validation of each side that failed, otherwise the last; equal ones once."""
    shown: list[tuple[str, str, list[Html]]] = []
    for name, side in both:
        known = [case.validation for case in side.cases if case.validation] if side else []
        failed = (one for one in known if one.status == "failed")
        if known:
            shown.append((name, *_validation(next(failed, known[-1]))))
    if len(shown) == 2 and shown[0][1:] == shown[1][1:]:
        shown = [(" and ".join(name for name, *_ in shown), *shown[0][1:])]
    return [item for name, text, items in shown for item in (tag("p", f"{name}: {text}"), *items)]


def _validation(one: Validation) -> tuple[str, list[Html]]:
    against = "" if one.reference in ("unknown", "none") else f" against {one.reference}"
    count = one.iterations_checked
    checked = ""
    if count:
        noun = "iteration" if count == 1 else "iterations"
        checked = f"; {count} timed {noun} checked, {one.iterations_mismatched} wrong"
        checked += SAME_BYTES[one.deterministic]
    reason = f" ({one.reason})" if one.reason else ""
    rows = [_output(output) for output in one.outputs]
    items = [plain(OUTPUT_HEADS, rows)] if rows else []
    for output in one.outputs:
        if output.worst:
            worst = [
                [f"[{', '.join(map(str, w.index))}]", _real(w.expected), _real(w.actual)]
                for w in output.worst[:WORST]
            ]
            items.append(tag("p", f"Worst mismatches of {output.name}"))
            items.append(plain(("index", "expected", "actual"), worst))
    return f"{one.status}{against}{checked}{reason}", items


def _output(one: OutputValidation) -> list[str]:
    about = "" if one.data_type == "unknown" else f" {one.data_type}, {one.tolerance_source}"
    numbers = (one.max_abs, one.max_rel, one.relative_l2, one.rtol, one.atol)
    return [f"{one.name}{about}", f"{one.elements:,}", f"{one.mismatched:,}", *map(_real, numbers)]


def _real(value: float | str) -> str:
    return value if isinstance(value, str) else units.significant(value, 3)


def _init(both: Both) -> list[Html]:
    """Return the phases of a run by itself, each the lower median over rounds."""
    found: dict[str, list[int]] = {}
    for _, side in both:
        for case in () if side is None else side.cases:
            for phase, values in case.init.items():
                most = 1 if phase in PAID_ONCE else None
                found.setdefault(phase, []).extend(values.tolist()[:most])
    rows = [
        [PHASES.get(phase, phase), units.value_text(sorted(values)[(len(values) - 1) // 2], "ns")]
        for phase, values in found.items()
        if values
    ]
    return [plain(("phase", "median"), rows)] if rows else []


def _kernels(both: Both) -> list[Html]:
    rows = [
        [
            one.name[:LONGEST_TEXT],
            name,
            "" if one.launch is None else launch_text(one.launch),
            f"{one.count} ×",
            units.value_text(one.median_ns, "ns"),
        ]
        for name, side in both
        if side is not None
        for one in side.cases[-1].kernels
    ]
    if not rows:
        return []
    table = plain(("kernel", "side", "launch", "launches", "median"), rows, words=3)
    return [table, note("As traced in a pass of its own, of the last document.")]


def _facts(case: CaseComparison, both: Both) -> Html:
    told = [{} if side is None else dict(_facts_of(side, case)) for _, side in both]
    names = dict.fromkeys(name for one in told for name in one)
    rows = []
    for name in names:
        values = [one.get(name, UNKNOWN) for one in told]
        rows.append([name, *(values if len(set(values)) > 1 else values[:1])])
    rows.append(["fingerprint", case.fingerprint])
    return facts_table(rows, ["", *(name for name, _ in both)])


def _facts_of(side: CaseSide, case: CaseComparison) -> Iterator[tuple[str, str]]:
    """Yield facts without rates that a metric of the table has."""
    last = side.cases[-1]
    yield "graph", side.name
    if last.graph.path:
        yield "file", last.graph.path
    yield "engine", side.engine
    yield from last.plan.items()
    if last.work.flops is not None:
        yield "work", units.value_text(last.work.flops / 1e9, "GFLOP")
    if last.work.moved_bytes is not None:
        yield "bytes moved", units.value_text(last.work.moved_bytes, "bytes")
    yield from _rate_facts(last, case)
    if last.memory is not None and last.memory.buffer_bytes is not None:
        yield "buffers", units.value_text(last.memory.buffer_bytes, "bytes")
    count = sum(len(one.rounds) for one in side.cases)
    if count:
        yield "rounds", f"{count:,}"
    if last.stopped_by:
        yield "ended by", last.stopped_by
    yield from _device_facts(side.cases)
    told = (text for one in side.cases for text in facts(one.rounds).notes)
    notes = dict.fromkeys([*last.notes, *told])
    if notes:
        yield "notes", "; ".join(notes)


def _rate_facts(last: Case, case: CaseComparison) -> Iterator[tuple[str, str]]:
    found = last.achieved
    if found is None:
        return
    rates = ((found.tflops, "TFLOP/s", "tflops"), (found.gbps, "GB/s", "gbps"))
    told = [
        units.value_text(rate, unit)
        for rate, unit, name in rates
        if rate is not None and name not in case.metrics
    ]
    if told:
        yield "rate", ", ".join(told)
    if found.ceiling_share is not None:
        yield "of the measured ceiling", units.share_text(found.ceiling_share)


def _device_facts(cases: Iterable[Case]) -> Iterator[tuple[str, str]]:
    after = [r.telemetry_after for case in cases for r in case.rounds if r.telemetry_after]
    for name, field, unit in (("power", "power_w", "W"), ("temperature", "temperature_c", "°C")):
        known = [value for one in after if (value := getattr(one, field)) is not None]
        if known:
            yield name, f"up to {units.significant(max(known), 3)} {unit}"
