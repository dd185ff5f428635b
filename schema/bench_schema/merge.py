"""Partial cases into whole ones: a journal holds one part for each visit to a case."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from bench_schema.document import (
    PAID_ONCE,
    SERIES,
    UNKNOWN_WORK,
    Case,
    Cpu,
    Device,
    Kernel,
    Machine,
    Memory,
    Outcome,
    OutputValidation,
    Real,
    Round,
    Samples,
    Status,
    Summary,
    Validation,
    unspell,
)
from bench_schema.summary import achieved, implausible, iterations_of, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench_schema.document import Settings

T = TypeVar("T")

SEVERITY: Mapping[Status, int] = {
    "completed": 0,
    "skipped": 1,
    "unsupported": 2,
    "failed": 3,
    "timed out": 4,
    "crashed": 5,
}

LAST = 1 << 62
"""Sort position of parts without a round: behind the others."""


def merge_cases(parts: Sequence[Case]) -> Case:
    """Merge the parts of one case, in order of time. Rounds and initialisation are joined in the
    order of the rounds, as parts may have been prepared side by side.

    The outcome is the worst, of equals the last; what is known once (plan, kernels, rule that
    stopped it) is the last known. Summaries are computed anew; rates need the machine's ceilings,
    see `with_rates`.
    """
    parts = sorted(parts, key=lambda part: min((r.index for r in part.rounds), default=LAST))
    parts = without_voided(parts)
    rounds = tuple(round_ for part in parts for round_ in part.rounds)
    plan = {name: value for part in parts for name, value in part.plan.items()}
    return replace(
        parts[0],
        outcome=merge_outcomes([part.outcome for part in parts]),
        init=join_series([part.init for part in parts]),
        rounds=rounds,
        summary=summaries(rounds),
        validation=merge_validations([part.validation for part in parts], rounds),
        achieved=None,
        memory=merge_memory([part.memory for part in parts]),
        work=next((part.work for part in parts if part.work != UNKNOWN_WORK), UNKNOWN_WORK),
        plan=plan,
        kernels=merge_kernels([part.kernels for part in parts]),
        stopped_by=_stopped_by(parts),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        implausible=_last([part.implausible for part in parts]),
    )


LIMITS = ("max time", "most samples")
"""Reasons why a round ended early, the first one outweighs the second."""


def _stopped_by(parts: Sequence[Case]) -> str | None:
    """Return the rule that ended a case: that of all rounds together, otherwise the limit that
    ended any of them early, otherwise that of the last one."""
    whole = _last([part.stopped_by for part in parts if not part.rounds])
    found = [part.stopped_by for part in parts]
    return whole or next((each for each in LIMITS if each in found), _last(found))


SHORT = "iterations: "
"""Beginning of the note on a case that has fewer iterations than were asked for."""


def with_shortfall(case: Case, settings: Settings) -> Case:
    """Return the case with a note if a limit left it fewer iterations than were asked for."""
    notes = tuple(note for note in case.notes if not note.startswith(SHORT))
    short = shortfall(case, settings)
    return replace(case, notes=notes if short is None else (*notes, f"{SHORT}{short}"))


def shortfall(case: Case, settings: Settings) -> str | None:
    """Return the iterations of a case of those that its rounds were asked for, with the limit that
    ended it, as in ``74 of 100 (max time)``; None if none are missing."""
    if case.stopped_by not in LIMITS or not case.rounds or settings.iterations is None:
        return None
    share, rest = divmod(settings.iterations, settings.rounds)
    wanted = sum(share + (one.index < rest) for one in case.rounds)
    taken = iterations_of(case)
    return f"{taken} of {wanted} ({case.stopped_by})" if taken < wanted else None


def merge_kernels(parts: Sequence[tuple[Kernel, ...]]) -> tuple[Kernel, ...]:
    """Return the kernels of the last part that has any. A pass that counts records no launches, so
    those of other parts are kept, by the kernel's name."""
    launches = {kernel.name: kernel.launch for part in parts for kernel in part if kernel.launch}
    last = next((part for part in reversed(parts) if part), ())
    return tuple(
        kernel if kernel.launch else replace(kernel, launch=launches.get(kernel.name))
        for kernel in last
    )


def without_voided(parts: Sequence[Case]) -> Sequence[Case]:
    """Return the parts without rounds that are void: if a case could only be measured without a
    gate, rounds behind a gate do not count, because unlike samples share no series."""
    rounds = [round_ for part in parts for round_ in part.rounds]
    if {"gated events", "events"} <= {round_.device_timing for round_ in rounds}:
        return [
            without_rounds(part, lambda each: each.device_timing == "gated events")
            for part in parts
        ]
    return parts


def without_rounds(part: Case, is_void: Callable[[Round], bool]) -> Case:
    """Return the part without void rounds and their phases of initialisation, except those that are
    paid once, which no later round pays."""
    kept = [not is_void(round_) for round_ in part.rounds]
    init = {
        name: values[kept] if len(values) == len(kept) and name not in PAID_ONCE else values
        for name, values in part.init.items()
    }
    rounds = tuple(round_ for round_, keep in zip(part.rounds, kept, strict=True) if keep)
    return replace(part, rounds=rounds, init={name: v for name, v in init.items() if v.size})


def with_rates(case: Case, device: Device | None, cpu: Cpu | None = None) -> Case:
    """Return the case with its achieved rates, held against the ceilings of the device it ran on,
    and whether these are beaten. `cpu`: the processor where it ran there."""
    kind = case.graph.data_type
    return replace(
        case,
        achieved=achieved(case.work, case.summary, device, kind),
        implausible=implausible(case.work, case.summary, device, cpu, kind) or case.implausible,
    )


def find_device(machine: Machine, key: str) -> Device | None:
    """Return the device that an engine names by uuid or index; None for ``cpu``."""
    return next(
        (device for device in machine.devices if key in (device.uuid, str(device.index))), None
    )


def summaries(rounds: Sequence[Round]) -> dict[str, Summary]:
    """Return statistics of every series that has samples."""
    result = {}
    for name in SERIES:
        having = [round_ for round_ in rounds if name in round_.series]
        arrays = [round_.series[name] for round_ in having]
        cuts = [round_.cut.get(name, 0) for round_ in having]
        if any(len(array) > cut for array, cut in zip(arrays, cuts, strict=True)):
            result[name] = summarize(arrays, cuts)
    return result


def merge_outcomes(outcomes: Sequence[Outcome]) -> Outcome:
    worst = max(SEVERITY[outcome.status] for outcome in outcomes)
    return next(o for o in reversed(outcomes) if SEVERITY[o.status] == worst)


def join_series(parts: Sequence[Mapping[str, Samples]]) -> dict[str, Samples]:
    """Concatenate arrays of the same name."""
    names = dict.fromkeys(name for part in parts for name in part)
    if len(parts) == 1:
        return dict(parts[0])
    return {name: np.concatenate([part[name] for part in parts if name in part]) for name in names}


def merge_memory(parts: Sequence[Memory | None]) -> Memory | None:
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return Memory(
        peak_bytes=_largest(part.peak_bytes for part in known),
        workspace_bytes=_largest(part.workspace_bytes for part in known),
        buffer_bytes=_largest(part.buffer_bytes for part in known),
    )


def merge_validations(
    parts: Sequence[Validation | None], rounds: Sequence[Round]
) -> Validation | None:
    """Merge validations: failed if any part failed, passed if any passed; each output as in its
    worst part."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    poisoned = [n for part in known if (n := part.iterations_poisoned) is not None]
    unchanged = [same for part in known if (same := part.inputs_unchanged) is not None]
    by_status = {part.status: part for part in reversed(known)}
    sources = {part.reference_source for part in known}
    read: Literal["read"] | None = "read" if "read" in sources else None
    decisive = by_status.get("failed") or by_status.get("passed") or by_status["not checked"]
    return Validation(
        status=decisive.status,
        reference=decisive.reference,
        reason=decisive.reason,
        outputs=merge_outputs([output for part in known for output in part.outputs]),
        iterations_checked=sum(part.iterations_checked for part in known),
        iterations_mismatched=sum(part.iterations_mismatched for part in known),
        deterministic=merge_deterministic([part.deterministic for part in known], rounds),
        iterations_poisoned=sum(poisoned) if poisoned else None,
        inputs_unchanged=all(unchanged) if unchanged else None,
        reference_source="computed" if "computed" in sources else read,
    )


def merge_deterministic(parts: Sequence[bool | None], rounds: Sequence[Round]) -> bool | None:
    """Return True if runs on the usual inputs gave the same bytes in all rounds."""
    sums = [
        total
        for each in rounds
        for total in (
            (each.checksum,) if each.checksum else each.checks.checksum if each.checks else ()
        )
    ]
    if False in parts:
        return False
    return len(set(sums)) == 1 if len(sums) > 1 else _last(parts)


def merge_outputs(outputs: Iterable[OutputValidation]) -> tuple[OutputValidation, ...]:
    """Merge outputs: one entry for each tensor: the worst of every measure, mismatches of the worst
    part."""
    by_tensor: dict[tuple[int, str], list[OutputValidation]] = {}
    for output in outputs:
        by_tensor.setdefault((output.uid, output.name), []).append(output)
    return tuple(_worst_output(parts) for parts in by_tensor.values())


def _worst_output(parts: Sequence[OutputValidation]) -> OutputValidation:
    worst = max(parts, key=lambda part: (part.mismatched, _badness(part.max_abs)))
    return replace(
        worst,
        max_abs=max((part.max_abs for part in parts), key=_badness),
        max_rel=max((part.max_rel for part in parts), key=_badness),
        relative_l2=max((part.relative_l2 for part in parts), key=_badness),
    )


def _badness(error: Real) -> tuple[bool, float]:
    """Return the rank of an error: NaN is worse than infinity."""
    value = unspell(error)
    return (True, 0.0) if math.isnan(value) else (False, value)


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _last(values: Sequence[T | None]) -> T | None:
    return next((value for value in reversed(values) if value is not None), None)
