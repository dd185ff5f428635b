"""What the panel of a case shows, packed in blocks that the page opens when asked.

A block is the zlib-compressed JSON of some neighbouring cases: a reader opens a few of thousands,
so the page stays small and quick to open.
"""

from __future__ import annotations

import base64
import itertools
import math
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import orjson
from bench_schema.document import PAID_ONCE, SERIES

from bench_compare.model import Verdict
from bench_compare.parallel import share_out
from bench_compare.report.html.front import floats, short
from bench_compare.report.html.sampling import Budget, Held, budget, reduced
from bench_compare.report.rows import NEWS
from bench_compare.report.why import EngineChanges, case_changes
from bench_compare.rounds.lazy import columns_of, facts, series_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_schema.document import Case, Outcome, Round, Samples, Summary, Telemetry, Validation

    from bench_compare.model import CaseComparison, CaseSide, Comparison, Detail, MetricComparison
    from bench_compare.report.html.front import Floats
    from bench_compare.report.why import Change

CHUNK = 32
"""Cases in a block."""
GROUP = 8 * CHUNK
"""Cases whose samples are reduced at once: what is packed is let go, so memory stays small."""
LEAST_SHARE = 1_000
"""Cases that are worth a process."""
THREADS = 2
LEVEL = 3
"""Of zlib: level 6 takes three times as long for 7 % less."""
SERIES_KEPT = ((1_000, len(SERIES)), (3_000, 2), (math.inf, 1))
"""Up to so many cases the page holds so many series of each, the one its verdict rests on first."""
LONGEST_TEXT = 2_000
WORST = 8
"""Mismatches shown for an output."""

_NONE = (None,) * 7
_ORDER = {gate: sorted(SERIES, key=lambda name: name != gate) for gate in (None, *SERIES)}
"""The series that a verdict rests on first."""
_RANK = {verdict: place for place, verdict in enumerate(NEWS)}

Series: TypeAlias = "dict[str, dict[str, Held]]"
"""Rounds by the name of the series, then by side: 0 base, 1 other."""
Display: TypeAlias = "dict[str, dict[str, dict[str, Any]]]"
"""The same, reduced for display."""


def blocks(comparison: Comparison) -> list[str]:
    """Base64 texts, one for each `CHUNK` cases in the order of the comparison."""
    cases = comparison.cases
    kept = next(number for most, number in SERIES_KEPT if len(cases) <= most)
    names = [_names(case) for case in cases]
    series = [_series(case, known[:kept]) for case, known in zip(cases, names, strict=True)]
    material = Material(
        comparison=comparison,
        series=series,
        left_out=[known[kept:] for known in names],
        plan=budget(sum(len(sides) for one in series for sides in one.values())),
        engines=EngineChanges(comparison),
    )
    return share_out(partial(_blocks_of, material), len(cases), GROUP, LEAST_SHARE)


@dataclass(frozen=True, eq=False)
class Material:
    """What the blocks of a page are made of; lists have an entry for each case."""

    comparison: Comparison
    series: Sequence[Series]
    left_out: Sequence[Sequence[str]]
    plan: Budget
    engines: EngineChanges


def _blocks_of(material: Material, cases: range) -> list[str]:
    # zlib leaves the interpreter to others while it works, so the next group is made meanwhile.
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(_packed, _texts(material, cases)))


def _packed(text: bytes) -> str:
    return base64.b64encode(zlib.compress(text, LEVEL)).decode("ascii")


def _texts(material: Material, cases: range) -> Iterator[bytes]:
    """JSON of each block of these cases."""
    comparison, engines = material.comparison, material.engines
    for start in range(cases.start, cases.stop, GROUP):
        here = slice(start, min(start + GROUP, cases.stop))
        group = comparison.cases[here]
        displays = _displays(material.series[here], material.plan)
        tables = _tables(group)
        left_out = material.left_out[here]
        for i in range(0, len(group), CHUNK):
            places = slice(i, i + CHUNK)
            shown = zip(
                group[places], displays[places], tables[places], left_out[places], strict=True
            )
            block = {
                "cases": [_case(*one, engines.of(one[0])) for one in shown],
                "metrics": _metrics(group[places], comparison.metrics),
            }
            yield orjson.dumps(block, option=orjson.OPT_SERIALIZE_NUMPY)


def _displays(series: Sequence[Series], plan: Budget) -> list[Display]:
    flat = [held for case in series for sides in case.values() for held in sides.values()]
    found = iter(reduced(flat, plan))
    return [
        {name: {side: next(found) for side in sides} for name, sides in case.items()}
        for case in series
    ]


def _names(case: CaseComparison) -> list[str]:
    """The series that the case has samples of, the one that the verdict rests on first."""
    sides = [side for side in (case.base, case.other) if side is not None]
    names = {name for side in sides for one in side.cases for name in facts(one.rounds).sampled}
    return [name for name in _ORDER[case.gate] if name in names]


def _series(case: CaseComparison, names: Sequence[str]) -> Series:
    """Of each series the rounds of both sides."""
    found: Series = {}
    for name in names:
        sides = {"0": _rounds(case.base, name), "1": _rounds(case.other, name)}
        found[name] = {place: held for place, held in sides.items() if held.rounds}
    return found


def _rounds(side: CaseSide | None, name: str) -> Held:
    rounds: list[Samples] = []
    cuts: list[int] = []
    documents: list[int] = []
    for case in () if side is None else side.cases:
        samples, told = series_of(case.rounds, name)
        rounds += samples
        cuts += [min(cut, one.size - 1) for one, cut in zip(samples, told, strict=True)]
        documents += [len(samples)] if len(samples) else []
    return Held(rounds, cuts, documents)


def _tables(cases: Sequence[CaseComparison]) -> list[tuple[Floats, Floats]]:
    """What `_round` tells of each round, a matrix for each side; where no device said anything,
    only the cut. Of many cases at once, since NumPy takes longer to begin than to do this."""
    sides = [side for pair in cases for side in (pair.base, pair.other)]
    rounds = [[] if side is None else [case.rounds for case in side.cases] for side in sides]
    sizes = [sum(map(len, some)) for some in rounds]
    table = _readings([one for some in rounds for one in some]).round(1)
    ends = itertools.accumulate(sizes)
    parts = [table[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    return list(zip(parts[::2], parts[1::2], strict=True))


def _readings(cases: Sequence[Sequence[Round]]) -> Floats:
    known = [lazy.readings for one in cases if (lazy := columns_of(one)) is not None]
    if known and len(known) == len(cases):
        told = any(some.any() for _, some in known)
        return floats(np.concatenate([table if told else table[:, :1] for table, _ in known]))
    every = [one for rounds in cases for one in rounds]
    quiet = all(one.telemetry_before is one.telemetry_after is None for one in every)
    return floats([(_cut(one),) if quiet else _round(one) for one in every])


def _case(
    case: CaseComparison,
    display: Display,
    tables: tuple[Floats, Floats],
    left_out: Sequence[str],
    engines: Sequence[Change],
) -> dict[str, Any]:
    return {
        "reason": case.reason,
        "why": [[one.name, one.base, one.other] for one in (*case_changes(case), *engines)],
        "fingerprint": case.fingerprint,
        "notes": [[note.kind, note.side, note.text] for note in case.notes],
        "detail": _detail(case.detail),
        "series": display,
        "leftOut": left_out,
        "sides": [_side(case.base, tables[0]), _side(case.other, tables[1])],
    }


def _metrics(cases: Sequence[CaseComparison], names: Sequence[str]) -> dict[str, Any]:
    """Of neighbouring cases. Numbers of a metric are a column: small, and quick to write."""
    return {name: _metric([case.metrics.get(name) for case in cases]) for name in names}


def _metric(found: Sequence[MetricComparison | None]) -> dict[str, Any]:
    """Of one metric, one entry for each case of the block; null where a case has no such number.
    That a metric is the same needs no words."""
    numbers = [
        (m.base, m.other, m.ratio, m.ci_low, m.ci_high, m.q, m.threshold_ratio) if m else _NONE
        for m in found
    ]
    return {
        "numbers": floats(numbers),
        "verdicts": [None if m is None else _RANK[m.verdict] for m in found],
        "reasons": [None if m is None or m.verdict is Verdict.SAME else m.reason for m in found],
        "units": [
            None
            if m is None
            else (m.base_rounds, m.other_rounds, m.unit, m.provisional, m.rounds_needed)
            for m in found
        ],
    }


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


def _side(side: CaseSide | None, table: Floats) -> dict[str, Any] | None:
    """Facts of one side; empty ones are left out, the page asks for what is there."""
    if side is None:
        return None
    last = side.cases[-1]
    work = last.work
    facts: dict[str, Any] = {
        "name": side.name,
        "engine": side.engine,
        "path": last.graph.path,
        "outcome": _outcome(last.outcome),
        "work": [work.flops, work.moved_bytes, short(work.intensity)],
        "init": _init(side.cases),
        "validation": _validation(_checked(side.cases)),
        "plan": last.plan,
        "stopped": last.stopped_by,
        "kernels": [[k.name[:LONGEST_TEXT], k.count, short(k.median_ns)] for k in last.kernels],
        **_said(side.cases),
    }
    known = {name: value for name, value in facts.items() if value}
    if len(table):
        known["rounds"] = table
    elif last.summary:
        known["summary"] = {name: _summary(one) for name, one in last.summary.items()}
    if last.achieved is not None:
        rates = (last.achieved.tflops, last.achieved.gbps, last.achieved.ceiling_share)
        known["achieved"] = [last.achieved.series, *map(short, rates)]
    if last.memory is not None:
        memory = last.memory
        known["memory"] = [memory.peak_bytes, memory.workspace_bytes, memory.buffer_bytes]
    return known


def _said(cases: Sequence[Case]) -> dict[str, list[str]]:
    """Notes of the last document and of all rounds, and why the device throttled."""
    known = [facts(case.rounds) for case in cases]
    notes = [*cases[-1].notes, *(note for one in known for note in one.notes)]
    throttled = dict.fromkeys(reason for one in known for reason in one.throttled_after)
    return {"notes": notes, "throttled": list(throttled)}


def _summary(one: Summary) -> list[float | None]:
    """Samples (a document that does not know stores none) and times."""
    times = (one.min, one.p5, one.median, one.mean, one.p95, one.max)
    return [None if one.count == 0 else one.count, *map(short, times)]


def _outcome(outcome: Outcome) -> list[Any]:
    detail = None if outcome.detail is None else outcome.detail[-LONGEST_TEXT:]
    facts = [outcome.status, outcome.reason, outcome.phase, detail]
    return facts if outcome.status != "completed" else facts[:1]


def _cut(one: Round) -> int:
    return max(one.cut.values(), default=0)


def _round(one: Round) -> tuple[float | None, ...]:
    """Warm-up cut, clock before and after (MHz), power (W) and temperature (°C) of a round."""
    before, after = one.telemetry_before, one.telemetry_after
    if after is None:
        return _cut(one), _clock(before), None, None, None
    return _cut(one), _clock(before), _clock(after), after.power_w, after.temperature_c


def _clock(telemetry: Telemetry | None) -> float | None:
    """The measured clock where there is one, else what the device reports, MHz."""
    if telemetry is None:
        return None
    probed = telemetry.probed_clock_mhz
    return telemetry.sm_clock_mhz if probed is None else probed


def _init(cases: Sequence[Case]) -> dict[str, float]:
    """Median of each phase over the rounds of all documents, nanoseconds; what is paid once
    counts once a document."""
    values: dict[str, list[int]] = {}
    for case in cases:
        for phase, samples in case.init.items():
            counted = samples[:1] if phase in PAID_ONCE else samples
            values.setdefault(phase, []).extend(counted.tolist())
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
