"""Facts of the sides of a block's cases, a column for each fact.

A column has an entry for each side, first base and other of the first case; what a side does not
have is None, and a column in which nobody has anything is left out. An entry that all sides share
is told once.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.document import PAID_ONCE

from bench_compare.report.html.front import floats, short, shortened
from bench_compare.rounds.lazy import readings_of
from bench_compare.rounds.table import READINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import (
        Case,
        Mismatch,
        Outcome,
        OutputValidation,
        Round,
        Samples,
        Summary,
        Telemetry,
        Validation,
    )

    from bench_compare.model import CaseSide
    from bench_compare.report.html.front import Floats
    from bench_compare.report.html.sampling import Ints
    from bench_compare.rounds.facts import Facts

LONGEST_TEXT = 2_000
WORST = 8
"""Mismatches shown for an output."""


def side_columns(
    sides: Sequence[CaseSide | None],
    facts: Sequence[Sequence[Facts]],
    measured: Mapping[str, Sequence[bool]],
) -> tuple[dict[str, dict[str, Any]], Floats]:
    """The columns, apart from them what all sides have in common, and what devices told around the
    rounds of all sides (`_readings`).

    `facts`: of the rounds of each document's case, for each side; `measured`: of each phase
    that is a metric here, whether the page tells it of a side.
    """
    present = [place for place, side in enumerate(sides) if side is not None]
    held = [side for side in sides if side is not None]
    columns, readings = _columns(held, [facts[place] for place in present])
    told = {name: [has[place] for place in present] for name, has in measured.items()}
    columns["init"] = _init([side.cases for side in held], told)
    kept = {name: column for name, column in columns.items() if any(map(_size, column))}
    same = {name: kept.pop(name)[0] for name in [*kept] if name != "name" and _are_same(kept[name])}
    if len(held) < len(sides):
        kept = {name: _spread(column, present, len(sides)) for name, column in kept.items()}
    return {"columns": kept, "same": same}, readings


def _are_same(column: Sequence[Any]) -> bool:
    return column.count(column[0]) == len(column)


def _spread(column: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    spread = [None] * count
    for place, value in zip(places, column, strict=True):
        spread[place] = value
    return spread


def _columns(
    sides: Sequence[CaseSide], facts: Sequence[Sequence[Facts]]
) -> tuple[dict[str, Sequence[Any]], Floats]:
    last = [side.cases[-1] for side in sides]
    held = [case.rounds for side in sides for case in side.cases]
    counts = iter([len(rounds) for rounds in held])
    rounds = [sum(itertools.islice(counts, len(side.cases))) for side in sides]
    columns: dict[str, Sequence[Any]] = {
        "name": [side.name for side in sides],
        "engine": [side.engine for side in sides],
        "path": [case.graph.path for case in last],
        "outcome": [_outcome(case.outcome) for case in last],
        "work": _work(last),
        "validation": _validations([_checked(side.cases) for side in sides]),
        "plan": [case.plan for case in last],
        "stopped": [case.stopped_by for case in last],
        "kernels": _kernels(last),
        "notes": [_notes(case, known) for case, known in zip(last, facts, strict=True)],
        "throttled": [_throttled(known) for known in facts],
        "rounds": rounds,
        "summary": [
            None if count else {name: _summary(one) for name, one in case.summary.items()}
            for case, count in zip(last, rounds, strict=True)
        ],
        "achieved": _achieved(last),
        "memory": [_memory(case) for case in last],
    }
    return columns, _readings(held)


def _size(value: Any) -> int:
    return value if isinstance(value, int) else 0 if value is None else len(value)


def _work(cases: Sequence[Case]) -> list[tuple[int | None, int | None, float | None]]:
    works = [case.work for case in cases]
    intensity = shortened([work.intensity for work in works])
    return [
        (work.flops, work.moved_bytes, ratio) for work, ratio in zip(works, intensity, strict=True)
    ]


def _kernels(cases: Sequence[Case]) -> list[list[tuple[str, int, float | None]]]:
    medians = iter(shortened([one.median_ns for case in cases for one in case.kernels]))
    return [
        [(one.name[:LONGEST_TEXT], one.count, next(medians)) for one in case.kernels]
        for case in cases
    ]


def _notes(case: Case, known: Sequence[Facts]) -> list[str]:
    """Of the last document and of all rounds."""
    if len(known) == 1 and not known[0].notes:
        return list(case.notes)
    return [*case.notes, *(note for one in known for note in one.notes)]


def _throttled(known: Sequence[Facts]) -> Sequence[str]:
    """Why the device throttled."""
    if len(known) == 1:
        return known[0].throttled_after
    return list(dict.fromkeys(reason for one in known for reason in one.throttled_after))


def _summary(one: Summary) -> list[float | None]:
    """Samples (a document that does not know stores none) and times."""
    times = (one.min, one.p5, one.median, one.mean, one.p95, one.max)
    return [None if one.count == 0 else one.count, *map(short, times)]


def _achieved(cases: Sequence[Case]) -> list[tuple[Any, ...] | None]:
    """Series, TFLOP/s, GB/s and the share of the ceiling."""
    found = [case.achieved for case in cases]
    known = [one for one in found if one is not None]
    rates = shortened([(one.tflops, one.gbps, one.ceiling_share) for one in known])
    rows = iter([(one.series, *three) for one, three in zip(known, rates, strict=True)])
    return [None if one is None else next(rows) for one in found]


def _memory(case: Case) -> tuple[int | None, ...] | None:
    memory = case.memory
    if memory is None:
        return None
    return memory.peak_bytes, memory.workspace_bytes, memory.buffer_bytes


def _outcome(outcome: Outcome) -> list[Any]:
    if outcome.status == "completed":
        return [outcome.status]
    detail = None if outcome.detail is None else outcome.detail[-LONGEST_TEXT:]
    return [outcome.status, outcome.reason, outcome.phase, detail]


def _readings(cases: Sequence[Sequence[Round]]) -> Floats:
    """A row for each of what `_round` tells, with a column for each round of all cases; where no
    device said anything, only the cut."""
    known = readings_of(cases)
    if known is not None:
        table, told = known
    else:
        every = [one for rounds in cases for one in rounds]
        told = any((one.telemetry_before or one.telemetry_after) is not None for one in every)
        table = np.array([_round(one) for one in every], float).reshape(-1, READINGS)
    return floats(table if told else table[:, :1]).round(1).T


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


def _init(
    sides: Sequence[Sequence[Case]], measured: Mapping[str, Sequence[bool]]
) -> list[dict[str, int | None]]:
    """The phases of each side; where no metric tells one, with its (lower) median over the rounds
    of all documents, nanoseconds; what is paid once counts once a document."""
    found: list[dict[str, int | None]] = [
        dict.fromkeys(itertools.chain.from_iterable([case.init for case in cases]))
        for cases in sides
    ]
    for phase in dict.fromkeys(itertools.chain.from_iterable(found)):
        told = measured.get(phase) or [False] * len(found)
        if all(told):
            continue
        every = zip(itertools.count(), found, told, strict=False)
        here = [place for place, one, has in every if not has and phase in one]
        most = 1 if phase in PAID_ONCE else None
        values = [_phase(sides[place], phase, most) for place in here]
        middles = _lower_medians(values)
        for place, one, middle in zip(here, values, middles, strict=True):
            if one.size:
                found[place][phase] = middle
            else:
                del found[place][phase]
    return found


NOTHING = np.empty(0, np.int64)


def _phase(cases: Sequence[Case], phase: str, most: int | None) -> Samples:
    if len(cases) == 1:
        found = cases[0].init.get(phase, NOTHING)
        return found if most is None else found[:most]
    return np.concatenate([case.init.get(phase, NOTHING)[:most] for case in cases])


def _lower_medians(series: Sequence[Ints]) -> list[int]:
    """Those of one length at once."""
    sizes = np.fromiter((one.size for one in series), np.int64, len(series))
    found = np.zeros(len(series), np.int64)
    for size in np.unique(sizes).tolist():
        places = np.flatnonzero(sizes == size).tolist()
        rows = np.concatenate([series[place] for place in places]).reshape(-1, size)
        found[places] = np.sort(rows, axis=1)[:, max(size - 1, 0) // 2] if size else 0
    middles: list[int] = found.tolist()
    return middles


def _checked(cases: Sequence[Case]) -> Validation | None:
    """The validation to show: the first failed one, else the last."""
    if len(cases) == 1:
        return cases[0].validation
    known = [case.validation for case in cases if case.validation is not None]
    failed = (one for one in known if one.status == "failed")
    return next(failed, known[-1] if known else None)


def _validations(found: Sequence[Validation | None]) -> list[tuple[Any, ...] | None]:
    outputs = [output for one in found if one is not None for output in one.outputs]
    told = iter(_outputs(outputs))
    return [None if one is None else _validation(one, told) for one in found]


def _validation(one: Validation, outputs: Iterator[list[Any]]) -> tuple[Any, ...]:
    return (
        *(one.status, one.reference, one.reason, one.iterations_checked),
        *(one.iterations_mismatched, one.deterministic),
        [*itertools.islice(outputs, len(one.outputs))],
    )


def _outputs(outputs: Sequence[OutputValidation]) -> list[list[Any]]:
    errors = _reals([(one.max_abs, one.max_rel, one.relative_l2) for one in outputs])
    return [
        [
            *(one.name, one.data_type, one.elements, one.mismatched, *three),
            *(one.rtol, one.atol, one.tolerance_source, _worst(one.worst)),
        ]
        for one, three in zip(outputs, errors, strict=True)
    ]


def _worst(found: Sequence[Mismatch]) -> list[Any]:
    if not found:
        return []
    return [[list(w.index), _real(w.expected), _real(w.actual)] for w in found[:WORST]]


def _reals(rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[float | str | None]]:
    """Where one is written in words, each by itself."""
    if str in {type(value) for row in rows for value in row}:
        return [[_real(value) for value in row] for row in rows]
    return shortened(rows)


def _real(value: float | str) -> float | str | None:
    return value if isinstance(value, str) else short(value)
