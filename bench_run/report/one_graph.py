"""The answer on stdout for one graph: all its statistics, and for one A/B pair both sides."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench_schema.document import INIT_PHASES
from bench_schema.estimate import case_time, change, main_series
from bench_schema.merge import LIMITS, shortfall
from bench_schema.report import model as m
from bench_schema.report.text import body_text
from bench_schema.summary import init_total_ns, iterations_of, rates
from bench_schema.units import PERCENT_BELOW, count_text, factor_text, is_too_noisy

from bench_run.report import labels
from bench_run.report.console import VIEW, compares_with_a
from bench_run.text import NOISY_MEANS, percent_text, rate_text, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Case, Document, OutputValidation
    from bench_schema.estimate import Change

SERIES = {"device_ns": "device", "e2e_ns": "end to end", "submit_ns": "submit"}
STATISTICS = {
    "Median": "median",
    "Mean": "mean",
    "Std Dev": "std",
    "Min": "min",
    "Max": "max",
    "P95": "p95",
    "P99": "p99",
}
"""Statistics of all samples of a series, in the words of dnn-benchmarking."""
FIRST = ("first_run_ns",)
INITIALIZATION = {
    "Initialization": FIRST,
    "  Library import": tuple(name for name in INIT_PHASES if name != "import_ns"),
    "  Graph build time": (*FIRST, "import_ns"),
    "Total with initialization": (),
}
"""Rows on what comes before the first sample, and the phases that each leaves out."""
VALIDATION = {"passed": "PASSED", "failed": "FAILED", "not checked": "SKIPPED"}


def is_one_graph(document: Document, paired: bool) -> bool:
    """Return True if the document has one graph only, on one engine or on a pair."""
    return len(document.cases) == 1 + paired and all(
        case.outcome.status == "completed" and case.implausible is None and not case.variant
        for case in document.cases
    )


def one_graph(document: Document) -> str:
    """Return the report on the only case of a document."""
    (case,) = document.cases
    names = [name for name in SERIES if name in case.summary]
    table = _table(
        {SERIES[name]: case.summary[name] for name in names},
        {title: [init_total_ns(case, without)] for title, without in INITIALIZATION.items()},
    )
    own = [f"{name}: {labels.own_text(case, name)}" for name in labels.own_numbers(document)]
    lines = (*_time(case), *own, *_validation("Validation", case), *labels.footnotes([case]))
    return _told(document, [case], table, lines)


def one_pair(document: Document) -> str:
    """Return the report on two cases of one graph, A and B."""
    a, b = document.cases
    if a.engine != document.engines[0].key:
        a, b = b, a
    name = main_series(a.summary)
    name = name if name is not None and name in b.summary else "e2e_ns"
    found = None if labels.are_unlike(a, b) else change(a, b, name)
    rows: dict[str, list[float | None]] = {
        title: [init_total_ns(case, without) for case in (a, b)]
        for title, without in INITIALIZATION.items()
    }
    if found is not None:
        rows["Time"] = [found.base_ns, found.other_ns]
    table = _table({"A": a.summary[name], "B": b.summary[name]}, rows)
    wrong = [side for side, case in (("A", a), ("B", b)) if labels.is_wrong(case)]
    none = f"none: outputs of {' and '.join(wrong)} are wrong"
    lines = [f"Speedup:   {none if wrong else _speedup(a, b, found)}"]
    if compares_with_a(a):
        lines += _validation("Accuracy comparison", b)
    else:
        lines += [*_validation("Validation of A", a), *_validation("Validation of B", b)]
    for own in labels.own_numbers(document):
        lines.append(f"{own}: {labels.own_text(a, own)} and {labels.own_text(b, own)}")
    return _told(document, [a, b], table, [*lines, *labels.footnotes([a, b])])


def _told(document: Document, cases: Sequence[Case], table: m.Table, lines: Sequence[str]) -> str:
    name, path = cases[0].graph.name, cases[0].graph.path
    facts = (("Graph", path), *_engines(document, cases), *_effort(document))
    return (
        body_text(m.Body(headline=name, facts=facts, tables=(table,)), VIEW)
        + "\n\n"
        + "\n".join(lines)
    )


def _table(summaries: dict[str, object], more: Mapping[str, Sequence[float | None]]) -> m.Table:
    """Return statistics by series or side, and below them rows of further times."""
    rows = [
        (title, [getattr(summary, name) for summary in summaries.values()])
        for title, name in STATISTICS.items()
    ]
    empty = [None] * len(summaries)
    rows += [(title, [*values, *empty][: len(summaries)]) for title, values in more.items()]
    columns = (m.Column("", head=""), *(m.Column(title, "right") for title in summaries))
    return m.Table(
        columns,
        tuple(
            m.ReportRow((title, *("" if ns is None else time_text(ns) for ns in values)))
            for title, values in rows
        ),
    )


def _engines(document: Document, cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    engines = {engine.key: engine for engine in document.engines}
    for title, case in zip(("Engine",) if len(cases) == 1 else ("A", "B"), cases, strict=True):
        engine = engines[case.engine]
        yield title, f"{engine.key} on {engine.device_kind}{labels.threads_text(engine, document)}"


def _effort(document: Document) -> Iterator[tuple[str, str]]:
    """Yield warm-up and iterations, of the case that has most."""
    case = max(document.cases, key=lambda case: len(case.rounds))
    settings, count = document.run.settings, iterations_of(case)
    short = shortfall(case, settings)
    taken = count_text(count, "iteration") if short is None else f"{short},"
    limit = case.stopped_by if case.stopped_by in LIMITS else "--iters N takes exactly N"
    why = f" ({limit})" if settings.iterations is None else ""
    counted = max((summary.count for summary in case.summary.values()), default=count)
    if counted < count:
        why += f"; {count - counted} left out as warm-up"
    yield "Warmup", f"{count_text(settings.warmup, 'iteration')} in each round"
    yield "Benchmark", f"{taken} in {count_text(len(case.rounds), 'round')}{why}"


def _time(case: Case) -> Iterator[str]:
    time = case_time(case)
    if time is None:
        return
    parts = [labels.marked(time_text(time.ns), case)]
    if time.half_width_ratio is not None:
        parts[0] += f" ± {percent_text(time.half_width_ratio)}"
    tflops, gbps = rates(case.work, time.ns)
    if tflops is not None:
        unit = "TFLOP/s" if tflops >= 1 else "GFLOP/s"
        parts.append(f"{rate_text(tflops if tflops >= 1 else 1e3 * tflops)} {unit}")
    if gbps is not None:
        parts.append(f"{rate_text(gbps)} GB/s")
    yield f"Time:      {', '.join(parts)}"
    if (time.half_width_ratio or 0) > 1:
        yield NOISY_MEANS


def _validation(title: str, case: Case) -> Iterator[str]:
    """Yield the result of the validation with its tolerances, or the reason for none."""
    check = case.validation
    if check is None:
        yield f"{title}: SKIPPED (no validation was asked for)"
        return
    head = f"{title}: {VALIDATION[check.status]}"
    if check.status == "not checked":
        yield f"{head} ({check.reason or 'no reference'})"
        return
    allowed = {_allowed(output) for output in check.outputs}
    given = f" ({min(allowed)})" if len(allowed) == 1 else ""
    yield f"{head} against {check.reference}{given}"
    if check.status == "failed":
        yield f"{case.id}: wrong: {check.reason}"


def _allowed(output: OutputValidation) -> str:
    """Return what held the output to what is expected."""
    limits = f"rtol={output.rtol:.3g}, atol={output.atol:.3g}"
    if output.cosine is not None:
        return f"cosine {output.cosine:.6g}"
    share = output.matched_ratio
    return limits if share is None else f"{share:.2%} within {limits}"


def _speedup(a: Case, b: Case, found: Change | None) -> str:
    """Return a sentence on the time of B against that of A."""
    if labels.are_unlike(a, b):
        return f"none: {labels.UNLIKE_MEANS}"
    return "none: too few samples" if found is None else speedup_text(found)


def speedup_text(found: Change) -> str:
    """Return the speed-up as text, as in ``B is 6.3 % faster (95 % CI 5.1 % to 7.5 %)``: by that
    share of A's time; from a factor of 1.1 on ``2.4×``."""
    ratio = math.exp(found.log)
    if found.low is None or found.high is None:
        return f"B is {_side(ratio)} (too few rounds for an interval)"
    low, high = math.exp(found.low), math.exp(found.high)
    if is_too_noisy(low, high):
        return "unknown: too noisy; close other programs, or measure more with --rounds 20"
    if low <= 1 <= high:
        return f"no difference shown (95 % CI: {_around_one(low, high)})"
    near, far = sorted((low, high), key=lambda end: abs(math.log(end)))
    as_factor = max(ratio, 1 / ratio, far, 1 / far) >= PERCENT_BELOW
    ends = f"{_amount(near, as_factor)} to {_amount(far, as_factor)}"
    side = "faster" if ratio < 1 else "slower"
    return f"B is {_amount(ratio, as_factor)} {side} (95 % CI {ends})"


def _around_one(low: float, high: float) -> str:
    """Return an interval with 1 in it as text; an end that rounds to no change is ``0 %``."""
    ends = ["0 %" if _amount(end, False) == "0.0 %" else _side(end) for end in (low, high)]
    return "within 0.05 % either way" if ends == ["0 %"] * 2 else f"from {ends[0]} to {ends[1]}"


def _side(ratio: float) -> str:
    amount = _amount(ratio, max(ratio, 1 / ratio) >= PERCENT_BELOW)
    return f"{amount} {'faster' if ratio < 1 else 'slower'}"


def _amount(ratio: float, as_factor: bool) -> str:
    """Return a share of A's time, or how many times."""
    return factor_text(ratio) if as_factor else f"{abs(100 * (ratio - 1)):.1f} %"
