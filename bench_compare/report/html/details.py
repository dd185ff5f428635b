"""What the panel of a case shows, packed in blocks that the page opens when asked.

A block is the zlib-compressed JSON of some neighbouring cases: a reader opens a few of thousands,
so the page stays small and quick to open.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import orjson
from bench_schema.document import SERIES

from bench_compare.report.html.index import short
from bench_compare.report.html.sampling import budget, reduced
from bench_compare.view import NEWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Case, Outcome, Round, Samples, Telemetry, Validation

    from bench_compare.model import CaseComparison, CaseSide, Comparison, Detail, MetricComparison

CHUNK = 32
"""Cases in a block."""
LEVEL = 3
"""Of zlib: level 6 takes three times as long for 7 % less."""
FEW_CASES = 1_000
"""Up to here the page holds every series, from there on the two most telling of each side."""
LONGEST_TEXT = 2_000
WORST = 8
"""Mismatches shown for an output."""

_RANK = {verdict: place for place, verdict in enumerate(NEWS)}


def blocks(comparison: Comparison) -> list[str]:
    """Base64 texts, one for each `CHUNK` cases in the order of the comparison."""
    metrics = list(comparison.metrics)
    most = len(SERIES) if len(comparison.cases) <= FEW_CASES else 2
    kept = [_series(case, most) for case in comparison.cases]
    plan = budget(sum(len(sides) for case in kept for sides in case.values()))
    flat = [rounds for case in kept for sides in case.values() for rounds in sides.values()]
    displays = iter(reduced(flat, plan))
    cases = [
        _case(
            case,
            metrics,
            {name: {str(side): next(displays) for side in sides} for name, sides in series.items()},
        )
        for case, series in zip(comparison.cases, kept, strict=True)
    ]
    return [_packed(cases[start : start + CHUNK]) for start in range(0, len(cases), CHUNK)]


def _packed(cases: Sequence[dict[str, Any]]) -> str:
    text = orjson.dumps(cases, option=orjson.OPT_SERIALIZE_NUMPY)
    return base64.b64encode(zlib.compress(text, LEVEL)).decode("ascii")


def _series(case: CaseComparison, most: int) -> dict[str, dict[int, list[Samples]]]:
    """Rounds of each kept series, by its name and by side (0 base, 1 other)."""
    found: dict[str, dict[int, list[Samples]]] = {}
    for name in SERIES:
        sides = {place: _rounds(side, name) for place, side in enumerate((case.base, case.other))}
        known = {place: rounds for place, rounds in sides.items() if rounds}
        if known and len(found) < most:
            found[name] = known
    return found


def _rounds(side: CaseSide | None, name: str) -> list[Samples]:
    if side is None:
        return []
    found = (one.series.get(name) for case in side.cases for one in case.rounds)
    return [samples for samples in found if samples is not None and len(samples)]


def _case(
    case: CaseComparison, metrics: Sequence[str], series: dict[str, dict[int, dict[str, Any]]]
) -> dict[str, Any]:
    return {
        "reason": case.reason,
        "fingerprint": case.fingerprint,
        "metrics": [
            [metrics.index(name), *_metric(m)]
            for name, m in case.metrics.items()
            if m.base is not None or m.other is not None
        ],
        "notes": [[note.kind, note.side, note.text] for note in case.notes],
        "detail": _detail(case.detail),
        "series": series,
        "sides": [_side(case.base), _side(case.other)],
    }


def _metric(m: MetricComparison) -> list[Any]:
    numbers = [short(v) for v in (m.base, m.other, m.ratio, m.ci_low, m.ci_high, m.q)]
    counts = [m.base_rounds, m.other_rounds, m.unit, int(m.provisional), m.rounds_needed]
    return [*numbers, _RANK[m.verdict], m.reason, short(m.threshold_ratio), *counts]


def _detail(detail: Detail | None) -> dict[str, Any] | None:
    if detail is None:
        return None
    return {
        "metric": detail.metric,
        "ratio": short(detail.median_ratio),
        "low": short(detail.bootstrap_low),
        "high": short(detail.bootstrap_high),
        "shift": short(detail.shift_ns),
        "quantiles": [[percent, short(r)] for percent, r in sorted(detail.quantile_ratios.items())],
    }


def _side(side: CaseSide | None) -> dict[str, Any] | None:
    """Facts of one side; empty ones are left out, the page asks for what is there."""
    if side is None:
        return None
    last = side.cases[-1]
    facts: dict[str, Any] = {
        "name": side.name,
        "engine": side.engine,
        "path": last.graph.path,
        "files": side.sources,
        "outcome": _outcome(last.outcome),
        "rounds": [_round(one) for case in side.cases for one in case.rounds],
        "init": _init(side.cases),
        "validation": _validation(_checked(side.cases)),
        "work": [last.work.flops, last.work.moved_bytes, short(last.work.intensity)],
        "plan": dict(last.plan),
        "notes": last.notes,
        "stopped": last.stopped_by,
        "kernels": [[k.name[:LONGEST_TEXT], k.count, short(k.median_ns)] for k in last.kernels],
    }
    if last.achieved is not None:
        rates = (last.achieved.tflops, last.achieved.gbps, last.achieved.ceiling_share)
        facts["achieved"] = [last.achieved.series, *map(short, rates)]
    if last.memory is not None:
        memory = last.memory
        facts["memory"] = [memory.peak_bytes, memory.workspace_bytes, memory.buffer_bytes]
    return {name: value for name, value in facts.items() if value not in (None, {}, [], ())}


def _outcome(outcome: Outcome) -> list[Any]:
    detail = None if outcome.detail is None else outcome.detail[-LONGEST_TEXT:]
    facts = [outcome.status, outcome.reason, outcome.phase, detail]
    return facts if outcome.status != "completed" else facts[:1]


def _round(one: Round) -> list[Any]:
    """Warm-up cut, clock before and after, power, temperature, throttling, notes of a round."""
    cut = max(one.cut.values(), default=0)
    before, after = one.telemetry_before, one.telemetry_after
    facts = [cut, _clock(before), _clock(after), *_power(after), int(bool(one.not_warm)), one.notes]
    while facts and facts[-1] in (None, 0, (), []):
        facts.pop()
    return facts


def _clock(telemetry: Telemetry | None) -> float | None:
    """The measured clock where there is one, else what the device reports, MHz."""
    if telemetry is None:
        return None
    probed = telemetry.probed_clock_mhz
    return short(telemetry.sm_clock_mhz if probed is None else probed)


def _power(telemetry: Telemetry | None) -> list[Any]:
    if telemetry is None:
        return [None, None, ()]
    return [short(telemetry.power_w), short(telemetry.temperature_c), telemetry.throttle]


def _init(cases: Sequence[Case]) -> dict[str, float]:
    """Median of each phase over the rounds of all documents, nanoseconds."""
    values: dict[str, list[int]] = {}
    for case in cases:
        for phase, samples in case.init.items():
            values.setdefault(phase, []).extend(samples.tolist())
    return {phase: sorted(found)[(len(found) - 1) // 2] for phase, found in values.items() if found}


def _checked(cases: Sequence[Case]) -> Validation | None:
    """The validation to show: the first failed one, else the last."""
    known = [case.validation for case in cases if case.validation is not None]
    failed = (one for one in known if one.status == "failed")
    return next(failed, known[-1] if known else None)


def _validation(validation: Validation | None) -> dict[str, Any] | None:
    if validation is None:
        return None
    return {
        "status": validation.status,
        "reference": validation.reference,
        "reason": validation.reason,
        "checked": validation.iterations_checked,
        "wrong": validation.iterations_mismatched,
        "deterministic": validation.deterministic,
        "outputs": [
            [
                *(
                    o.name,
                    o.data_type,
                    o.elements,
                    o.mismatched,
                    *map(_real, (o.max_abs, o.max_rel)),
                ),
                *(_real(o.relative_l2), o.rtol, o.atol, o.tolerance_source),
                [[list(w.index), _real(w.expected), _real(w.actual)] for w in o.worst[:WORST]],
            ]
            for o in validation.outputs
        ],
    }


def _real(value: float | str) -> float | str | None:
    return value if isinstance(value, str) else short(value)
