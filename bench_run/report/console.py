"""The answer on stdout: one row per case, more with ``-v``, both sides with ``--a``/``--b``."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from typing import TYPE_CHECKING

import tabulate as tables
from bench_schema.document import GOLDEN, PAID_ONCE
from bench_schema.estimate import case_time, change, main_series
from bench_schema.launches import launch_text, library_shares
from bench_schema.merge import SHORT, shortfall
from bench_schema.names import cut, shortened
from bench_schema.summary import init_total_ns, rates
from bench_schema.units import change_text, count_text, is_too_noisy, margin_text
from tabulate import tabulate

from bench_run.report.labels import (
    UNLIKE,
    UNLIKE_MEANS,
    WRONG,
    add_label,
    are_unlike,
    footnotes,
    implausible_first,
    implausible_lines,
    is_wrong,
    marked,
    own_numbers,
    own_text,
    plan_labels,
    threads_text,
)
from bench_run.report.one_graph import compares_with_a
from bench_run.text import NOISY_MEANS, one_line, percent_text, rate_text, size_text, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Case, Document, Memory, Validation
    from bench_schema.estimate import Change

WIDTH = 80
LEAST_NAME = 16


def table(document: Document) -> str:
    """Return a table of at most 80 columns, with a row for each case; a case without samples shows
    its outcome, and why below.

    Names take the room that the numbers leave. They are shortened if they are alike, so that those
    of two graphs stay different. If a graph has several plans they stand below its name.
    """
    document = implausible_first(document)
    several, labels = len(document.engines) > 1, plan_labels(document)
    times = [case_time(case) for case in document.cases]
    ratings = [
        (None, None) if time is None else rates(case.work, time.ns)
        for case, time in zip(document.cases, times, strict=True)
    ]
    fastest = max((tflops for tflops, _ in ratings if tflops is not None), default=0.0)
    scale, unit = (1.0, "TFLOP/s") if fastest >= 1 else (1e3, "GFLOP/s")
    best = best_times(document) if several else {}
    headers = ["graph", "time", "±", unit, "vs best" if several else "GB/s", "validation"]
    align = ["left", "right", "right", "right", "right", "left"]
    rows = []
    for case, time, (tflops, gbps) in zip(document.cases, times, ratings, strict=True):
        row = [case.outcome.status, "", "", "", ""]
        if time is not None:
            row = [
                marked(time_text(time.ns), case),
                percent_text(time.half_width_ratio),
                rate_text(None if tflops is None else scale * tflops),
                against_best(case, best) if several else rate_text(gbps),
                validation_text(case.validation, case.implausible),
            ]
        rows.append([one_line(case.graph.name), *row])
    if several or any(labels):
        headers.insert(1, "engine" if several else "plan")
        align.insert(1, "left")
        for row, case, label in zip(rows, document.cases, labels, strict=True):
            row.insert(1, add_label(one_line(case.engine) if several else "", label))
    if any(labels):
        text = _below_names(rows, headers, align)
    else:
        text = _tabulate(_fitted(rows, headers), headers, align)
    engine = document.engines[0]
    where = cut(engine.device_kind, WIDTH - len(engine.key) - 24)
    top = [] if several else [f"engine {engine.key} on {where}{threads_text(engine, document)}", ""]
    lines = [*top, text, "", *_own_table(document)]
    if any(time is not None and (time.half_width_ratio or 0) > 1 for time in times):
        lines += [_wrapped(NOISY_MEANS), ""]
    return "\n".join([*lines, *_endings(document), totals(document)])


def _own_table(document: Document) -> Iterator[str]:
    """Yield a table of these numbers, the mean over the rounds of each case."""
    names = own_numbers(document)
    rows = [[one_line(c.id), *(own_text(c, name) for name in names)] for c in document.cases]
    headers = ["case", *names]
    text = _tabulate(_fitted(rows, headers), headers, ["left", *["right"] * len(names)])
    if names and max(map(len, text.splitlines())) > WIDTH:
        for case, *numbers in rows:
            listed = (f"{n} {number}" for n, number in zip(names, numbers, strict=True) if number)
            yield _wrapped(f"{case}: {', '.join(listed)}")
        yield ""
    elif names:
        yield from (text, "")


def best_times(document: Document) -> dict[str, float]:
    """Return the shortest time of each graph by its path, ns; without wrong and implausible
    cases."""
    best: dict[str, float] = {}
    for case in document.cases:
        time = case_time(case)
        if time is not None and not is_wrong(case) and case.implausible is None:
            best[case.graph.path] = min(time.ns, best.get(case.graph.path, math.inf))
    return best


def against_best(case: Case, best: Mapping[str, float]) -> str:
    """Return the time of a case in units of the shortest one of its graph, as in ``1.31×``."""
    time, least = case_time(case), best.get(case.graph.path)
    if time is None or least is None or is_wrong(case) or case.implausible is not None:
        return "–"
    return "best" if time.ns == least else f"{time.ns / least:.2f}×"


def _fitted(rows: list[list[str]], headers: Sequence[str]) -> list[list[str]]:
    """Return the rows with their names in the room that the other columns leave."""
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(1, len(headers))]
    room = max(LEAST_NAME, WIDTH - sum(widths) - 2 * len(widths))
    short = shortened([row[0] for row in rows], room)
    return [[short[name], *cells] for name, *cells in rows]


def _below_names(rows: list[list[str]], headers: Sequence[str], align: Sequence[str]) -> str:
    """Return the table without its names, each of which is a line above its rows."""
    head, rule, *lines = _tabulate([row[1:] for row in rows], headers[1:], align[1:]).splitlines()
    body: list[str] = []
    for line, row, before in zip(lines, rows, [None, *rows], strict=False):
        if before is None or before[0] != row[0]:
            body.append(cut(row[0], WIDTH))
        body.append(line)
    return "\n".join([head, rule, *body])


def _tabulate(rows: list[list[str]], headers: Sequence[str], align: Sequence[str]) -> str:
    """Return the table with headers that are not padded beyond their own width: 80 columns are few.

    tabulate has that padding only as a setting of the module, so it is put back.
    """
    padding, tables.MIN_PADDING = tables.MIN_PADDING, 0
    try:
        return tabulate(rows, headers, tablefmt="simple", colalign=align, disable_numparse=True)
    finally:
        tables.MIN_PADDING = padding


def peak_text(memory: Memory | None) -> str:
    """Return, as text, the most memory that the engine held over the case, on the device or in its
    process."""
    return size_text(None if memory is None else memory.peak_bytes)


def validation_text(validation: Validation | None, implausible: str | None = None) -> str:
    """Return the validation in a word or two, with golden tensors named; a time that no machine
    reaches outweighs correct outputs."""
    if validation is not None and validation.status == "failed":
        wrong = sum(output.mismatched for output in validation.outputs)
        return f"{wrong} wrong" if wrong else "failed"
    if implausible is not None:
        return "implausible"
    if validation is None or validation.status == "not checked":
        return "–"
    return "passed, golden" if validation.reference == GOLDEN else "passed"


def _endings(document: Document) -> list[str]:
    """Return a line for each case that is implausible, incomplete or wrong, with the reason."""
    cases = document.cases
    lines = implausible_lines(cases)
    for case in cases:
        if case.outcome.status != "completed":
            lines.append(f"{case.id}: {case.outcome.status}: {case.outcome.reason}")
        if case.validation is not None and is_wrong(case):
            lines.append(f"{case.id}: wrong: {case.validation.reason}")
        elif case.validation is not None and (
            case.validation.status == "not checked" and case.validation.reference != "none"
        ):
            lines.append(f"{case.id}: not checked: {case.validation.reason}")
    lines += short_lines(document) + sampled_lines(document) + footnotes(cases)
    return [*lines, ""] if lines else []


MOST_SHORT = 5
"""Cases with fewer iterations than were asked for that have a line of their own."""


def short_lines(document: Document) -> list[str]:
    """Return a line for each case that has fewer iterations than were asked for, up to
    `MOST_SHORT`."""
    settings = document.run.settings
    short = [
        f"{case.id}: {SHORT}{taken}"
        for case in document.cases
        if (taken := shortfall(case, settings)) is not None
    ]
    more = len(short) - MOST_SHORT
    if more > 0:
        return [
            *short[:MOST_SHORT],
            f"and {count_text(more, 'case')} more with fewer iterations: -v lists each",
        ]
    return short


def sampled_lines(document: Document) -> list[str]:
    """Return a line on the samples that were taken, if their number followed from their time."""
    if document.run.settings.iterations is not None:
        return []
    rounds = [one for case in document.cases for one in case.rounds if one.series]
    counts = [max(map(len, one.series.values())) for one in rounds]
    if not counts:
        return []
    low, high = min(counts), max(counts)
    some = f"{low}" if low == high else f"{low} to {high}"
    ended = sum(case.stopped_by == "max time" for case in document.cases)
    why = f", or less by --max-time ({count_text(ended, 'case')})" if ended else ""
    line = f"{some} samples a round, by their time{why}; --iters N takes exactly N of each case"
    return [_wrapped(line)]


def totals(document: Document) -> str:
    """Return one line with the number of cases by outcome, and what their outputs were compared
    with."""
    counts: dict[str, int] = {}
    references: dict[str, Counter[str]] = {}
    for case in document.cases:
        counts[case.outcome.status] = counts.get(case.outcome.status, 0) + 1
        status = "none" if case.validation is None else case.validation.status
        if status != "not checked" and case.outcome.status == "completed":
            name = f"validation {status}"
            counts[name] = counts.get(name, 0) + 1
            if case.validation is not None:
                references.setdefault(name, Counter())[one_line(case.validation.reference)] += 1
    implausible = sum(case.implausible is not None for case in document.cases)
    if implausible:
        counts["implausible"] = implausible
    parts = ", ".join(
        f"{count} {name}{_against(references.get(name, Counter()))}"
        for name, count in counts.items()
    )
    return f"{count_text(len(document.cases), 'case')}: {parts}" if parts else "no cases"


def _against(references: Counter[str]) -> str:
    """Return `` against NAME``, or with several references the number of cases of each."""
    if len(references) < 2:
        return "".join(f" against {name}" for name in references)
    return f" ({', '.join(f'{n} against {name}' for name, n in references.most_common())})"


STATISTICS = ("min", "p5", "median", "p90", "p95", "p99", "max", "mean", "std", "mad")
"""Statistics of all samples of a series, in the order of the block."""


def details(document: Document) -> str:
    """Return the full block of every case's statistics."""
    blocks, own = [], own_numbers(document)
    for case in document.cases:
        lines = [case.id, "-" * min(80, len(case.id))]
        for name, summary in case.summary.items():
            values = ", ".join(f"{key} {time_text(getattr(summary, key))}" for key in STATISTICS)
            text, time = f"{summary.count} samples, pooled: {values}", case_time(case, name)
            if time is not None:
                ends = f"95% {time_text(time.low_ns)} to {time_text(time.high_ns)}"
                text = f"time {time_text(time.ns)}, {ends}; {text}"
            lines.append(_wrapped(f"{name.removesuffix('_ns')}: {text}"))
        tflops, gbps = rates(case.work, time.ns) if (time := case_time(case)) else (None, None)
        if gbps is not None:
            lines.append(f"rates: {rate_text(tflops)} TFLOP/s, {rate_text(gbps)} GB/s")
        if case.init:
            medians = {
                name: int(values[0])
                if name in PAID_ONCE
                else sorted(values.tolist())[len(values) // 2]
                for name, values in case.init.items()
            }
            parts = ", ".join(f"{n.removesuffix('_ns')} {time_text(v)}" for n, v in medians.items())
            lines.append(_wrapped(f"init {time_text(init_total_ns(case))}: {parts}"))
        if case.memory is not None:
            memory = case.memory
            sizes = {
                "peak": memory.peak_bytes,
                "workspace": memory.workspace_bytes,
                "buffer": memory.buffer_bytes,
            }
            parts = ", ".join(f"{name} {size_text(size)}" for name, size in sizes.items())
            lines.append(f"memory: {parts}")
        lines += [f"{name}: {own_text(case, name)}" for name in own]
        lines += [f"{key}: {value}" for key, value in case.plan.items()]
        lines += _kernel_lines(case)
        lines += _validation_lines(case.validation)
        if case.implausible is not None:
            lines.append(f"implausible: {case.implausible}")
        lines += [f"note: {note}" for note in case.notes]
        if case.stopped_by is not None:
            lines.append(f"stopped by: {case.stopped_by}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _kernel_lines(case: Case) -> Iterator[str]:
    """Yield libraries, launches and counters of the kernels that were traced."""
    shares = library_shares(case.kernels)
    if shares:
        parts = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        yield f"time in kernels of libraries: {parts}"
    for kernel in case.kernels:
        name = one_line(kernel.name)
        if kernel.launch is not None:
            yield _wrapped(f"kernel {name}: {launch_text(kernel.launch)}")
        counts = ", ".join(f"{key} {value:g}" for key, value in kernel.counters.items())
        if counts:
            yield _wrapped(f"counters of {name}: {counts}")


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
            + ("" if output.matched_ratio is None else f", {output.matched_ratio:.2%} right")
            + ("" if output.cosine is None else f", cosine {output.cosine:.6g}")
        )
        lines += [
            f"    at {list(m.index)}: {_real(m.actual)}, expected {_real(m.expected)}"
            for m in output.worst
        ]
    return lines


def _real(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def side_by_side(document: Document) -> str:
    """Return both engines of an A/B run in one row for each graph, with the change from A to B as
    in `bench-compare`: B's time against A's."""
    first, second = (engine.key for engine in document.engines)
    by_graph: dict[str, dict[str, Case]] = {}
    for case in implausible_first(document).cases:
        by_graph.setdefault(case.graph.path, {})[case.engine] = case
    pairs = [
        (one[first], one[second]) for one in by_graph.values() if {first, second} <= one.keys()
    ]
    rows = []
    for a, b in pairs:
        series = main_series(a.summary)
        value = interval = "–"
        found = None
        if is_wrong(a) or is_wrong(b):
            value = WRONG
        elif are_unlike(a, b):
            value = UNLIKE
        elif series is not None and series in b.summary:
            found = change(a, b, series)
            value, interval = change_cells(found)
        times = (None, None) if found is None else (found.base_ns, found.other_ns)
        states = [_state(case, ns) for case, ns in zip((a, b), times, strict=True)]
        validation = validation_text(b.validation, b.implausible)
        rows.append([one_line(a.graph.name), *states, value, interval, validation])
    by_a = all(compares_with_a(a) for a, _ in pairs)
    last = "B against A" if by_a else "validation of B"
    headers = ("graph", "A", "B", "change", "95 % CI", last)
    align = ("left", "right", "right", "right", "right", "left")
    text = _tabulate(_fitted(rows, headers), headers, align)
    legend = f"A = {first}\nB = {second}; change: the time of B against that of A"
    unlike = [f"{UNLIKE}: {UNLIKE_MEANS}", ""] if any(row[3] == UNLIKE for row in rows) else []
    return "\n".join([legend, "", text, "", *unlike, *_endings(document), totals(document)])


def change_cells(found: Change | None) -> tuple[str, str]:
    """Return a change and its interval, as the tables of `bench-compare` have them."""
    if found is None:
        return "–", "–"
    low, high = (None if end is None else math.exp(end) for end in (found.low, found.high))
    ratio = math.exp(found.log)
    return "" if is_too_noisy(low, high) else change_text(ratio), margin_text(ratio, low, high)


def _state(case: Case, pair_ns: float | None) -> str:
    """Return the time of a side in its pair, otherwise its own; without a time its outcome."""
    time = case_time(case)
    if time is None:
        return case.outcome.status
    return marked(time_text(time.ns if pair_ns is None else pair_ns), case)
