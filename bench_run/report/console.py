"""The answer on stdout: one row per case, more with ``-v``, both sides with ``--a``/``--b``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import tabulate as tables
from bench_schema.document import PAID_ONCE
from bench_schema.estimate import case_time, main_series
from bench_schema.summary import rates
from tabulate import tabulate

from bench_run.report.labels import (
    UNLIKE,
    UNLIKE_MEANS,
    add_label,
    are_unlike,
    footnotes,
    implausible_first,
    implausible_lines,
    marked,
    plan_labels,
)
from bench_run.report.oracle import speed_up
from bench_run.text import one_line, percent_text, rate_text, shorten, size_text, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Case, Document, Memory, Validation

WIDTH = 80
HEADERS = ("graph", "engine", "time", "±", "TFLOP/s", "GB/s", "peak", "validation")
ALIGN = ("left", "left", "right", "right", "right", "right", "right", "left")


def table(document: Document) -> str:
    """Rows of at most 80 columns; a case without samples shows its outcome and why below.

    A graph's name is never cut in the middle while there is room for it on a line of its own: with
    several engines or variants each graph is such a line, else those graphs whose name is long.
    """
    document = implausible_first(document)
    several, labels = len(document.engines) > 1, plan_labels(document)
    grouped = several or any(labels)
    rows = [list(_row(case)) for case in document.cases]
    names = [row[0] for row in rows]
    for row, label in zip(rows, labels, strict=True):
        row[1] = add_label(row[1] if several else "", label)
    headers = [HEADERS[0], "engine" if several else "plan", *HEADERS[2:]]
    left_out = 0 if grouped else 1
    headers, align, *cells = (
        [row[i] for i in range(len(headers)) if i != left_out] for row in (headers, ALIGN, *rows)
    )
    # The first column takes what is left of the page.
    widths = [max(len(row[i]) for row in [headers, *cells]) for i in range(1, len(headers))]
    room = WIDTH - sum(widths) - 2 * len(widths)
    for row in cells:
        row[0] = shorten(row[0], room) if grouped else row[0] * (len(row[0]) <= room)
    head, rule, *lines = _tabulate(cells, headers, align).splitlines()
    body: list[str] = []
    previous = None
    for line, name in zip(lines, names, strict=True):
        if (grouped and name != previous) or not (grouped or line.startswith(name)):
            body.append(shorten(name, WIDTH))
        previous = name
        body.append(line)
    engine = document.engines[0]
    where = shorten(engine.device_kind, WIDTH - len(engine.key) - 11)
    top = [] if several else [f"engine {engine.key} on {where}", ""]
    return "\n".join([*top, head, rule, *body, "", *_endings(document.cases), totals(document)])


def _tabulate(rows: list[list[str]], headers: Sequence[str], align: Sequence[str]) -> str:
    """The table with headers no wider than they are: 80 columns are few.

    tabulate knows that width only as a setting of the module, so it is put back.
    """
    padding, tables.MIN_PADDING = tables.MIN_PADDING, 0
    try:
        return tabulate(rows, headers, tablefmt="simple", colalign=align, disable_numparse=True)
    finally:
        tables.MIN_PADDING = padding


def _row(case: Case) -> tuple[str, ...]:
    time = case_time(case)
    if time is None:
        return (
            one_line(case.graph.name),
            one_line(case.engine),
            case.outcome.status,
            "",
            "",
            "",
            "",
            "",
        )
    return (
        one_line(case.graph.name),
        one_line(case.engine),
        marked(time_text(time.ns), case),
        percent_text(time.half_width_ratio),
        *map(rate_text, rates(case.work, time.ns)),
        peak_text(case.memory),
        validation_text(case.validation, case.implausible),
    )


def peak_text(memory: Memory | None) -> str:
    """Most memory that the engine held over the case, on the device or in its process."""
    return size_text(None if memory is None else memory.peak_bytes, 3)


def validation_text(validation: Validation | None, implausible: str | None = None) -> str:
    """In a word or two; a time that no machine reaches outweighs outputs that look right."""
    if validation is not None and validation.status == "failed":
        wrong = sum(output.mismatched for output in validation.outputs)
        return f"{wrong} wrong" if wrong else "failed"
    if implausible is not None:
        return "implausible"
    return "–" if validation is None or validation.status == "not checked" else "passed"


def _endings(cases: Sequence[Case]) -> list[str]:
    """A line for each case that is not believed, did not complete or is wrong, with the reason."""
    lines = implausible_lines(cases)
    for case in cases:
        if case.outcome.status != "completed":
            lines.append(f"{case.id}: {case.outcome.status}: {case.outcome.reason}")
        if case.validation is not None and case.validation.status == "failed":
            lines.append(f"{case.id}: wrong: {case.validation.reason}")
        elif case.validation is not None and (
            case.validation.status == "not checked" and case.validation.reference != "none"
        ):
            lines.append(f"{case.id}: not checked: {case.validation.reason}")
    lines += footnotes(cases)
    return [*lines, ""] if lines else []


def totals(document: Document) -> str:
    """One line: how many cases ended how."""
    counts: dict[str, int] = {}
    for case in document.cases:
        counts[case.outcome.status] = counts.get(case.outcome.status, 0) + 1
        status = "none" if case.validation is None else case.validation.status
        if status != "not checked" and case.outcome.status == "completed":
            counts[f"validation {status}"] = counts.get(f"validation {status}", 0) + 1
    implausible = sum(case.implausible is not None for case in document.cases)
    if implausible:
        counts["implausible"] = implausible
    parts = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"{len(document.cases)} cases: {parts}" if parts else "no cases"


STATISTICS = ("min", "p5", "median", "p90", "p95", "p99", "max", "mean", "std", "mad")
"""Of all samples of a series, in the order of the block."""


def details(document: Document) -> str:
    """The full block of every case's statistics."""
    blocks = []
    for case in document.cases:
        lines = [case.id, "-" * min(80, len(case.id))]
        for name, summary in case.summary.items():
            values = ", ".join(f"{key} {time_text(getattr(summary, key))}" for key in STATISTICS)
            text, time = f"{summary.count} samples, pooled: {values}", case_time(case, name)
            if time is not None:
                ends = f"95% {time_text(time.low_ns)} to {time_text(time.high_ns)}"
                text = f"time {time_text(time.ns)}, {ends}; {text}"
            lines.append(_wrapped(f"{name.removesuffix('_ns')}: {text}"))
        if case.init:
            medians = {
                name: int(values[0])
                if name in PAID_ONCE
                else sorted(values.tolist())[len(values) // 2]
                for name, values in case.init.items()
            }
            parts = ", ".join(f"{n.removesuffix('_ns')} {time_text(v)}" for n, v in medians.items())
            lines.append(_wrapped(f"init {time_text(sum(medians.values()))}: {parts}"))
        if case.memory is not None:
            memory = case.memory
            sizes = {
                "peak": memory.peak_bytes,
                "workspace": memory.workspace_bytes,
                "buffer": memory.buffer_bytes,
            }
            parts = ", ".join(f"{name} {size_text(size)}" for name, size in sizes.items())
            lines.append(f"memory: {parts}")
        lines += [f"{key}: {value}" for key, value in case.plan.items()]
        lines += _validation_lines(case.validation)
        if case.implausible is not None:
            lines.append(f"implausible: {case.implausible}")
        lines += [f"note: {note}" for note in case.notes]
        if case.stopped_by is not None:
            lines.append(f"stopped by: {case.stopped_by}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _wrapped(line: str) -> str:
    return textwrap.fill(line, 80, subsequent_indent=" " * 4, break_on_hyphens=False)


def _validation_lines(validation: Validation | None) -> list[str]:
    if validation is None:
        return []
    lines = [f"validation against {validation.reference}: {validation.status}"]
    if validation.reason is not None:
        lines.append(f"  {validation.reason}")
    for output in validation.outputs:
        lines.append(
            f"  {output.name or output.uid}: {output.mismatched} of {output.elements} wrong, "
            f"max abs {_real(output.max_abs)}, max rel {_real(output.max_rel)}, "
            f"L2 {_real(output.relative_l2)} "
            f"(rtol {output.rtol:.3g}, atol {output.atol:.3g}: {output.tolerance_source})"
        )
        lines += [
            f"    at {list(m.index)}: {_real(m.actual)}, expected {_real(m.expected)}"
            for m in output.worst
        ]
    return lines


def _real(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def side_by_side(document: Document) -> str:
    """Both engines of an A/B run in one row per graph, with the speed-up of B over A."""
    first, second = (engine.key for engine in document.engines)
    by_graph: dict[str, dict[str, Case]] = {}
    for case in implausible_first(document).cases:
        by_graph.setdefault(case.graph.path, {})[case.engine] = case
    rows = []
    for pair in by_graph.values():
        if first not in pair or second not in pair:
            continue
        a, b = pair[first], pair[second]
        series = main_series(a.summary)
        value = interval = "–"
        if series is not None and series in b.summary:
            ratio = None if are_unlike(a, b) else speed_up(a, b, series)
            if are_unlike(a, b):
                value = UNLIKE
            elif ratio is not None:
                value = f"{ratio.value:.3f}×"
                if ratio.low is not None and ratio.high is not None:
                    interval = f"{ratio.low:.3f} to {ratio.high:.3f}"
        validation = validation_text(b.validation, b.implausible)
        rows.append([shorten(a.graph.name, 26), _state(a), _state(b), value, interval, validation])
    headers = ("graph", "A", "B", "speed-up", "95% interval", "B against A")
    align = ("left", "right", "right", "right", "right", "left")
    text = _tabulate(rows, headers, align)
    legend = f"A = {first}\nB = {second}"
    unlike = [f"{UNLIKE}: {UNLIKE_MEANS}", ""] if any(row[3] == UNLIKE for row in rows) else []
    return "\n".join([legend, "", text, "", *unlike, *_endings(document.cases), totals(document)])


def _state(case: Case) -> str:
    time = case_time(case)
    return case.outcome.status if time is None else marked(time_text(time.ns), case)
