"""The answer on stdout as a report: a row for each case, more with ``-v``, both sides with
``--a`` and ``--b``."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from bench_schema.document import GOLDEN, PAID_ONCE
from bench_schema.estimate import case_time, change, main_series
from bench_schema.launches import launch_text, library_shares
from bench_schema.merge import SHORT, shortfall
from bench_schema.report import model as m
from bench_schema.report.text import body_text
from bench_schema.summary import init_total_ns, rates
from bench_schema.units import NOTHING, change_text, count_text, is_too_noisy, margin_text

from bench_run.report import labels
from bench_run.text import NOISY_MEANS, one_line, percent_text, rate_text, size_text, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Case, Document, Validation
    from bench_schema.estimate import Change

VIEW = m.View(width=80)


def table(document: Document) -> str:
    """Return a table with a row for each case; a case without samples shows its outcome, and why
    below."""
    shown = labels.implausible_first(document)
    engine = document.engines[0]
    on = f"{engine.key} on {engine.device_kind}{labels.threads_text(engine, document)}"
    times = [case_time(case) for case in document.cases]
    noisy = any(time is not None and (time.half_width_ratio or 0) > 1 for time in times)
    body = m.Body(
        facts=() if len(document.engines) > 1 else (("engine", on),),
        tables=(cases_table(shown), *_own_table(shown)),
        closing=(NOISY_MEANS,) if noisy else (),
    )
    return _told(body, shown)


def _told(body: m.Body, document: Document, *more: str) -> str:
    """Return the report, then what became of cases, then the line of totals."""
    endings = [*more, *_endings(document)]
    parts = (body_text(body, VIEW), "\n".join(endings), totals(document))
    return "\n\n".join(part for part in parts if part)


def cases_table(document: Document, *, whole: bool = False) -> m.Table:
    """Return the table of cases; `whole`: with columns for outcome and peak memory."""
    several, plans = len(document.engines) > 1 or whole, labels.plan_labels(document)
    best = best_times(document) if several and not whole else {}
    timed = [(case, case_time(case)) for case in document.cases]
    fastest = [rates(case.work, time.ns)[0] or 0.0 for case, time in timed if time is not None]
    scale, unit = (1.0, "TFLOP/s") if whole or max(fastest, default=0.0) >= 1 else (1e3, "GFLOP/s")
    columns = (
        m.Column("graph", least=16),
        *([m.Column("engine", least=8)] if several else ()),
        *([m.Column("plan", least=12)] if any(plans) else ()),
        *([m.Column("outcome")] if whole else ()),
        *(m.Column(head, "right") for head in ("time", "±", unit)),
        m.Column("vs best" if best else "GB/s", "right"),
        *([m.Column("peak", "right")] if whole else ()),
        m.Column("validation"),
    )
    rows = []
    for (case, time), plan in zip(timed, plans, strict=True):
        numbers = ["–" if whole else case.outcome.status, "", "", ""]
        if time is not None:
            tflops, gbps = rates(case.work, time.ns)
            numbers = [
                labels.marked(time_text(time.ns), case),
                percent_text(time.half_width_ratio),
                rate_text(None if tflops is None else scale * tflops),
                against_best(case, best) if best else rate_text(gbps),
            ]
        peak = None if case.memory is None else case.memory.peak_bytes
        checked = validation_text(case.validation, case.implausible)
        cells: tuple[m.Cell, ...] = (
            m.Name(case.graph.name),
            *([m.Name(case.engine)] if several else ()),
            *([m.Name(plan)] if any(plans) else ()),
            *([case.outcome.status] if whole else ()),
            *numbers,
            *([size_text(peak)] if whole else ()),
            checked if time is not None or whole else "",
        )
        rows.append(m.ReportRow(cells, name=one_line(case.graph.name)))
    return m.Table(columns, tuple(rows), stacked="{time} {validation}")


def _own_table(document: Document) -> Iterator[m.Table]:
    """Yield a table of the numbers of own observers: the mean over the rounds of each case."""
    names = labels.own_numbers(document)
    rows = tuple(
        m.ReportRow(
            (m.Name(case.id), *(labels.own_text(case, name) for name in names)), name=case.id
        )
        for case in document.cases
    )
    columns = (m.Column("case", least=16), *(m.Column(name, "right") for name in names))
    listed = ", ".join(f"{name} {{{name.replace(' ', '_')}}}" for name in names)
    if names:
        yield m.Table(columns, rows, stacked=listed)


def best_times(document: Document) -> dict[str, float]:
    """Return the shortest time of each graph by its path, ns; without wrong and implausible
    cases."""
    best: dict[str, float] = {}
    for case in document.cases:
        time = case_time(case)
        if time is not None and not labels.is_wrong(case) and case.implausible is None:
            best[case.graph.path] = min(time.ns, best.get(case.graph.path, math.inf))
    return best


def against_best(case: Case, best: Mapping[str, float]) -> str:
    """Return the time of a case in units of the shortest one of its graph, as in ``1.31×``."""
    time, least = case_time(case), best.get(case.graph.path)
    if time is None or least is None or labels.is_wrong(case) or case.implausible is not None:
        return "–"
    return "best" if time.ns == least else f"{time.ns / least:.2f}×"


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
    lines = labels.implausible_lines(cases)
    for case in cases:
        check = case.validation
        if case.outcome.status != "completed":
            lines.append(f"{case.id}: {case.outcome.status}: {case.outcome.reason}")
        if check is not None and labels.is_wrong(case):
            lines.append(f"{case.id}: wrong: {check.reason}")
        elif check is not None and (check.status, check.reference != "none") == (
            "not checked",
            True,
        ):
            lines.append(f"{case.id}: not checked: {check.reason}")
    return lines + short_lines(document) + sampled_lines(document) + labels.footnotes(cases)


MOST_SHORT = 5
"""Cases with fewer iterations than were asked for that have a line of their own."""


def short_lines(document: Document) -> list[str]:
    """Return a line for each case that has fewer iterations than were asked for, up to
    `MOST_SHORT`."""
    found = [(case.id, shortfall(case, document.run.settings)) for case in document.cases]
    short = [f"{name}: {SHORT}{taken}" for name, taken in found if taken is not None]
    more = len(short) - MOST_SHORT
    left = f"and {count_text(more, 'case')} more with fewer iterations: -v lists each"
    return [*short[:MOST_SHORT], *([left] if more > 0 else [])]


def sampled_lines(document: Document) -> list[str]:
    """Return a line on the samples that were taken, if their number followed from their time."""
    rounds = [one for case in document.cases for one in case.rounds if one.series]
    if document.run.settings.iterations is not None or not rounds:
        return []
    counts = [max(map(len, one.series.values())) for one in rounds]
    low, high = min(counts), max(counts)
    some = f"{low}" if low == high else f"{low} to {high}"
    ended = sum(case.stopped_by == "max time" for case in document.cases)
    why = f", or less by --max-time ({count_text(ended, 'case')})" if ended else ""
    line = f"{some} samples a round, by their time{why}; --iters N takes exactly N of each case"
    return textwrap.wrap(line, VIEW.width, subsequent_indent="    ", break_on_hyphens=False)


def totals(document: Document) -> str:
    """Return one line with the number of cases by outcome, and what their outputs were compared
    with."""
    counts: Counter[str] = Counter()
    references: dict[str, Counter[str]] = {}
    for case in document.cases:
        counts[case.outcome.status] += 1
        check = case.validation
        ended = case.outcome.status == "completed"
        if ended and check is not None and check.status != "not checked":
            name = f"validation {check.status}"
            counts[name] += 1
            references.setdefault(name, Counter())[one_line(check.reference)] += 1
    implausible = sum(case.implausible is not None for case in document.cases)
    counts.update({"implausible": implausible} if implausible else {})
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
    own = labels.own_numbers(document)
    rows = [
        m.ReportRow(
            (),
            entry=(
                case.id,
                *_detail_lines(case),
                *(f"{name}: {labels.own_text(case, name)}" for name in own),
            ),
        )
        for case in document.cases
    ]
    return body_text(m.Body(tables=(m.Table((), tuple(rows), entries=True),)), VIEW) + "\n"


def _detail_lines(case: Case) -> Iterator[str]:
    for name, summary in case.summary.items():
        values = ", ".join(f"{key} {time_text(getattr(summary, key))}" for key in STATISTICS)
        text, time = f"{summary.count} samples, pooled: {values}", case_time(case, name)
        if time is not None:
            ends = f"95% {time_text(time.low_ns)} to {time_text(time.high_ns)}"
            text = f"time {time_text(time.ns)}, {ends}; {text}"
        yield f"{name.removesuffix('_ns')}: {text}"
    tflops, gbps = rates(case.work, time.ns) if (time := case_time(case)) else (None, None)
    if gbps is not None:
        yield f"rates: {rate_text(tflops)} TFLOP/s, {rate_text(gbps)} GB/s"
    if case.init:
        once = {name: int(v[0]) for name, v in case.init.items() if name in PAID_ONCE}
        middles = {n: once.get(n, sorted(v.tolist())[len(v) // 2]) for n, v in case.init.items()}
        parts = ", ".join(f"{n.removesuffix('_ns')} {time_text(v)}" for n, v in middles.items())
        yield f"init {time_text(init_total_ns(case))}: {parts}"
    if case.memory is not None:
        held = case.memory
        sizes = (held.peak_bytes, held.workspace_bytes, held.buffer_bytes)
        names = ("peak", "workspace", "buffer")
        yield "memory: " + ", ".join(
            f"{name} {size_text(size)}" for name, size in zip(names, sizes, strict=True)
        )
    yield from (f"{key}: {value}" for key, value in case.plan.items())
    yield from _kernel_lines(case)
    yield from _validation_lines(case.validation)
    if case.implausible is not None:
        yield f"implausible: {case.implausible}"
    yield from (f"note: {note}" for note in case.notes)
    if case.stopped_by is not None:
        yield f"stopped by: {case.stopped_by}"


def _kernel_lines(case: Case) -> Iterator[str]:
    """Yield libraries, launches and counters of the kernels that were traced."""
    shares = library_shares(case.kernels)
    if shares:
        parts = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        yield f"time in kernels of libraries: {parts}"
    for kernel in case.kernels:
        name = one_line(kernel.name)
        if kernel.launch is not None:
            yield f"kernel {name}: {launch_text(kernel.launch)}"
        counts = ", ".join(f"{key} {value:g}" for key, value in kernel.counters.items())
        if counts:
            yield f"counters of {name}: {counts}"


def _validation_lines(validation: Validation | None) -> Iterator[str]:
    if validation is None:
        return
    yield f"validation against {validation.reference}: {validation.status}"
    if validation.reason is not None:
        yield f"  {validation.reason}"
    for output in validation.outputs:
        yield (
            f"  {output.name or output.uid}: {output.mismatched} of {output.elements} wrong, "
            f"max abs {_real(output.max_abs)}, max rel {_real(output.max_rel)}, "
            f"L2 {_real(output.relative_l2)} "
            f"(rtol {output.rtol:.3g}, atol {output.atol:.3g}: {output.tolerance_source})"
            + ("" if output.matched_ratio is None else f", {output.matched_ratio:.2%} right")
            + ("" if output.cosine is None else f", cosine {output.cosine:.6g}")
        )
        for worst in output.worst:
            expected = _real(worst.expected)
            yield f"    at {[*worst.index]}: {_real(worst.actual)}, expected {expected}"


def _real(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def compares_with_a(a: Case) -> bool:
    """Return True if A has no reference, so that the outputs of B are compared with those of A."""
    return a.validation is None or a.validation.status == "not checked"


def side_by_side(document: Document) -> str:
    """Return both engines of an A/B run in one row for each graph, with the change from A to B as
    in `bench-compare`: B's time against A's."""
    first, second = (engine.key for engine in document.engines)
    by_graph: dict[str, dict[str, Case]] = {}
    for case in labels.implausible_first(document).cases:
        by_graph.setdefault(case.graph.path, {})[case.engine] = case
    pairs = [(p[first], p[second]) for p in by_graph.values() if {first, second} <= p.keys()]
    rows = []
    for a, b in pairs:
        found, cells = compared(a, b)
        times = (None, None) if found is None else (found.base_ns, found.other_ns)
        states = [_state(case, ns) for case, ns in zip((a, b), times, strict=True)]
        checked = validation_text(b.validation, b.implausible)
        rows.append(
            m.ReportRow((m.Name(a.graph.name), *states, *cells, checked), name=a.graph.name)
        )
    by_a = all(compares_with_a(a) for a, _ in pairs)
    heads = ("A", "B", "change", "95 % CI")
    columns = (
        m.Column("graph", least=12),
        *(m.Column(head, "right") for head in heads),
        m.Column("B against A" if by_a else "outputs of B"),
    )
    legend = (("A", first), ("B", f"{second}; change: the time of B against that of A"))
    shown = m.Table(columns, tuple(rows), stacked="A {A}, B {B}: {change} {95_percent_CI}")
    return _told(m.Body(facts=legend, tables=(shown,)), document, *unlike_lines(rows))


WORDS = (labels.WRONG, labels.UNLIKE)


def unlike_lines(rows: Sequence[m.ReportRow]) -> list[str]:
    """Return the meaning of a word that a table has."""
    is_there = any(labels.UNLIKE in row.cells for row in rows)
    return [f"{labels.UNLIKE}: {labels.UNLIKE_MEANS}"] if is_there else []


def compared(a: Case, b: Case) -> tuple[Change | None, tuple[str, str]]:
    """Return the change from A to B, and it and its interval as text: a word in place of a change
    that means nothing."""
    series = main_series(a.summary)
    found = change(a, b, series) if series is not None and series in b.summary else None
    if labels.is_wrong(a) or labels.is_wrong(b):
        return found, (labels.WRONG, "–")
    if labels.are_unlike(a, b):
        return found, (labels.UNLIKE, "–")
    return found, change_cells(found)


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
    return labels.marked(time_text(time.ns if pair_ns is None else pair_ns), case)


def oracle_table(document: Document, pairs: Sequence[tuple[str, str]]) -> str:
    """Return the gain of an engine's own search for a plan over its default plan: a row for each
    graph, engine and variant of which both sides have samples."""
    cases = {(c.graph.path, c.engine, tuple(sorted(c.variant.items()))): c for c in document.cases}
    rows = []
    for (path, key, variant), default in cases.items():
        for searched in (cases.get((path, second, variant)) for one, second in pairs if one == key):
            series = main_series(default.summary)
            if searched is None or series is None or series not in searched.summary:
                continue
            found, (word, _) = compared(default, searched)
            times = (None, None) if found is None else (found.base_ns, found.other_ns)
            both = zip((default, searched), times, strict=True)
            cells: tuple[m.Cell, ...] = (
                m.Name(default.graph.name),
                " ".join([default.engine, *default.variant.values()]),
                *(labels.marked(time_text(ns), case) for case, ns in both),
                word if found is None or word in WORDS else _left(found),
            )
            rows.append(m.ReportRow(cells, name=default.graph.name))
    if not rows:
        return "left on the table: no engine has both a default and a searched time"
    heads = ("default", "searched", "left on the table")
    columns = (
        m.Column("graph", least=12),
        m.Column("engine", least=12),
        *(m.Column(head, "right") for head in heads),
    )
    shown = body_text(m.Body(tables=(m.Table(columns, tuple(rows)),)), VIEW)
    ungated = any(str(cell).endswith(labels.UNGATED) for row in rows for cell in row.cells[2:4])
    notes = [f"{labels.UNGATED} {labels.UNGATED_MEANS}"] if ungated else []
    notes += unlike_lines(rows)
    return "\n".join([shown, *(["", *notes] if notes else [])])


def _left(found: Change) -> str:
    """Return the share of the default's time that the search saves, with its 95 % interval: ``12 %
    (9 to 15)``. Negative where the search made it slower."""
    if found.low is None or found.high is None:
        return f"{_saved(found.log)} %"
    if is_too_noisy(math.exp(found.low), math.exp(found.high)):
        return NOTHING
    return f"{_saved(found.log)} % ({_saved(found.high)} to {_saved(found.low)})"


def _saved(log_ratio: float) -> str:
    return f"{100 * (1 - math.exp(log_ratio)):.1f}".removesuffix(".0")
