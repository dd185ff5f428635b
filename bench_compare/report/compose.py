"""A composition as a report: the answer, the slowest layers, checks, and what is missing."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from bench_schema import units
from bench_schema.knobs import TYPES
from bench_schema.report import model as m

from bench_compare.compose.table import WRONG
from bench_compare.model import Conclusion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.compose import model as c
    from bench_compare.compose.configurations import Simulated

KIND, VERSION = "bench-compare compose", 3
MOST_PARTS, MOST_REMARKS, MOST_WAYS, MOST_LAYERS, MOST_BARS = 20, 12, 12, 20, 25
SERIES = {"device_ns": "device time", "e2e_ns": "end-to-end time"}
REACHABLE = "80 %"
GAIN = 1.005
"""Smallest gain of the whole that is worth a sentence."""
NO_ENERGY = "Energies need a measurement with --energy."
HOLDS = {True: "yes", False: "no", None: "unclear"}
COLORS = {"layer": "base", "conversion": "odd", "seam": "bad"}
"""Kind of a part to the colour of its bar."""


def estimate_text(one: c.Estimate) -> str:
    value = units.time_text(one.value)
    if one.low is None or one.high is None:
        return value
    span = units.span_text(one.low, one.high)
    return value if span == value else f"{value} ({span})"


def ratio_text(one: c.Estimate) -> str:
    """Format a ratio: ``1.25× (1.22 to 1.29)``."""
    text = f"{units.significant(one.value)}×"
    if one.low is None or one.high is None:
        return text
    low, high = units.significant(one.low), units.significant(one.high)
    return f"{text} ({low} to {high})" if low != high else text


def against_text(ratio: float, name: str) -> str:
    """Return what a time is against a named one: ``1.25× faster than cudnn``."""
    if units.significant(ratio, 3) == units.significant(1.0, 3):
        return f"as fast as {name}"
    return f"{_change(ratio)} {'faster' if ratio >= 1 else 'slower'} than {name}"


def _change(ratio: float) -> str:
    size = max(ratio, 1 / ratio)
    return units.factor_text(size) if size >= units.PERCENT_BELOW else units.size_text(size)


def page_title(made: c.Composition, interval: bool = False) -> str:
    """Return the pipeline, its predicted time, and what it is against the baseline."""
    if made.chosen is None or made.problems:
        return f"{made.pipeline}: no answer"
    time = made.chosen.time
    text = f"{made.pipeline}: {estimate_text(time) if interval else units.time_text(time.value)}"
    if made.ratios is None or made.chosen.name == made.baseline_name:
        return text
    return f"{text}, {against_text(made.ratios.time.value, made.baseline_name)}"


def conclude(made: c.Composition, passed_over: Sequence[str] = ()) -> Conclusion:
    """Return the last line: UNDECIDED without an answer, FAIL if a measured chain contradicts."""
    hint = next((one.command for one in made.missing if one.blocks), None)
    if made.problems:
        return Conclusion("UNDECIDED", "; ".join(made.problems), hint)
    if passed_over:
        return Conclusion("UNDECIDED", passed_over[0])
    wrong = [check for check in made.checks if check.holds is False]
    if wrong:
        told = [
            f"{one.case} is {against_text(math.exp(-one.log_error), 'predicted')} ({one.source})"
            for one in wrong
        ]
        return Conclusion("FAIL", "; ".join(told))
    unclear = [check for check in made.checks if check.holds is None]
    if unclear:
        off = against_text(math.exp(-unclear[0].log_error), "predicted")
        what = f"{unclear[0].case} is {off}, and the rounds cannot tell by how much"
        return Conclusion("UNDECIDED", what)
    return Conclusion("PASS", page_title(made))


def report_of(made: c.Composition, conclusion: Conclusion) -> m.Report:
    return m.Report(
        conclusion=conclusion,
        body=lambda: body_of(made),
        payload=lambda: m.Payload({"kind": KIND, "version": VERSION, **tree_of(made)}),
        page=lambda: page_of(made),
        records=lambda: records_of(made),
    )


def tree_of(made: c.Composition) -> dict[str, Any]:
    return {name: value for name, value in asdict(made).items() if name != "types"}


def facts(made: c.Composition) -> Iterator[tuple[str, str]]:
    """Yield name and text of the facts that the answer rests on."""
    around, chosen = made.surroundings, made.chosen
    count = len(made.layers)
    yield "pipeline", f"{made.path}: {count} layer{'s' * (count != 1)}"
    yield "device", around.device_kind + ("" if around.device == "cpu" else f", {around.device}")
    yield "series", f"{SERIES.get(made.series, made.series)}, {around.cache} caches"
    for engine, libraries in around.libraries.items():
        yield "engine", f"{engine} ({libraries})" if libraries else engine
    base = "" if made.baseline is None else f", {estimate_text(made.baseline.time)}"
    yield "baseline", f"{made.baseline_name}{base}"
    if chosen is not None and chosen.energy is not None:
        text = units.value_text(chosen.energy.value, "joules")
        ratio = None if made.ratios is None else made.ratios.energy
        if ratio is not None and not math.isclose(ratio.value, 1.0, rel_tol=1e-12):
            text += f", the baseline takes {ratio_text(ratio)} of it"
        yield "energy", text
    elif chosen is not None:
        yield "energy", "not measured: bench-run --energy"
    if made.choose is not None:
        kept = "".join(
            LIMITS[name].format(bound + (name == "within")) for name, bound in made.limits.items()
        )
        sure = {True: ": optimal", False: ": perhaps not optimal", None: ""}[made.optimal]
        yield "chosen by", f"{made.choose}{kept}{sure}"
    if chosen is not None:
        yield "how", INTERVALS[made.interval]
        yield "error", error_text(made)
    if made.ratios is not None and chosen is not None and chosen.name != made.baseline_name:
        yield "speed-up", ratio_text(made.ratios.time)
    if chosen is not None and chosen.error is not None:
        bound = chosen.error
        yield "outputs", f"relative L2 error {bound.root_of_squares:.1e} (≤ {bound.worst:.1e})"
    if chosen is not None and chosen.workspace_bytes is not None:
        yield "workspace", units.value_text(chosen.workspace_bytes, "bytes")


LIMITS = {
    "error": ", error at most {:g}",
    "worst-error": ", sum of errors at most {:g}",
    "within": ", at most {:.3g} × the least time",
}
INTERVALS = {
    "bracket": "the sum, from hot caches to those of another state",
    "documents": "the sum, and how far documents are apart",
    "rounds": "the sum, and how far rounds are apart",
    "none": "the sum; how far rounds are apart is not known",
}


def error_text(made: c.Composition) -> str:
    """Return what is known of how far such sums are off."""
    if made.known_error_ratio is None:
        return "not known: no chain of this pipeline was run"
    return f"chains that were run took up to {100 * made.known_error_ratio:.2g} % more or less"


def body_of(made: c.Composition) -> m.Body:
    need = {True: "needed", False: "would make the answer better"}
    tables = (parts_table(made), ways_table(made), checks_table(made))
    return m.Body(
        headline=page_title(made, interval=True),
        problems=made.problems,
        facts=tuple(facts(made)),
        tables=tuple(table for table in tables if table.rows),
        statements=tuple(gains(made)),
        notes=made.remarks,
        most_notes=MOST_REMARKS,
        commands_title="Not measured",
        commands=tuple(
            m.Command(f"{one.what} ({need[one.blocks]})", one.command) for one in made.missing
        ),
    )


def gains(made: c.Composition) -> Iterator[str]:
    """Yield what better kernels of the layers that matter most would give the whole."""
    if made.chosen is None:
        return
    best = {
        (part.name, part.configuration): part
        for part in reversed(made.chosen.parts)
        if (part.gain_ratio or 1.0) > GAIN
    }
    for part in sorted(best.values(), key=lambda one: -(one.gain_ratio or 0.0))[:3]:
        gain = 100 * ((part.gain_ratio or 1.0) - 1)
        yield (
            f"if {part.layer} reached {REACHABLE} of the ceiling (now "
            f"{100 * (part.ceiling_ratio or 0.0):.0f} %), {made.pipeline} would be {gain:.2g} % "
            "faster"
        )


def grouped(parts: Sequence[c.Part]) -> list[list[c.Part]]:
    """Group parts of equal kind, name, configuration and note, the group with the longest time
    first; all seams are the last group."""
    groups: dict[object, list[c.Part]] = {}
    for part in parts:
        alike = (part.kind, part.name, part.configuration, part.note)
        groups.setdefault("seam" if part.kind == "seam" else alike, []).append(part)
    seams = groups.pop("seam", [])
    ordered = sorted(groups.values(), key=lambda group: -_time_ns(group))
    return [*ordered, *([seams] if seams else [])]


def _time_ns(parts: Sequence[c.Part]) -> float:
    return math.fsum(part.time_ns for part in parts)


def _name_of(parts: Sequence[c.Part]) -> str:
    first = parts[0]
    if first.kind == "seam":
        return f"{len(parts)} seams" if len(parts) > 1 else first.name
    if first.kind == "conversion":
        reader = "output" if first.writer == first.layer else first.layer
        return f"{first.writer or 'input'} → {reader}: {first.name}"
    return first.layer


def parts_table(made: c.Composition) -> m.Table:
    """List the slow layers first, alike ones in one row, seams in the last."""
    columns = (
        m.Column("kind", head="", optional=True),
        m.Column("part", least=12),
        m.Column("runs as", least=12, optional=True),
        m.Column("times", "right"),
        m.Column("time", "right", optional=True),
        m.Column("share", "right", optional=True),
        m.Column("of ceiling", "right", optional=True),
        m.Column(f"gain at {REACHABLE}", "right", optional=True, spare=1),
        m.Column("energy", "right", optional=True),
        m.Column("note", least=12, optional=True, spare=2),
    )
    every = () if made.chosen is None else made.chosen.parts
    is_one = len({part.configuration for part in every}) == 1
    rows = [_part_row(parts, is_one) for parts in grouped(every)]
    more = "smaller parts: --json, --markdown"
    return m.Table(columns, tuple(rows), title="Parts", most=MOST_PARTS, more=more)


def _part_row(parts: Sequence[c.Part], is_one: bool) -> m.ReportRow:
    first = parts[0]
    joules = [part.energy_j for part in parts]
    ceiling, gain = first.ceiling_ratio, first.gain_ratio
    cells = (
        "" if first.kind == "layer" else first.kind,
        _name_of(parts),
        "" if is_one or (first.kind == "seam" and len(parts) > 1) else first.configuration,
        str(sum(part.count for part in parts)),
        m.Amount(_time_ns(parts), "ns"),
        f"{100 * math.fsum(part.share for part in parts):.1f}%",
        "" if ceiling is None else f"{100 * ceiling:.0f}%",
        "" if gain is None else f"{100 * (gain - 1):.1f}%",
        m.Amount(None if None in joules else math.fsum(filter(None, joules)), "joules"),
        "; ".join(dict.fromkeys(part.note for part in parts if part.note)),
    )
    return m.ReportRow(cells)


def ways(made: c.Composition) -> list[str]:
    """Return the names of all configurations, that of the baseline first."""
    rows = [(one.configuration, one.is_baseline) for each in made.layers for one in each.options]
    names = [name for name, is_first in rows if is_first] + [name for name, _ in rows]
    return list(dict.fromkeys(names))


def conversions(made: c.Composition) -> list[str]:
    return list(dict.fromkeys(one.name for each in made.layers for one in each.conversions))


def ways_table(made: c.Composition) -> m.Table:
    """Return a table with a row for each layer and a column for each way to run it, with the
    conversions into its form; empty if it would have one column or too many."""
    names, converted = ways(made), conversions(made)
    if not 1 < len(names) <= MOST_WAYS:
        return m.Table((), ())
    rows = []
    for layer in made.layers:
        known = {one.name: _cost(one.time_ns, one.energy_j) for one in layer.conversions}
        known |= {
            one.configuration: _cost(one.time.value or None, one.energy_j) for one in layer.options
        }
        cells = [known.get(name, "-") for name in (*converted, *names)]
        rows.append(m.ReportRow((layer.layer, str(layer.repeat), *cells)))
    every = [*converted, *names]
    columns = (
        m.Column("layer", least=12),
        m.Column("times", "right"),
        *(m.Column(name, "right", spare=len(every) - place) for place, name in enumerate(every)),
    )
    return m.Table(
        columns,
        tuple(rows),
        title="Layers by configuration",
        lead="each layer in each way that was measured:",
        most=MOST_LAYERS,
        more="more layers: --csv, --markdown",
    )


def _cost(time_ns: float | None, energy_j: float | None) -> str:
    joules = "" if energy_j is None else f", {units.value_text(energy_j, 'joules')}"
    return "-" if time_ns is None else f"{units.time_text(time_ns)}{joules}"


def checks_table(made: c.Composition) -> m.Table:
    columns = (
        m.Column("engine"),
        m.Column("caches", spare=1),
        m.Column("measured", "right"),
        m.Column("predicted", "right"),
        m.Column("interval", "right"),
        m.Column("off by", "right"),
        m.Column("holds"),
    )
    rows = tuple(
        m.ReportRow(
            (
                check.engine,
                check.cache,
                m.Amount(check.measured.value, "ns"),
                m.Amount(check.predicted.value, "ns"),
                m.Span(check.predicted.low, check.predicted.high, "ns"),
                m.RatioCell(math.exp(check.log_error)) if math.isfinite(check.log_error) else "-",
                HOLDS[check.holds],
            )
        )
        for check in made.checks
    )
    return m.Table(columns, rows, title="Against the measurement")


def page_of(made: c.Composition) -> m.Page:
    """Return the report with a table of all choices, and a chart of its layers."""
    sides = [one for one in (made.chosen, made.baseline) if one is not None and one.parts]
    charts = [shares_chart(one) for one in sides]
    known = made.chosen is None or made.chosen.energy is not None
    first, *others = body_of(made).tables or (m.Table((), ()),)
    return m.Page(
        kind="tables",
        title=page_title(made),
        tables=(replace(first, foot="" if known else NO_ENERGY), *others, choices_table(made)),
        charts=charts[:1],
        more=charts[1:],
    )


def shares_chart(one: c.Configuration) -> m.Chart:
    """Return a chart with a bar for each group of alike parts, the slowest first; smaller ones
    together."""
    from bench_compare.report.figures.base import time_scale
    from bench_compare.report.figures.rows import Mark, named_rows

    groups = grouped(one.parts)
    bars: list[tuple[str, str, float]] = []
    for group in groups[:MOST_BARS]:
        more = len(group) - 1 if group[0].kind != "seam" else 0
        name = _name_of(group) + (f" and {more} alike" if more else "")
        bars.append((group[0].kind, name, _time_ns(group)))
    if rest := groups[MOST_BARS:]:
        bars.append(("layer", f"{len(rest)} smaller ones", math.fsum(map(_time_ns, rest))))
    factor, unit = time_scale(max(abs(time) for *_, time in bars))
    marks = [
        Mark(name, time / factor, units.time_text(time), color=COLORS[kind])
        for kind, name, time in bars
    ]
    axis = {"rangemode": "tozero", "title": {"text": f"time in one pass, {unit}"}}
    kinds = ", ".join(f"{kind}s" for kind in dict.fromkeys(kind for kind, *_ in bars))
    title = f"Slowest layers: {one.name}, {units.time_text(one.time.value)}"
    note = f"{kinds}, alike ones together"
    return m.Chart(named_rows(marks, axis, bars=True), title, note, id=f"layers-{one.name}")


def choices_table(made: c.Composition) -> m.Table:
    """Return a table of each layer with its configuration; folded, all that were measured for
    it."""
    columns = (
        m.Column("layer"),
        m.Column("runs as"),
        m.Column("why"),
        m.Column("time", "right", optional=True),
        m.Column("against the baseline", "right", optional=True),
    )
    rows = []
    for layer in made.layers:
        taken = next((one for one in layer.options if one.is_chosen), None)
        usual = next((one for one in layer.options if one.is_baseline), None)
        ratio = None
        if taken is not None and usual is not None and taken is not usual:
            ratio = taken.time.value / usual.time.value
        cells = (
            m.Name(layer.layer + (f" × {layer.repeat}" if layer.repeat > 1 else "")),
            layer.chosen or "no choice",
            layer.reason,
            m.Amount(None if taken is None else taken.time.value, "ns"),
            m.RatioCell(ratio),
        )
        rows.append(m.ReportRow(cells, details=tuple(map(_option_text, layer.options))))
    return m.Table(columns, tuple(rows), title="Choices")


def _option_text(one: c.Option) -> str:
    facts = [
        estimate_text(one.time),
        *([units.value_text(one.energy_j, "joules")] if one.energy_j is not None else []),
        *([f"error {one.error:.1e}"] if one.error is not None else []),
        *(["chosen"] if one.is_chosen else []),
        *(["baseline"] if one.is_baseline else []),
        *([f"not chosen: {one.excluded}"] if one.excluded else []),
    ]
    return f"{one.configuration}: {', '.join(facts)} ({one.case} in {one.source})"


def records_of(made: c.Composition) -> m.Records:
    """Return a row for each layer, with time and energy of each way to run it."""
    names, converted = ways(made), conversions(made)
    every = [*converted, *names]
    head = [f"{name}_{unit}" for name in every for unit in ("time_ns", "energy_j")]

    def cells(layer: c.LayerChoice) -> Iterator[object]:
        known = {one.name: (one.time_ns, one.energy_j) for one in layer.conversions}
        known |= {
            one.configuration: (one.time.value or None, one.energy_j) for one in layer.options
        }
        for name in every:
            yield from known.get(name, (None, None))

    def groups(part: range) -> Iterator[tuple[Sequence[Any], Iterator[Sequence[Any]]]]:
        for layer in made.layers[part.start : part.stop]:
            start = (layer.layer, layer.name, layer.repeat, layer.chosen, layer.baseline)
            yield start, iter([tuple(cells(layer))])

    first = ("layer", "graph", "repeat", "chosen", "baseline")
    return m.Records((*first, *head), len(made.layers), groups)


SHORT = {name: word for word, name in TYPES.items()}
LETTER = {"float": "f", "half": "h", "double": "d", "bfloat16": "b"}


def tensor_table(made: c.Composition) -> str:
    """Return HPVM's table of tensors: of each layer a line with the names of the columns, and one
    with milliseconds and millijoules."""
    engine = made.baseline_name.split()[0] if made.baseline_name else ""
    lines = []
    for layer in made.layers:
        columns: dict[str, tuple[float | None, float | None]] = {}
        for one in layer.conversions:
            ends = [LETTER.get(end, end) for end in one.name.split("_to_")]
            columns["2".join(ends)] = (one.time_ns, one.energy_j)
        for option in layer.options:
            if option.excluded != WRONG and option.time.value:
                name = _column(
                    option.configuration, engine, (made.types or {}).get(layer.layer, "")
                )
                columns.setdefault(name, (option.time.value, option.energy_j))
        head = " ".join(f"{name}_time {name}_energy" for name in columns)
        values = " ".join(
            "nan" if value is None else f"{value * factor:.6g}"
            for pair in columns.values()
            for value, factor in zip(pair, (1e-6, 1e3), strict=True)
        )
        lines += [f"** {layer.layer} 1 {head}", f"{layer.layer} {values}"]
    return "\n".join(lines) + "\n"


def _column(configuration: str, engine: str, own_type: str) -> str:
    """Return the name of a way to run a layer: ``fp16``, ``fp32_samp:1/2:0``, ``torch_fp32``."""
    name, *words = configuration.split()
    variant = dict(word.split("=", 1) for word in words if "=" in word)
    dtype = variant.pop("dtype", own_type)
    others = [value for value in variant.values() if value != "none"]
    parts = [*([] if name == engine else [name]), SHORT.get(dtype, dtype), *others]
    return "_".join(part for part in parts if part)


CONFIGURATIONS_HEAD = (
    *("configuration", "time_ns", "time_low_ns", "time_high_ns"),
    *("speedup_ratio", "energy_j", "energy_reduction_ratio"),
)


def configurations_report(pipeline: str, found: Sequence[Simulated]) -> m.Report:
    """Return the report on each configuration of a file against the first one."""
    first, *others = found
    best = max(found, key=lambda one: one.ratios.time.value)
    words = f"{pipeline}: {len(found)} configurations, {first.name} is the baseline"
    if others:
        words += f"; the fastest is {best.name}, {against_text(best.ratios.time.value, first.name)}"
    columns = (
        m.Column("configuration", least=12),
        m.Column("time", "right"),
        m.Column("speed-up", "right"),
        m.Column("energy", "right", optional=True),
        m.Column("energy reduction", "right", optional=True),
        m.Column("error", "right", optional=True, spare=1),
    )
    rows = []
    for one in found:
        energy, error, reduction = one.made.energy, one.made.error, one.ratios.energy
        cells = (
            one.name,
            m.Amount(one.made.time.value, "ns"),
            ratio_text(one.ratios.time),
            m.Amount(None if energy is None else energy.value, "joules"),
            "" if reduction is None else ratio_text(reduction),
            "" if error is None else f"{error.root_of_squares:.1e}",
        )
        rows.append(m.ReportRow(cells))
    notes = () if first.made.energy else ("energy was not measured: bench-run --energy",)
    body = m.Body(headline=words, tables=(m.Table(columns, tuple(rows)),), notes=notes)
    tree = {"kind": f"{KIND} --configurations", "version": VERSION}

    def groups(part: range) -> Iterator[tuple[Sequence[Any], Iterator[Sequence[Any]]]]:
        for one in found[part.start : part.stop]:
            time, energy, gain = one.made.time, one.made.energy, one.ratios.energy
            ratios = [one.ratios.time.value, energy and energy.value, gain and gain.value]
            yield (one.name,), iter([(time.value, time.low, time.high, *ratios)])

    return m.Report(
        conclusion=Conclusion("PASS", words),
        body=lambda: body,
        payload=lambda: m.Payload({**tree, "configurations": [asdict(one) for one in found]}),
        page=lambda: m.Page("tables", words, body.tables),
        records=lambda: m.Records(CONFIGURATIONS_HEAD, len(found), groups),
    )
