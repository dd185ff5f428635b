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
from bench_compare.rounds.observations import clock_mhz

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import (
        Case,
        Round,
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
    columns = _columns(held, [facts[place] for place in present])
    told = {name: [has[place] for place in present] for name, has in measured.items()}
    columns["init"] = _init([side.cases for side in held], told)
    kept: dict[str, Sequence[Any]] = {}
    same: dict[str, Any] = {}
    for name, column in columns.items():
        if not any(
            value if isinstance(value, int) else value is not None and len(value)
            for value in column
        ):
            continue
        if name != "name" and column.count(column[0]) == len(column):
            same[name] = column[0]
        elif len(held) < len(sides):
            found = dict(zip(present, column, strict=True))
            kept[name] = [found.get(place) for place in range(len(sides))]
        else:
            kept[name] = column
    rounds = [case.rounds for side in held for case in side.cases]
    return {"columns": kept, "same": same}, _readings(rounds)


def _columns(
    sides: Sequence[CaseSide], facts: Sequence[Sequence[Facts]]
) -> dict[str, Sequence[Any]]:
    """What stands in the last document of each side, unless it is of all their rounds."""
    last = [side.cases[-1] for side in sides]
    rounds = [sum(len(case.rounds) for case in side.cases) for side in sides]
    intensities = shortened([case.work.intensity for case in last])
    medians = iter(shortened([one.median_ns for case in last for one in case.kernels]))
    achieved = [case.achieved for case in last]
    known = [one for one in achieved if one is not None]
    rates = iter(shortened([(one.tflops, one.gbps, one.ceiling_share) for one in known]))
    outcomes: list[list[Any]] = []
    for one in (case.outcome for case in last):
        detail = None if one.detail is None else one.detail[-LONGEST_TEXT:]
        more = [] if one.status == "completed" else [one.reason, one.phase, detail]
        outcomes.append([one.status, *more])
    summaries: list[dict[str, Any] | None] = []
    for case, count in zip(last, rounds, strict=True):
        times: dict[str, Any] = {}
        for name, s in case.summary.items():
            samples = None if s.count == 0 else s.count  # a document that does not know stores none
            times[name] = [samples, *map(short, (s.min, s.p5, s.median, s.mean, s.p95, s.max))]
        summaries.append(None if count else times)
    return {
        "name": [side.name for side in sides],
        "engine": [side.engine for side in sides],
        "path": [case.graph.path for case in last],
        "outcome": outcomes,
        "work": [
            (case.work.flops, case.work.moved_bytes, intensity)
            for case, intensity in zip(last, intensities, strict=True)
        ],
        "validation": _validations([side.cases for side in sides]),
        "plan": [case.plan for case in last],
        "stopped": [case.stopped_by for case in last],
        "kernels": [
            [(one.name[:LONGEST_TEXT], one.count, next(medians)) for one in case.kernels]
            for case in last
        ],
        "notes": [
            [*case.notes, *(note for one in some for note in one.notes)]
            for case, some in zip(last, facts, strict=True)
        ],
        "throttled": [
            list(dict.fromkeys(reason for one in some for reason in one.throttled))
            for some in facts
        ],
        "rounds": rounds,
        "summary": summaries,
        "achieved": [None if one is None else (one.series, *next(rates)) for one in achieved],
        "memory": [
            None if one is None else (one.peak_bytes, one.workspace_bytes, one.buffer_bytes)
            for one in (case.memory for case in last)
        ],
    }


def _readings(cases: Sequence[Sequence[Round]]) -> Floats:
    """Rows of warm-up cut, clock before and after (MHz), power (W) and temperature (°C), with a
    column for each round of all cases; where no device said anything, only the cut."""
    told = False
    rows: list[tuple[float | None, ...]] = []
    for one in itertools.chain.from_iterable(cases):
        before, after = one.telemetry_before, one.telemetry_after
        told = told or before is not None or after is not None
        heat = (None, None) if after is None else (after.power_w, after.temperature_c)
        cut = max(one.cut.values(), default=0)
        rows.append((cut, clock_mhz(before), clock_mhz(after), *heat))
    table = np.array(rows, float).reshape(-1, 5)
    return floats(table if told else table[:, :1]).round(1).T


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
        values = [
            np.concatenate([case.init.get(phase, NOTHING)[:most] for case in sides[place]])
            for place in here
        ]
        middles = _lower_medians(values)
        for place, one, middle in zip(here, values, middles, strict=True):
            if one.size:
                found[place][phase] = middle
            else:
                del found[place][phase]
    return found


NOTHING = np.empty(0, np.int64)


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


def _validations(sides: Sequence[Sequence[Case]]) -> list[tuple[Any, ...] | None]:
    """Of each side the first validation that failed, else the last."""
    found: list[Validation | None] = []
    for cases in sides:
        known = [case.validation for case in cases if case.validation is not None]
        failed = (one for one in known if one.status == "failed")
        found.append(next(failed, known[-1] if known else None))
    outputs = [output for one in found if one is not None for output in one.outputs]
    rows: list[tuple[Any, ...]] = [(one.max_abs, one.max_rel, one.relative_l2) for one in outputs]
    if str in {type(value) for row in rows for value in row}:  # some are written in words
        errors: Sequence[Sequence[Any]] = [[_real(value) for value in row] for row in rows]
    else:
        errors = shortened(rows)
    told = (
        [
            *(one.name, one.data_type, one.elements, one.mismatched, *three),
            *(one.rtol, one.atol, one.tolerance_source),
            [[list(w.index), _real(w.expected), _real(w.actual)] for w in one.worst[:WORST]],
        ]
        for one, three in zip(outputs, errors, strict=True)
    )
    return [
        None
        if one is None
        else (
            *(one.status, one.reference, one.reason, one.iterations_checked),
            *(one.iterations_mismatched, one.deterministic),
            [*itertools.islice(told, len(one.outputs))],
        )
        for one in found
    ]


def _real(value: float | str) -> float | str | None:
    return value if isinstance(value, str) else short(value)
