"""The panel of a case: sections of texts, tables and charts, packed until a reader opens it.

A section is ``{"title", "items"}``; an item is one of ``{"p"}``, ``{"note"}``, ``{"pre"}``,
``{"tags"}``, ``{"table"}`` and ``{"chart"}``. Numbers are texts already, except those of charts.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from bench_schema.document import PAID_ONCE
from bench_schema.launches import launch_text
from bench_schema.names import safe
from bench_schema.units import (
    change_text,
    interval_text,
    is_too_noisy,
    share_text,
    significant,
    value_text,
)

from bench_compare.comparison.circumstances.facts import facts
from bench_compare.metrics import METRICS, PHASES, Rate
from bench_compare.model import RANK
from bench_compare.report import words
from bench_compare.report.html.samples import (
    Budget,
    budget,
    course,
    distribution,
    held_series,
    scale_of,
)
from bench_compare.report.why import case_changes, kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Case, OutputValidation, Validation

    from bench_compare.model import CaseComparison, CaseSide, Comparison, MetricComparison

CHUNK = 32
"""Cases in a block, which are unpacked together."""
LONGEST_TEXT = 2_000
WORST = 8
"""Mismatches shown for an output."""
UNKNOWN = "–"
Section = dict[str, Any]
Items = list[dict[str, Any]]


class DetailBlock(NamedTuple):
    """`CHUNK` cases."""

    text: str
    """JSON, compressed, in base64."""
    differing: list[list[str]]
    """Kinds of facts that differ between a case's sides, by case."""


def blocks(comparison: Comparison, names: Sequence[str] = ("base", "other")) -> list[DetailBlock]:
    """Pack the panels of all cases, in the order of the comparison; `names` of the sides."""
    cases = comparison.cases
    panels = _Panels(comparison, names, budget(len(cases)))
    made = []
    for start in range(0, len(cases), CHUNK):
        group = cases[start : start + CHUNK]
        changes = [case_changes(case) for case in group]
        told = [panels.of(case, own) for case, own in zip(group, changes, strict=True)]
        data = zlib.compress(orjson.dumps(told, option=orjson.OPT_SERIALIZE_NUMPY))
        text = base64.b64encode(data).decode("ascii")
        made.append(DetailBlock(text, [kinds(some) for some in changes]))
    return made


class _Panels:
    """Makes the panels of one comparison."""

    def __init__(self, comparison: Comparison, names: Sequence[str], plan: Budget) -> None:
        self.names, self.plan = names, plan
        self.labels = [side.label for side in comparison.others]
        self.ceilings = words.ceilings((comparison.base, *comparison.others))

    def of(self, case: CaseComparison, changes: Sequence[Any]) -> dict[str, Any]:
        sides = (case.base, case.other)[: len(self.names)]
        both = [(name, side) for name, side in zip(self.names, sides, strict=True)]
        metrics = dict(case.metrics)
        sections = [
            _section("", _first(case)),
            _section("What became of it", _outcomes(both)),
            _section("What differs", self._why(case, changes)),
            _section("", _notes(case, self.names)),
            *self._samples(case, both, metrics),
            _section("Metrics", _metrics(metrics, case.gate)),
            _section("Validation", _validations(both)),
            _section("Initialisation", _init(both, metrics)),
            _section("Roofline", _roofline(case, both, metrics, self._ceiling(case))),
            _section("Kernels", _kernels(both)),
            _section("Facts", _facts(case, both)),
        ]
        return {"reason": case.reason, "sections": [one for one in sections if one["items"]]}

    def _why(self, case: CaseComparison, changes: Sequence[Any]) -> Items:
        rows = [[one.name, one.base, one.other] for one in changes]
        if rows:
            return [_table("facts", ["", *self.names], rows)]
        sides = (case.base, case.other)
        if all(side and side.cases[-1].outcome.status == "completed" for side in sides):
            return [{"note": "No plan, kernel or clock differs between the sides."}]
        return []

    def _samples(
        self,
        case: CaseComparison,
        both: Sequence[tuple[str, CaseSide | None]],
        metrics: Mapping[str, MetricComparison],
    ) -> Iterator[Section]:
        sampled = {
            name
            for _, side in both
            if side is not None
            for one in side.cases
            for name in facts(one.rounds).sampled
        }
        shown, left = self.plan.shares(sampled, case.gate)
        found = [
            (name, [None if side is None else held_series(side, name) for _, side in both])
            for name in shown
        ]
        if not found:
            yield _section("Summary", _summaries(both))
        for place, (name, held) in enumerate(found):
            metric = metrics.get(name)
            middles = (None, None) if metric is None else (metric.base, metric.other)
            end = "" if place == 0 else f"-{name}"
            items = [
                *distribution(held, self.names, middles, end),
                {"note": _dots(name, held, metric)},
                *course(held, self.names, self.plan, end),
            ]
            yield _section(f"Samples: {_title(name)}", items)
        if left:
            titles = "; ".join(map(_title, left))
            text = (
                f"Left out, to keep a page of {self.plan.cases} cases small: samples of {titles}."
            )
            yield _section("", [{"note": text, "id": "left-out"}])

    def _ceiling(self, case: CaseComparison) -> Mapping[str, Any] | None:
        """Return the ceiling of the base, otherwise that of the case's side."""
        other = self.labels.index(case.other_label) + 1 if case.other_label in self.labels else 0
        both = (self.ceilings[0], self.ceilings[other])
        return next((one for one in both if one["gbps"] is not None), None)


def _section(title: str, items: Items) -> Section:
    return {"title": title, "items": items}


def _table(
    kind: str, heads: Sequence[Any], rows: Sequence[Any], caption: str = ""
) -> dict[str, Any]:
    """Return a table; heads are texts, or (text, class); the first cell of a row is its head."""
    return {"table": {"kind": kind, "heads": heads, "rows": rows, "caption": caption}}


def _title(name: str) -> str:
    return METRICS[name].title if name in METRICS else name


def _first(case: CaseComparison) -> Items:
    if not case.renamed or case.base is None:
        return []
    return [{"note": f"Called {case.base.name} in the base; the graph means the same."}]


def _outcomes(both: Sequence[tuple[str, CaseSide | None]]) -> Items:
    items: Items = []
    for name, side in both:
        if side is None:
            items.append({"p": f"{name}: does not hold this case"})
            continue
        outcome = side.cases[-1].outcome
        if outcome.status == "completed":
            continue
        where = f" in {outcome.phase.replace('_', ' ')}" if outcome.phase else ""
        reason = f": {outcome.reason}" if outcome.reason else ""
        items.append({"p": f"{name}: {outcome.status}{where}{reason}"})
        if outcome.detail:
            items.append({"pre": outcome.detail[-LONGEST_TEXT:]})
    return items


def _notes(case: CaseComparison, names: Sequence[str]) -> Items:
    """Return a line for each kind of note; notes that both sides have are said once."""
    found: dict[str, dict[str, list[str]]] = {}
    for note in case.notes:
        found.setdefault(note.kind, {}).setdefault(note.text, []).append(note.side)
    tags = []
    for kind, texts in found.items():
        parts = [
            f"{' and '.join(names) if len(set(sides)) > 1 else sides[0]}: {text}"
            for text, sides in texts.items()
        ]
        tags.append([kind, "; ".join(parts)])
    return [{"tags": tags}] if tags else []


def _dots(name: str, held: Sequence[Any], metric: MetricComparison | None) -> str:
    several = any(one is not None and len(one.documents) > 1 for one in held)
    marks = (
        "Small dots: median of each round. Diamonds: each document, the mean of its rounds."
        if several
        else "Dots: median of each round."
    )
    decide = metric is not None and metric.unit not in ("summary", "iteration")
    text = f"{marks} The {metric.unit}s decide, not the iterations." if decide and metric else marks
    if metric is None:
        return text
    return f"{text} Vertical lines: the {_title(name)} of the table below, the mean of the medians."


def _summaries(both: Sequence[tuple[str, CaseSide | None]]) -> Items:
    """Return the statistics of an imported document, in place of samples."""
    fields = ("count", "min", "p5", "median", "mean", "p95", "max")
    heads = ("samples", "least", "5 %", "median", "mean", "95 %", "largest")
    rows = []
    for name, side in both:
        for series, summary in {} if side is None else side.cases[-1].summary.items():
            values = [getattr(summary, field) for field in fields]
            rows.append((f"{name}, {_title(series)}", values))
    if not rows:
        return [{"p": "No samples: the case was not measured."}]
    kept = [at for at in range(len(fields)) if any(_is_known(values[at], at) for _, values in rows)]
    texts = [[title, *(_summary_text(values[at], at) for at in kept)] for title, values in rows]
    table = _table("plain", ["", *([heads[at], "number"] for at in kept)], texts)
    why = "The document holds no samples, so there is no distribution and no course."
    return [{"note": why}, table]


def _is_known(value: float, at: int) -> bool:
    return value == value and not (at == 0 and value == 0)


def _summary_text(value: float, at: int) -> str:
    if not _is_known(value, at):
        return UNKNOWN
    return f"{value:,}" if at == 0 else value_text(value, "ns")


METRIC_HEADS = (
    *("metric", ["base", "number"], ["other", "number"], ["difference", "number wide-only"]),
    *(["change", "number"], ["95 % interval", "number wide-only"], "verdict"),
)


def _metrics(metrics: Mapping[str, MetricComparison], gate: str | None) -> Items:
    rows = []
    for name, one in metrics.items():
        unit = METRICS[name].unit
        moved = None
        if one.base is not None and one.other is not None:
            is_rate = isinstance(METRICS[name].reading, Rate)  # its difference says little
            moved = None if is_rate else one.other - one.base
        noisy = is_too_noisy(one.ci_low, one.ci_high)
        sign = "+" if moved and moved > 0 else ""
        rows.append(
            [
                _title(name),
                value_text(one.base, unit) if one.base is not None else UNKNOWN,
                value_text(one.other, unit) if one.other is not None else UNKNOWN,
                "" if not moved else sign + value_text(moved, unit),
                "" if one.ratio is None or noisy else change_text(one.ratio, METRICS[name].words),
                ""
                if one.ci_low is None
                else interval_text(one.ci_low, one.ci_high, METRICS[name].words),
                {"verdict": RANK[one.verdict], "provisional": one.provisional},
            ]
        )
    if not rows:
        return []
    items = [_table("metrics", METRIC_HEADS, rows)]
    if gate is not None and gate in metrics:
        one = metrics[gate]
        rests = (
            "summaries without samples: no interval"
            if one.unit == "summary"
            else f"{one.base_rounds} and {one.other_rounds} {one.unit}s as independent units"
        )
        parts = [
            "" if one.q is None else f"q {significant(one.q, 2)} after false-discovery control",
            f"practical threshold {share_text(one.threshold_ratio)}",
            rests,
            "" if one.rounds_needed is None else f"about {one.rounds_needed} more would decide",
        ]
        items.append({"note": f"{_title(one.metric)}: {'; '.join(filter(None, parts))}"})
    return items


OUTPUT_HEADS = (
    "output",
    *([name, "number"] for name in ("elements", "wrong", "max abs", "max rel", "rel. L2")),
    *([name, "number"] for name in ("rtol", "atol")),
)
SAME_BYTES = {
    None: "",
    True: ", the same bytes each time",
    False: ", not the same bytes each time",
}


def _validations(both: Sequence[tuple[str, CaseSide | None]]) -> Items:
    """Return the first validation of each side that failed, otherwise the last; equal ones once."""
    shown: list[tuple[str, Items]] = []
    for name, side in both:
        known = [case.validation for case in side.cases if case.validation] if side else []
        failed = (one for one in known if one.status == "failed")
        if known:
            shown.append((name, _validation(next(failed, known[-1]))))
    if len(shown) == 2 and shown[0][1] == shown[1][1]:
        shown = [(" and ".join(name for name, _ in shown), shown[0][1])]
    for name, items in shown:
        items[0] = {"p": f"{name}: {items[0]['p']}"}
    return [item for _, items in shown for item in items]


def _validation(one: Validation) -> Items:
    against = "" if one.reference in ("unknown", "none") else f" against {one.reference}"
    count = one.iterations_checked
    checked = ""
    if count:
        noun = "iteration" if count == 1 else "iterations"
        checked = f"; {count} timed {noun} checked, {one.iterations_mismatched} wrong"
        checked += SAME_BYTES[one.deterministic]
    reason = f" ({one.reason})" if one.reason else ""
    items: Items = [{"p": f"{one.status}{against}{checked}{reason}"}]
    if one.outputs:
        items.append(_table("plain", OUTPUT_HEADS, [_output(output) for output in one.outputs]))
    for output in one.outputs:
        if output.worst:
            rows = [
                [f"[{', '.join(map(str, w.index))}]", _real(w.expected), _real(w.actual)]
                for w in output.worst[:WORST]
            ]
            heads = ["index", ["expected", "number"], ["actual", "number"]]
            caption = f"Worst mismatches of {output.name}"
            items.append(_table("plain", heads, rows, caption))
    return items


def _output(one: OutputValidation) -> list[str]:
    about = "" if one.data_type == "unknown" else f" {one.data_type}, {one.tolerance_source}"
    numbers = (one.max_abs, one.max_rel, one.relative_l2, one.rtol, one.atol)
    return [f"{one.name}{about}", f"{one.elements:,}", f"{one.mismatched:,}", *map(_real, numbers)]


def _real(value: float | str) -> str:
    return value if isinstance(value, str) else significant(value, 3)


def _init(
    both: Sequence[tuple[str, CaseSide | None]], metrics: Mapping[str, MetricComparison]
) -> Items:
    """Return the phases of each side: by the metric, otherwise the lower median over rounds."""
    told = {}
    for place, (name, side) in enumerate(both):
        phases = {} if side is None else _phases(side)
        for phase in phases:
            metric = metrics.get(phase)
            value = None if metric is None else (metric.base, metric.other)[place]
            phases[phase] = phases[phase] if value is None else value
        if phases:
            told[name] = phases
    if not told:
        return []
    whole = metrics.get("init_ns")
    totals = []
    for place, (name, _) in enumerate(both):
        if name in told:
            value = None if whole is None else (whole.base, whole.other)[place]
            total = sum(told[name].values()) if value is None else value
            totals.append(f"{name} {value_text(total, 'ns')}")
    factor, unit = scale_of(max(sum(one.values()) for one in told.values()))
    sides = [*reversed(told)]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": title,
            "y": sides,
            "x": [told[name].get(phase, 0) / factor for name in sides],
            "marker": {"color": f"--phase-{place}"},
            "hovertemplate": f"{title}: %{{x:.4~g}} {unit}<extra></extra>",
        }
        for place, (phase, title) in enumerate(PHASES.items())
        if any(told[name].get(phase) for name in sides)
    ]
    layout = {
        "height": 90 + 42 * len(sides),
        "barmode": "stack",
        "showlegend": True,
        "margin": {"l": 8, "r": 8, "t": 34, "b": 8},
        "bargap": 0.35,
        "xaxis": {"title": {"text": unit}},
        "yaxis": {"showgrid": False},
    }
    text = (
        "Typical time of each phase over the rounds, as in the table above. The initialisation as "
        f"a whole is typically {', '.join(totals)}; phases need not add up to it."
    )
    return [{"chart": {"title": "", "traces": traces, "layout": layout}}, {"note": text}]


def _phases(side: CaseSide) -> dict[str, float]:
    found: dict[str, list[int]] = {}
    for case in side.cases:
        for phase, values in case.init.items():
            most = 1 if phase in PAID_ONCE else None  # paid once: once for each document
            found.setdefault(phase, []).extend(values.tolist()[:most])
    return {
        phase: sorted(values)[(len(values) - 1) // 2] for phase, values in found.items() if values
    }


def _roofline(
    case: CaseComparison,
    both: Sequence[tuple[str, CaseSide | None]],
    metrics: Mapping[str, MetricComparison],
    ceiling: Mapping[str, Any] | None,
) -> Items:
    """Draw both sides under the measured ceilings of the device."""
    metric, points, shares = metrics.get("tflops"), [], []
    for place, (name, side) in enumerate(both):
        last = side.cases[-1] if side else None
        if last is None or last.achieved is None or not last.achieved.tflops:
            continue
        rate = last.achieved.tflops
        value = None if metric is None else (metric.base, metric.other)[place]
        if last.achieved.ceiling_share is not None:
            share = last.achieved.ceiling_share * (value or rate) / rate
            shares.append(f"{name} {significant(100 * share, 3)} %")
        if last.work.intensity:
            points.append((name, place, last.work.intensity, value or rate))
    if ceiling is None or not points:
        return []
    slope = ceiling["gbps"] / 1000
    wanted = case.data_type.lower()
    peaks = [rate for name, rate in ceiling["tflops"].items() if name.lower() == wanted]
    at = [intensity for *_, intensity, _ in points]
    ridge = peaks[0] / slope if peaks else max(at)
    ends = [min(*at, ridge) / 8, *([ridge] if peaks else []), max(*at, ridge) * 8]
    roof = {
        "type": "scatter",
        "mode": "lines",
        "name": "measured ceiling",
        "x": ends,
        "y": [min(peaks[0], slope * x) if peaks else slope * x for x in ends],
        "line": {"color": "--soft", "width": 1.5},
        "hoverinfo": "skip",
    }
    dots = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [intensity],
            "y": [rate],
            "marker": {
                "size": 12,
                "color": "--side-other" if place else "--side-base",
                "symbol": "diamond" if place else "circle-open",
                "line": {"width": 2},
            },
            "hovertemplate": f"{name}: %{{y:.4~g}} TFLOP/s<extra></extra>",
        }
        for name, place, intensity, rate in points
    ]
    ticks = {"type": "log", "dtick": "D2"}
    layout = {
        "height": 260,
        "showlegend": True,
        "margin": {"l": 8, "r": 8, "t": 30, "b": 8},
        "xaxis": {**ticks, "title": {"text": "FLOP per byte"}},
        "yaxis": {**ticks, "title": {"text": "TFLOP/s"}},
    }
    rates = [
        value_text(ceiling["gbps"], "GB/s"),
        value_text(peaks[0], "TFLOP/s") if peaks else "an unknown matrix rate",
    ]
    reached = f" Share of the ceiling: {', '.join(shares)}." if shares else ""
    return [
        {"chart": {"title": "", "traces": [roof, *dots], "layout": layout}},
        {"note": f"Ceilings measured on the device: {' and '.join(rates)}.{reached}"},
    ]


def _kernels(both: Sequence[tuple[str, CaseSide | None]]) -> Items:
    rows = [
        [
            name,
            one.name[:LONGEST_TEXT],
            f"{one.count} ×",
            value_text(one.median_ns, "ns"),
            "" if one.launch is None else launch_text(one.launch),
        ]
        for name, side in both
        if side is not None
        for one in side.cases[-1].kernels
    ]
    if not rows:
        return []
    heads = ["", ["kernel", "break"], ["launches", "number"], ["median", "number"], "launch"]
    note = "As traced in a pass of its own, of the last document."
    return [_table("plain", heads, rows), {"note": note}]


def _facts(case: CaseComparison, both: Sequence[tuple[str, CaseSide | None]]) -> Items:
    told = [{} if side is None else dict(_facts_of(side, case)) for _, side in both]
    names = dict.fromkeys(name for one in told for name in one)
    rows = []
    for name in names:
        values = [one.get(name, UNKNOWN) for one in told]
        rows.append([name, *values] if len(set(values)) > 1 else [name, values[0]])
    rows.append(["fingerprint", case.fingerprint])
    return [_table("facts", ["", *(name for name, _ in both)], rows)]


def _facts_of(side: CaseSide, case: CaseComparison) -> Iterator[tuple[str, str]]:
    """Yield facts without rates that a metric of the table has."""
    last = side.cases[-1]
    yield "graph", safe(side.name)
    if last.graph.path:
        yield "file", last.graph.path
    yield "engine", side.engine
    yield from last.plan.items()
    if last.work.flops is not None:
        yield "work", value_text(last.work.flops / 1e9, "GFLOP")
    if last.work.moved_bytes is not None:
        yield "bytes moved", value_text(last.work.moved_bytes, "bytes")
    rates = (
        []
        if last.achieved is None
        else [
            value_text(rate, unit)
            for rate, unit, name in (
                (last.achieved.tflops, "TFLOP/s", "tflops"),
                (last.achieved.gbps, "GB/s", "gbps"),
            )
            if rate is not None and name not in case.metrics
        ]
    )
    if rates:
        yield "rate", ", ".join(rates)
    if last.memory is not None and last.memory.buffer_bytes is not None:
        yield "buffers", value_text(last.memory.buffer_bytes, "bytes")
    count = sum(len(one.rounds) for one in side.cases)
    if count:
        yield "rounds", f"{count:,}"
    if last.stopped_by:
        yield "ended by", last.stopped_by
    yield from _device_facts(side.cases)
    notes = [*last.notes, *(note for one in side.cases for note in facts(one.rounds).notes)]
    if notes:
        yield "notes", "; ".join(notes)


def _device_facts(cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    after = [r.telemetry_after for case in cases for r in case.rounds if r.telemetry_after]
    for name, field, unit in (("power", "power_w", "W"), ("temperature", "temperature_c", "°C")):
        known = [value for one in after if (value := getattr(one, field)) is not None]
        if known:
            yield name, f"up to {significant(max(known), 3)} {unit}"
