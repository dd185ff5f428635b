"""A composition as a report: the answer, its parts, checks and what is missing."""

from __future__ import annotations

import html
import math
from collections import Counter
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bench_schema.names import safe
from bench_schema.units import (
    PERCENT_BELOW,
    change_text,
    factor_text,
    significant,
    size_text,
    span_text,
    time_text,
    value_text,
)

from bench_compare.model import Conclusion
from bench_compare.report.html.tables import page_of as tables_page
from bench_compare.report.model import (
    Amount,
    Body,
    Chart,
    Column,
    Command,
    Name,
    Payload,
    RatioCell,
    Records,
    Report,
    ReportRow,
    Span,
    Table,
)

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
    from bench_compare.report.model import Page

KIND, VERSION = "bench-compare compose", 2
MOST_PARTS, MOST_REMARKS = 20, 12
MOST_KNOBS, MOST_KNOB_ROWS = 12, 20
SERIES = {"device_ns": "device time", "e2e_ns": "end-to-end time"}


def energy_text(joules: float | None) -> str:
    return value_text(joules, "joules")


def estimate_text(one: IntervalEstimate) -> str:
    if one.low is None or one.high is None:
        return time_text(one.value)
    value, span = time_text(one.value), span_text(one.low, one.high)
    return value if span == value else f"{value} ({span})"


def ratio_text(one: IntervalEstimate) -> str:
    """Format a ratio: ``1.25× (1.22 to 1.29)``."""
    text = f"{significant(one.value)}×"
    if one.low is None or one.high is None:
        return text
    low, high = significant(one.low), significant(one.high)
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
        change = change_text(math.exp(off.log_error)) if math.isfinite(off.log_error) else "far"
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


def report_of(composition: Composition, conclusion: Conclusion) -> Report:
    return Report(
        conclusion=conclusion,
        body=partial(body_of, composition),
        payload=lambda: Payload({"kind": KIND, "version": VERSION, **asdict(composition)}),
        page=partial(page_of, composition),
        records=partial(records_of, composition),
    )


def records_of(made: Composition) -> Records:
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
    return Records(head, len(made.layers), groups)


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


def configurations_report(pipeline: str, found: Sequence[Simulated]) -> Report:
    """Return the report on each configuration of a file against the first one."""
    first, *others = found
    best = max(found, key=lambda one: 0.0 if one.ratios is None else one.ratios.time.value)
    words = f"{pipeline}: {len(found)} configurations, {first.name} is the baseline"
    if others and best.ratios is not None:
        words += f"; the fastest is {best.name}, {speed_text(best.ratios.time)}"
    columns = (
        Column("configuration", least=12),
        Column("time", "right"),
        Column("speed-up", "right"),
        Column("energy", "right", optional=True),
        Column("energy reduction", "right", optional=True),
        Column("error", "right", optional=True, spare=1),
    )
    rows = []
    for one in found:
        energy, error = one.made.energy, one.made.error
        reduction = None if one.ratios is None else one.ratios.energy
        cells = (
            one.name,
            Amount(one.made.time.value, "ns"),
            "-" if one.ratios is None else ratio_text(one.ratios.time),
            Amount(None if energy is None else energy.value, "joules"),
            "" if reduction is None else ratio_text(reduction),
            "" if error is None else f"{error.root_of_squares:.1e}",
        )
        rows.append(ReportRow(cells))
    notes = () if first.made.energy else ("energy was not measured: bench-run --energy",)
    body = Body(headline=words, tables=(Table(columns, tuple(rows)),), notes=notes)
    tree = {"kind": f"{KIND} --configurations", "version": VERSION}

    def groups(part: range) -> Iterator[tuple[Sequence[Any], Iterator[Sequence[Any]]]]:
        for one in found[part.start : part.stop]:
            time, better = one.made.time, one.ratios
            energy = None if one.made.energy is None else one.made.energy.value
            gain = None if better is None or better.energy is None else better.energy.value
            speed = None if better is None else better.time.value
            yield (one.name,), iter([(time.value, time.low, time.high, speed, energy, gain)])

    return Report(
        conclusion=Conclusion("PASS", words),
        body=lambda: body,
        payload=lambda: Payload({**tree, "configurations": [asdict(one) for one in found]}),
        page=lambda: tables_page(words, body, body.tables, (), {}),
        records=lambda: Records(CONFIGURATIONS_HEAD, len(found), groups),
    )


def body_of(made: Composition) -> Body:
    need = {True: "needed", False: "would make the answer better"}
    tables = (
        totals_table(made),
        parts_table(made),
        knobs_table(made),
        checks_table(made),
    )
    return Body(
        headline=headline(made),
        problems=tuple(made.problems),
        facts=tuple(facts(made)),
        tables=tuple(table for table in tables if table.rows),
        also=(),
        notes=tuple(made.remarks),
        most_notes=MOST_REMARKS,
        commands_title="Not measured",
        commands=tuple(
            Command(f"{one.what} ({need[one.blocks]})", one.command) for one in made.missing
        ),
    )


def totals_table(made: Composition) -> Table:
    columns = (
        Column("choice", least=12),
        Column("time", "right", optional=True),
        Column("interval", "right", optional=True),
        Column("energy", "right", optional=True),
        Column("error", "right", optional=True),
        Column("workspace", "right", optional=True, spare=1),
    )
    rows = []
    for name, one in totals(made):
        error = one.error
        cells = (
            name,
            Amount(one.time.value, "ns"),
            Span(one.time.low, one.time.high, "ns"),
            Amount(None if one.energy is None else one.energy.value, "joules"),
            "-" if error is None else f"{error.root_of_squares:.1e} (≤ {error.worst:.1e})",
            Amount(one.workspace_bytes, "bytes"),
        )
        rows.append(ReportRow(cells))
    return Table(columns, tuple(rows))


def parts_table(made: Composition) -> Table:
    """List the slow layers first, alike ones in one row, seams in the last."""
    columns = (
        Column("", optional=True),
        Column("part", least=12),
        Column("runs as", least=12, optional=True),
        Column("times", "right", optional=True, spare=3),
        Column("time", "right", optional=True),
        Column("share", "right", optional=True),
        Column("energy", "right", optional=True),
        Column("note", least=12, optional=True, spare=2),
    )
    rows = [_part_row(parts) for parts in grouped(() if made.chosen is None else made.chosen.parts)]
    return Table(
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


def _part_row(parts: Sequence[PassPart]) -> ReportRow:
    first = parts[0]
    notes = Counter(part.note for part in parts if part.note)
    note = "; ".join(notes)
    if first.kind == "seam":
        note = "; ".join(f"{count} {text}" for text, count in notes.items())
    joules = [part.energy_j for part in parts]
    return ReportRow(
        (
            "" if first.kind == "layer" else first.kind,
            _name_of(parts),
            first.configuration if first.kind != "seam" or len(parts) == 1 else "",
            str(sum(part.count for part in parts)),
            Amount(_time_ns(parts), "ns"),
            f"{100 * sum(part.share for part in parts):.1f}%",
            Amount(None if None in joules else sum(filter(None, joules)), "joules"),
            note,
        )
    )


def knobs_table(made: Composition) -> Table:
    """Return a table with a row for each layer and a column for each way to run it, with the
    conversions into its form; empty if it would have one column or too many."""
    names = configurations(made)
    converted = list(dict.fromkeys(c.name for each in made.layers for c in each.conversions))
    if not 1 < len(names) <= MOST_KNOBS:
        return Table((), ())
    rows = []
    for layer in made.layers:
        known = {one.name: _cost(one.time_ns, one.energy_j) for one in layer.conversions}
        known |= {o.configuration: _cost(o.time.value, o.energy_j) for o in layer.options}
        cells = [known.get(name, "-") for name in (*converted, *names)]
        rows.append(ReportRow((layer.layer, str(layer.repeat), *cells)))
    ways = [*converted, *names]
    columns = (
        Column("layer", least=12),
        Column("times", "right"),
        *(Column(name, "right", spare=len(ways) - place) for place, name in enumerate(ways)),
    )
    return Table(
        columns,
        tuple(rows),
        title="Layers by configuration",
        lead="each layer in each way that was measured:",
        most=MOST_KNOB_ROWS,
        more="more layers: --csv, --markdown",
    )


def _cost(time_ns: float | None, energy_j: float | None) -> str:
    joules = "" if energy_j is None else f", {energy_text(energy_j)}"
    return "-" if time_ns is None else f"{time_text(time_ns)}{joules}"


def checks_table(made: Composition) -> Table:
    holds = {True: "yes", False: "no", None: "no interval"}
    columns = (
        Column("engine"),
        Column("caches", spare=1),
        Column("measured", "right"),
        Column("predicted", "right"),
        Column("interval", "right"),
        Column("off by", "right"),
        Column("holds"),
    )
    rows = tuple(
        ReportRow(
            (
                check.engine,
                check.cache,
                Amount(check.measured.value, "ns"),
                Amount(check.predicted.value, "ns"),
                Span(check.predicted.low, check.predicted.high, "ns"),
                RatioCell(math.exp(check.log_error)) if math.isfinite(check.log_error) else "-",
                holds[check.holds],
            )
        )
        for check in made.checks
    )
    return Table(columns, rows, title="Against the measurement")


SAME = 5e-4
"""A ratio that is shown as no change."""
BAR = 26
"""Pixels of a bar."""
KINDS = {
    "layer": ("layers", "--side-base"),
    "conversion": ("conversions of activations", "--tone-odd"),
    "seam": ("seams", "--tone-bad"),
}
MOST_BARS = 25


def page_of(made: Composition) -> Page:
    """Return the report with a table of all choices, and a chart of its layers."""
    body = body_of(made)
    sides = [one for one in (made.chosen, made.baseline) if one is not None and one.parts]
    charts = [_shares(one, place == 0) for place, one in enumerate(sides)]
    tables = (*body.tables, choices_table(made))
    known = made.chosen is None or made.chosen.energy is not None
    notes = (*body.notes, *(() if known else (NO_ENERGY,)))
    return tables_page(page_title(made), replace(body, notes=notes), tables, charts, {})


NO_ENERGY = "Energies need a measurement with --energy."


def _shares(one: Configuration, is_first: bool) -> Chart:
    """Return a chart with a bar for each group of alike parts, the slowest first; smaller ones
    together."""
    groups = grouped(one.parts)
    shown, rest = groups[:MOST_BARS], groups[MOST_BARS:]
    bars = [(group[0].kind, _name_of(group), _time_ns(group)) for group in shown]
    if rest:
        bars.append(("layer", f"{len(rest)} smaller ones", sum(map(_time_ns, rest))))
    labels = [f"{place + 1}. {label_text(name)}" for place, (_, name, _) in enumerate(bars)]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": title,
            "marker": {"color": color},
            "y": [labels[n] for n, bar in enumerate(bars) if bar[0] == kind],
            "x": [bar[2] / 1e3 for bar in bars if bar[0] == kind],
        }
        for kind, (title, color) in KINDS.items()
        if any(bar[0] == kind for bar in bars)
    ]
    layout = {
        "height": 90 + BAR * len(bars),
        "showlegend": True,
        "xaxis": {"title": {"text": "µs"}, "rangemode": "tozero"},
        "yaxis": {
            "autorange": "reversed",
            "type": "category",
            "categoryorder": "array",
            "categoryarray": labels,
        },
    }
    title = f"Slowest layers: {one.name}, {time_text(one.time.value)}"
    return Chart(title, traces, layout, id=f"layers-{one.name}", first=is_first)


def label_text(text: str) -> str:
    """Return the end of a label, escaped: plotly reads a little HTML in it."""
    plain = safe(text)
    end = plain if len(plain) <= LONGEST_LABEL else f"…{plain[1 - LONGEST_LABEL :]}"
    return html.escape(end, quote=False)


LONGEST_LABEL = 36


def choices_table(made: Composition) -> Table:
    """Return a table of each layer with its configuration; folded, all that were measured for
    it."""
    columns = (
        Column("layer"),
        Column("runs as"),
        Column("why"),
        Column("time", "right", optional=True),
        Column("against the baseline", "right", optional=True),
    )
    rows = []
    for layer in made.layers:
        taken = next((one for one in layer.options if one.is_chosen), None)
        usual = next((one for one in layer.options if one.is_baseline), None)
        moved = taken is not None and usual is not None and taken is not usual
        ratio = taken.time.value / usual.time.value if moved and taken and usual else None
        times = f" × {layer.repeat}" if layer.repeat > 1 else ""
        cells = (
            Name(f"{layer.layer}{times}"),
            layer.chosen or "no choice",
            layer.reason,
            Amount(None if taken is None else taken.time.value, "ns"),
            RatioCell(ratio),
        )
        rows.append(ReportRow(cells, details=tuple(map(_option_text, layer.options))))
    return Table(columns, tuple(rows), title="Choices")


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
    text = f"{composition.pipeline}: {time_text(chosen.time.value)}"
    if ratios is None or chosen.name == composition.baseline_name:
        return text
    ratio = ratios.time.value
    if abs(ratio - 1) < SAME:
        return f"{text}, as fast as {composition.baseline_name}"
    word = "faster" if ratio >= 1 else "slower"
    size = max(ratio, 1 / ratio)
    change = factor_text(size) if size >= PERCENT_BELOW else size_text(size)
    return f"{text}, {change} {word} than {composition.baseline_name}"
