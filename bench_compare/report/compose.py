"""A composition as a report: the answer, its parts, checks and what is missing."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bench_schema import units
from bench_schema.report import model as m

from bench_compare.model import Conclusion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.compose.configurations import Simulated
    from bench_compare.compose.model import (
        Composition,
        Configuration,
        IntervalEstimate,
        OptionRow,
        PassPart,
    )

KIND, VERSION = "bench-compare compose", 2
MOST_PARTS, MOST_REMARKS = 20, 12
MOST_KNOBS, MOST_KNOB_ROWS = 12, 20
SERIES = {"device_ns": "device time", "e2e_ns": "end-to-end time"}


def energy_text(joules: float | None) -> str:
    return units.value_text(joules, "joules")


def estimate_text(one: IntervalEstimate) -> str:
    if one.low is None or one.high is None:
        return units.time_text(one.value)
    value, span = units.time_text(one.value), units.span_text(one.low, one.high)
    return value if span == value else f"{value} ({span})"


def ratio_text(one: IntervalEstimate) -> str:
    """Format a ratio: ``1.25× (1.22 to 1.29)``."""
    text = f"{units.significant(one.value)}×"
    if one.low is None or one.high is None:
        return text
    low, high = units.significant(one.low), units.significant(one.high)
    return f"{text} ({low} to {high})" if low != high else text


def headline(made: Composition) -> str:
    if made.problems:
        return f"{made.pipeline}: no answer"
    assert made.chosen is not None
    assert made.ratios is not None or made.baseline is not None
    words = f"{made.pipeline}: {estimate_text(made.chosen.time)}"
    if made.ratios is None:
        return words
    return f"{words}, {speed_text(made.ratios.time)} against {made.baseline_name}"


def speed_text(one: IntervalEstimate) -> str:
    if math.isclose(one.value, 1.0, rel_tol=1e-12):
        return "the same time"
    return f"{ratio_text(one)} as fast"


def facts(made: Composition) -> Iterator[tuple[str, str]]:
    """Yield name and text of the facts that the answer rests on."""
    around = made.surroundings
    yield "pipeline", f"{made.path}: {len(made.layers)} layers" if made.layers else made.path
    yield "device", around.device_kind + ("" if around.device == "cpu" else f", {around.device}")
    yield "series", f"{SERIES.get(made.series, made.series)}, {around.cache} caches"
    for engine, libraries in around.libraries.items():
        yield "engine", f"{engine} ({libraries})" if libraries else engine
    yield "baseline", made.baseline_name
    energy = None if made.chosen is None else made.chosen.energy
    if energy is not None and made.ratios is not None and made.ratios.energy is not None:
        beside = _beside(made.ratios.energy, made.baseline_name)
        yield "energy", f"{energy_text(energy.value)}, {beside}"
    if made.choose is not None:
        kept = "".join(f", {name} at most {bound:g}" for name, bound in made.limits.items())
        sure = {True: ": optimal", False: ": perhaps not optimal", None: ""}[made.optimal]
        yield "chosen by", f"{made.choose}{kept}{sure}"
    if made.method:
        yield "how", made.method


def _beside(ratio: IntervalEstimate, name: str) -> str:
    if math.isclose(ratio.value, 1.0, rel_tol=1e-12):
        return f"as {name}"
    return f"{name} takes {ratio_text(ratio)} as much"


def totals(made: Composition) -> Iterator[tuple[str, Configuration]]:
    """Yield the name and configuration of each total that stands side by side: chosen, baseline,
    other engines."""
    if made.chosen is not None:
        yield made.chosen.name, made.chosen
    if made.baseline is not None:
        yield f"baseline: {made.baseline.name}", made.baseline
    for one in made.others:
        if one.name != made.baseline_name:
            yield one.name, one


def conclude(made: Composition, passed_over: Sequence[str] = ()) -> Conclusion:
    """Return the conclusion. `passed_over`: sentences on files in folders that are not
    documents."""
    if not made.problems and not made.holds:
        off = next(check for check in made.checks if check.holds is False)
        change = (
            units.change_text(math.exp(off.log_error)) if math.isfinite(off.log_error) else "far"
        )
        return Conclusion(
            "FAIL", f"{headline(made)}; {off.engine}: off by {change}, outside of the interval"
        )
    if made.problems or passed_over:
        return Conclusion(
            "UNDECIDED",
            (*made.problems, *passed_over)[0],
            next((one.command for one in made.missing if one.blocks), None),
        )
    return Conclusion("PASS", headline(made))


def report_of(composition: Composition, conclusion: Conclusion) -> m.Report:
    return m.Report(
        conclusion=conclusion,
        body=partial(body_of, composition),
        payload=lambda: m.Payload({"kind": KIND, "version": VERSION, **asdict(composition)}),
        page=partial(page_of, composition),
        records=partial(records_of, composition),
    )


def records_of(made: Composition) -> m.Records:
    """Return the records: a row for each layer, with a column for time and energy of each way to
    run it; times are those of one execution. Conversions stand before: into the form of a way and
    out of it."""
    conversions = list(dict.fromkeys(c.name for each in made.layers for c in each.conversions))
    names = configurations(made)
    columns = [
        f"{name}_{unit}" for name in (*conversions, *names) for unit in ("time_ns", "energy_j")
    ]

    def groups(part: range) -> Iterator[tuple[Sequence[Any], Iterator[Sequence[Any]]]]:
        for layer in made.layers[part.start : part.stop]:
            known = {one.name: (one.time_ns, one.energy_j) for one in layer.conversions}
            known |= {o.configuration: (o.time.value, o.energy_j) for o in layer.options}
            cells = [known.get(name, (None, None)) for name in (*conversions, *names)]
            yield (
                (layer.layer, layer.repeat, layer.chosen, layer.baseline),
                iter([[number for pair in cells for number in pair]]),
            )

    head = ("layer", "repeat", "chosen", "baseline", *columns)
    return m.Records(head, len(made.layers), groups)


SHORT = {"float": "fp32", "half": "fp16", "bfloat16": "bf16", "double": "fp64"}
"""Types in the words of HPVM's tables."""
LETTER = {"float": "f", "half": "h"}


def tensor_table(made: Composition, types: Mapping[tuple[str, str], str]) -> str:
    """Return HPVM's table of tensors: for each layer a line ``** LAYER 1`` with the names of
    columns, and one with its values. Times are milliseconds of one execution, energies millijoules;
    ``nan`` was not measured. `types`: document and case to the type of the graph."""
    lines = []
    engines = {option.configuration.split()[0] for each in made.layers for option in each.options}
    for layer in made.layers:
        values = {_converted(one.name): (one.time_ns, one.energy_j) for one in layer.conversions}
        for option in layer.options:
            kind = types[option.source, option.case]
            name = _way(option.configuration, SHORT.get(kind, kind), named=len(engines) > 1)
            values[name] = option.time.value, option.energy_j
        head = [f"{name}_{what}" for name in values for what in ("time", "energy")]
        lines.append(" ".join(["**", _word(layer.layer), "1", *head]))
        cells = [
            text
            for ns, joules in values.values()
            for text in (_scaled(ns, 1e6), _scaled(joules, 1e-3))
        ]
        lines.append(" ".join([_word(layer.layer), *cells]))
    return "\n".join(lines) + "\n"


def _converted(name: str) -> str:
    """Return ``f2h`` for ``float_to_half``."""
    source, _, target = name.partition("_to_")
    return f"{LETTER.get(source, source)}2{LETTER.get(target, target)}"


def _way(configuration: str, kind: str, *, named: bool) -> str:
    """Return the name of a column: the engine if there are several, the type, then what else the
    configuration says."""
    engine, *words = configuration.split()
    said = dict(word.split("=", 1) for word in words if "=" in word)
    said = {key: value for key, value in said.items() if key != "dtype" and value != "none"}
    rest = (value if key == "approx" else f"{key}={value}" for key, value in said.items())
    return "_".join([*([engine] if named else []), kind, *rest])


def _word(text: str) -> str:
    return "_".join(text.split())


def _scaled(value: float | None, unit: float) -> str:
    return "nan" if value is None else f"{value / unit:.6g}"


def configurations(made: Composition) -> list[str]:
    """Return every way to run some layer, the baseline's first."""
    baseline = [layer.baseline for layer in made.layers if layer.baseline is not None]
    others = (option.configuration for layer in made.layers for option in layer.options)
    return list(dict.fromkeys((*baseline, *others)))


CONFIGURATIONS_HEAD = (
    *("configuration", "time_ns", "time_low_ns", "time_high_ns"),
    *("speedup_ratio", "energy_j", "energy_reduction_ratio"),
)


def configurations_report(pipeline: str, found: Sequence[Simulated]) -> m.Report:
    """Return the report on each configuration of a file against the first one."""
    first, *others = found
    best = max(found, key=lambda one: 0.0 if one.ratios is None else one.ratios.time.value)
    words = f"{pipeline}: {len(found)} configurations, {first.name} is the baseline"
    if others and best.ratios is not None:
        words += f"; the fastest is {best.name}, {speed_text(best.ratios.time)}"
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
        energy, error = one.made.energy, one.made.error
        reduction = None if one.ratios is None else one.ratios.energy
        cells = (
            one.name,
            m.Amount(one.made.time.value, "ns"),
            "-" if one.ratios is None else ratio_text(one.ratios.time),
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
            time, better = one.made.time, one.ratios
            energy = None if one.made.energy is None else one.made.energy.value
            gain = None if better is None or better.energy is None else better.energy.value
            speed = None if better is None else better.time.value
            yield (one.name,), iter([(time.value, time.low, time.high, speed, energy, gain)])

    return m.Report(
        conclusion=Conclusion("PASS", words),
        body=lambda: body,
        payload=lambda: m.Payload({**tree, "configurations": [asdict(one) for one in found]}),
        page=lambda: m.Page("tables", words, body.tables),
        records=lambda: m.Records(CONFIGURATIONS_HEAD, len(found), groups),
    )


def body_of(made: Composition) -> m.Body:
    need = {True: "needed", False: "would make the answer better"}
    tables = (
        totals_table(made),
        parts_table(made),
        knobs_table(made),
        checks_table(made),
    )
    return m.Body(
        headline=headline(made),
        problems=tuple(made.problems),
        facts=tuple(facts(made)),
        tables=tuple(table for table in tables if table.rows),
        also=(),
        notes=tuple(made.remarks),
        most_notes=MOST_REMARKS,
        commands_title="Not measured",
        commands=tuple(
            m.Command(f"{one.what} ({need[one.blocks]})", one.command) for one in made.missing
        ),
    )


def totals_table(made: Composition) -> m.Table:
    columns = (
        m.Column("choice", least=12),
        m.Column("time", "right", optional=True),
        m.Column("interval", "right", optional=True),
        m.Column("energy", "right", optional=True),
        m.Column("error", "right", optional=True),
        m.Column("workspace", "right", optional=True, spare=1),
    )
    rows = []
    for name, one in totals(made):
        error = one.error
        cells = (
            name,
            m.Amount(one.time.value, "ns"),
            m.Span(one.time.low, one.time.high, "ns"),
            m.Amount(None if one.energy is None else one.energy.value, "joules"),
            "-" if error is None else f"{error.root_of_squares:.1e} (≤ {error.worst:.1e})",
            m.Amount(one.workspace_bytes, "bytes"),
        )
        rows.append(m.ReportRow(cells))
    return m.Table(columns, tuple(rows), title="Totals")


def parts_table(made: Composition) -> m.Table:
    """List the slow layers first, alike ones in one row, seams in the last."""
    columns = (
        m.Column("kind", head="", optional=True),
        m.Column("part", least=12),
        m.Column("runs as", least=12, optional=True),
        m.Column("times", "right", optional=True, spare=3),
        m.Column("time", "right", optional=True),
        m.Column("share", "right", optional=True),
        m.Column("energy", "right", optional=True),
        m.Column("note", least=12, optional=True, spare=2),
    )
    rows = [_part_row(parts) for parts in grouped(() if made.chosen is None else made.chosen.parts)]
    return m.Table(
        columns,
        tuple(rows),
        title="Parts",
        most=MOST_PARTS,
        more="smaller parts: --json, --markdown",
    )


def grouped(parts: Sequence[PassPart]) -> list[list[PassPart]]:
    """Group parts of equal kind, name, configuration and note, the group with the longest time
    first; all seams are the last group."""
    groups: dict[object, list[PassPart]] = {}
    for part in parts:
        alike = (part.kind, part.name, part.configuration, part.note)
        groups.setdefault("seam" if part.kind == "seam" else alike, []).append(part)
    seams = groups.pop("seam", [])
    ordered = sorted(groups.values(), key=lambda group: -_time_ns(group))
    return [*ordered, *([seams] if seams else [])]


def _time_ns(parts: Sequence[PassPart]) -> float:
    return sum(part.time_ns for part in parts)


def _name_of(parts: Sequence[PassPart]) -> str:
    first, more = parts[0], len(parts) - 1
    if first.kind == "seam":
        return f"{len(parts)} seams" if more else first.name
    name = first.layer
    if first.kind == "conversion":
        name = f"{first.writer or 'input'} → {first.layer}: {first.name}"
    return name + (f" and {more} alike" if more else "")


def _part_row(parts: Sequence[PassPart]) -> m.ReportRow:
    first = parts[0]
    notes = Counter(part.note for part in parts if part.note)
    note = "; ".join(notes)
    if first.kind == "seam":
        note = "; ".join(f"{count} {text}" for text, count in notes.items())
    joules = [part.energy_j for part in parts]
    return m.ReportRow(
        (
            "" if first.kind == "layer" else first.kind,
            _name_of(parts),
            first.configuration if first.kind != "seam" or len(parts) == 1 else "",
            str(sum(part.count for part in parts)),
            m.Amount(_time_ns(parts), "ns"),
            f"{100 * sum(part.share for part in parts):.1f}%",
            m.Amount(None if None in joules else sum(filter(None, joules)), "joules"),
            note,
        )
    )


def knobs_table(made: Composition) -> m.Table:
    """Return a table with a row for each layer and a column for each way to run it, with the
    conversions into its form; empty if it would have one column or too many."""
    names = configurations(made)
    converted = list(dict.fromkeys(c.name for each in made.layers for c in each.conversions))
    if not 1 < len(names) <= MOST_KNOBS:
        return m.Table((), ())
    rows = []
    for layer in made.layers:
        known = {one.name: _cost(one.time_ns, one.energy_j) for one in layer.conversions}
        known |= {o.configuration: _cost(o.time.value, o.energy_j) for o in layer.options}
        cells = [known.get(name, "-") for name in (*converted, *names)]
        rows.append(m.ReportRow((layer.layer, str(layer.repeat), *cells)))
    ways = [*converted, *names]
    columns = (
        m.Column("layer", least=12),
        m.Column("times", "right"),
        *(m.Column(name, "right", spare=len(ways) - place) for place, name in enumerate(ways)),
    )
    return m.Table(
        columns,
        tuple(rows),
        title="Layers by configuration",
        lead="each layer in each way that was measured:",
        most=MOST_KNOB_ROWS,
        more="more layers: --csv, --markdown",
    )


def _cost(time_ns: float | None, energy_j: float | None) -> str:
    joules = "" if energy_j is None else f", {energy_text(energy_j)}"
    return "-" if time_ns is None else f"{units.time_text(time_ns)}{joules}"


def checks_table(made: Composition) -> m.Table:
    holds = {True: "yes", False: "no", None: "no interval"}
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
                holds[check.holds],
            )
        )
        for check in made.checks
    )
    return m.Table(columns, rows, title="Against the measurement")


SAME = 5e-4
"""A ratio that is shown as no change."""
COLORS = {"layer": "base", "conversion": "odd", "seam": "bad"}
"""Kind of a part to the colour of its bar."""
MOST_BARS = 25


def page_of(made: Composition) -> m.Page:
    """Return the report with a table of all choices, and a chart of its layers."""
    sides = [one for one in (made.chosen, made.baseline) if one is not None and one.parts]
    charts = [_shares(one) for one in sides]
    known = made.chosen is None or made.chosen.energy is not None
    first, *others = body_of(made).tables or (m.Table((), ()),)
    return m.Page(
        kind="tables",
        title=page_title(made),
        tables=(replace(first, foot="" if known else NO_ENERGY), *others, choices_table(made)),
        charts=charts[:1],
        more=charts[1:],
    )


NO_ENERGY = "Energies need a measurement with --energy."


def _shares(one: Configuration) -> m.Chart:
    """Return a chart with a bar for each group of alike parts, the slowest first; smaller ones
    together."""
    from bench_compare.report.figures.base import time_scale
    from bench_compare.report.figures.rows import Mark, named_rows

    groups = grouped(one.parts)
    bars = [(group[0].kind, _name_of(group), _time_ns(group)) for group in groups[:MOST_BARS]]
    rest = groups[MOST_BARS:]
    if rest:
        bars.append(("layer", f"{len(rest)} smaller ones", sum(map(_time_ns, rest))))
    factor, unit = time_scale(max(abs(time) for *_, time in bars))
    marks = [
        Mark(name, time / factor, units.time_text(time), color=COLORS[kind])
        for kind, name, time in bars
    ]
    axis = {"rangemode": "tozero", "title": {"text": f"time in one pass, {unit}"}}
    found = dict.fromkeys(kind for kind, *_ in bars)
    kinds = ", ".join(f"{kind}s" for kind in found)
    title = f"Slowest layers: {one.name}, {units.time_text(one.time.value)}"
    return m.Chart(
        named_rows(marks, axis, bars=True),
        title,
        f"{kinds}, alike ones together",
        id=f"layers-{one.name}",
    )


def choices_table(made: Composition) -> m.Table:
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
        moved = taken is not None and usual is not None and taken is not usual
        ratio = taken.time.value / usual.time.value if moved and taken and usual else None
        times = f" × {layer.repeat}" if layer.repeat > 1 else ""
        cells = (
            m.Name(f"{layer.layer}{times}"),
            layer.chosen or "no choice",
            layer.reason,
            m.Amount(None if taken is None else taken.time.value, "ns"),
            m.RatioCell(ratio),
        )
        rows.append(m.ReportRow(cells, details=tuple(map(_option_text, layer.options))))
    return m.Table(columns, tuple(rows), title="Choices")


def _option_text(one: OptionRow) -> str:
    facts = [
        estimate_text(one.time),
        *([energy_text(one.energy_j)] if one.energy_j is not None else []),
        *([f"error {one.error:.1e}"] if one.error is not None else []),
        *(["chosen"] if one.is_chosen else []),
        *(["baseline"] if one.is_baseline else []),
        *([f"not chosen: {one.excluded}"] if one.excluded else []),
    ]
    return f"{one.configuration}: {', '.join(facts)} ({one.case} in {one.source})"


def page_title(composition: Composition) -> str:
    """Return the pipeline, its predicted time, and what it is against the baseline."""
    chosen, ratios = composition.chosen, composition.ratios
    if chosen is None:
        return f"{composition.pipeline}: no answer"
    text = f"{composition.pipeline}: {units.time_text(chosen.time.value)}"
    if ratios is None or chosen.name == composition.baseline_name:
        return text
    ratio = ratios.time.value
    if abs(ratio - 1) < SAME:
        return f"{text}, as fast as {composition.baseline_name}"
    word = "faster" if ratio >= 1 else "slower"
    size = max(ratio, 1 / ratio)
    change = units.factor_text(size) if size >= units.PERCENT_BELOW else units.size_text(size)
    return f"{text}, {change} {word} than {composition.baseline_name}"
