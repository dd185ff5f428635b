"""The record of a tuning from what its stages measured."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.document import Tool
from bench_schema.estimate import case_time, look_count, main_series, round_logs
from bench_schema.merge import find_device
from bench_schema.tuning import (
    KIND,
    TUNING_VERSION,
    Candidate,
    Cost,
    Environment,
    Ratio,
    Stage,
    TunedEngine,
    TunedEntry,
    TunedEvidence,
    TunedRecord,
    TunedWhole,
    TuneSettings,
)

from bench_run.runner.output import now
from bench_run.tune.building import largest_error
from bench_run.tune.choosing import (
    Decision,
    Finalist,
    Suite,
    decide,
    decide_whole,
    ratio,
    total_gain,
    totals,
)
from bench_run.tune.racing import intervals, raced_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    from bench_schema.document import Case, Document

    from bench_run.options import Options
    from bench_run.plan.engines import PlannedEngine
    from bench_run.tune.building import Effort
    from bench_run.tune.choosing import Raced
    from bench_run.tune.settings import Tuning

    Logs = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Confirmed:
    """Result of the ordinary rounds of a case."""

    case: Case
    logs: Logs
    """Locations of its rounds."""
    energy_j: float | None

    @property
    def is_right(self) -> bool:
        check = self.case.validation
        return check is None or check.status != "failed"


@dataclass(frozen=True)
class TuneResult:
    """Everything that the record is made of."""

    tuning: Tuning
    options: Options
    engines: Sequence[PlannedEngine]
    raced: Sequence[Raced]
    document: Document
    started: str
    effort: Effort
    race_s: float
    confirm_s: float
    notes: Sequence[str]
    command: Sequence[str]
    version: str


def make_record(tuned: TuneResult) -> TunedRecord:
    confirmed = confirmed_cases(tuned.document)
    decisions = [decision_of(each, confirmed, tuned) for each in tuned.raced]
    suite = Suite(tuned.raced, {key: c.logs for key, c in confirmed.items() if c.is_right})
    if tuned.tuning.scope == "global":
        decisions = decide_whole(suite, decisions, tuned.tuning.margin_ratio)
    pairs = zip(tuned.raced, decisions, strict=True)
    entries = tuple(_entry(each, decision, confirmed) for each, decision in pairs)
    known = suite.measured({number: d.winner for number, d in enumerate(decisions)})
    names = [each.graph.id.name for i, each in enumerate(tuned.raced) if i not in known]
    notes = list(tuned.notes)
    if names:
        notes.append(f"no part of the whole, since they have no times: {', '.join(names)}")
    tuning = tuned.tuning
    return TunedRecord(
        kind=KIND,
        tuning_version=TUNING_VERSION,
        tool=Tool("bench-run", tuned.version),
        started=tuned.started,
        finished=now(),
        command=tuple(tuned.command),
        settings=TuneSettings(
            space=tuning.space.texts,
            scope=tuning.scope,
            margin_ratio=tuning.margin_ratio,
            limits=tuning.limits,
            budget_s=tuning.budget_s,
            seed=tuned.options.seed,
        ),
        environment=environment_of(tuned),
        entries=entries,
        whole=_whole(suite, decisions, tuned),
        cost=Cost(
            tuned.effort.builds,
            tuned.effort.executions,
            round(tuned.race_s, 3),
            round(tuned.confirm_s, 3),
        ),
        document=evidence(tuned.tuning.document),
        notes=tuple(notes),
    )


def evidence(path: str) -> TunedEvidence:
    return TunedEvidence(path, hashlib.sha256(Path(path).read_bytes()).hexdigest())


def confirmed_cases(document: Document) -> dict[str, Confirmed]:
    """Return the completed cases by id."""
    made = {}
    for case in document.cases:
        if case.outcome.status == "completed" and case.rounds:
            series = main_series(case.rounds[0].series)
            assert series is not None, "a round has samples"
            logs = np.array([*round_logs(case, series).values()])
            joules = [r.energy_j_per_iteration for r in case.rounds]
            known = [j for j in joules if j is not None]
            is_known = bool(known) and len(known) == len(joules)
            energy_j = math.fsum(known) / len(known) if is_known else None
            made[case.id] = Confirmed(case, logs, energy_j)
    return made


def decision_of(each: Raced, confirmed: Mapping[str, Confirmed], tuned: TuneResult) -> Decision:
    finalists = []
    for index in each.finalists:
        known = confirmed.get(each.options[index].case.id)
        if known is not None and known.is_right:
            finalists.append(Finalist(index, each.ranks[index], known.logs))
    if not finalists:
        return Decision(0, (), None, "no candidate could be confirmed")
    looks = look_count(tuned.document.run.settings)
    decision = decide(each.rivals(finalists), 0, tuned.tuning.margin_ratio, looks)
    return with_reason(each, decision, finalists)


def with_reason(each: Raced, decision: Decision, finalists: Sequence[Finalist]) -> Decision:
    """Return the decision, with what else is to be known of it: no other candidate ran, or the
    default breaks a limit."""
    ends = [fate for fate in each.fates[1:] if fate.status != "duplicate"]
    if decision.winner == 0 and each.fates[1:] and all(fate.status != "ok" for fate in ends):
        why = f"no other candidate is left: {ends[0].reason}" if ends else "the others are the same"
        decision = replace(decision, reason=why)
    if each.beyond is None:
        return decision
    reason = f"{decision.reason}; the default breaks a limit: {each.beyond}"
    known = {finalist.index: finalist for finalist in finalists}
    if decision.winner == 0 or 0 not in known:
        return replace(decision, reason=reason)
    gain = ratio(known[0], known[decision.winner])
    what = "the only one" if len(known) == 2 else "the fastest"
    reason = f"{what} within the limits; the default breaks one: {each.beyond}"
    return replace(decision, gain=gain, reason=reason)


def _entry(each: Raced, decision: Decision, confirmed: Mapping[str, Confirmed]) -> TunedEntry:
    behind: dict[int, Ratio] = {}
    if each.state is not None and decision.winner in each.entered:
        against = intervals(each.state, each.entered.index(decision.winner))
        for index, interval in zip(each.entered, against, strict=True):
            if interval is not None:
                mean, half = interval
                low = None if half is None else math.exp(mean - half)
                high = None if half is None else math.exp(mean + half)
                behind[index] = Ratio(math.exp(mean), low, high)
    candidates = tuple(
        _candidate(each, index, behind.get(index), confirmed) for index in range(len(each.options))
    )
    graph = each.graph.id
    return TunedEntry(
        name=graph.name,
        path=graph.path,
        fingerprint=graph.fingerprint,
        family=graph.family,
        repeat=each.graph.loaded.repeat,
        candidates=candidates,
        default=0,
        winner=decision.winner,
        reason=decision.reason,
        gain=decision.gain,
        tied_with=decision.tied_with,
        stopped_by=None if each.state is None else each.state.stopped_by,
    )


def _candidate(
    each: Raced,
    index: int,
    behind: Ratio | None,
    confirmed: Mapping[str, Confirmed],
) -> Candidate:
    option, fate = each.options[index], each.fates[index]
    row = each.entered.index(index) if index in each.entered else None
    stage: Stage = "built" if fate.built else "listed"
    blocks, time_ns = 0, None
    if row is not None and each.state is not None:
        stage = "screened" if each.state.stages[row] == "screen" else "raced"
        blocks = int((~np.isnan(each.state.logs[row])).sum())
        time_ns = raced_time(each.state, row)
    made = Candidate(
        index=index,
        variant=dict(option.variant),
        case_variant=dict(option.case.variant),
        engine=option.case.engine.key,
        fingerprint=option.case.graph.id.fingerprint,
        stage=stage,
        status=fate.status,
        reason=fate.reason,
        blocks=blocks,
        behind=behind,
        time_ns=time_ns,
        error=fate.error,
        deterministic=fate.deterministic,
        workspace_bytes=fate.workspace_bytes,
        plan=dict(fate.plan),
    )
    known = confirmed.get(option.case.id) if index in each.finalists else None
    return made if known is None else with_confirmed_times(made, known)


def with_confirmed_times(raced: Candidate, confirmed: Confirmed) -> Candidate:
    """Return a finalist as its ordinary rounds left it: its time, its outputs against the
    reference."""
    case, time = confirmed.case, case_time(confirmed.case)
    check = case.validation
    wrong = check is not None and check.status == "failed"
    return replace(
        raced,
        stage="confirmed",
        status="wrong" if wrong else raced.status,
        reason=check.reason if wrong and check is not None else raced.reason,
        time_ns=None if time is None else time.ns,
        time_low_ns=None if time is None else time.low_ns,
        time_high_ns=None if time is None else time.high_ns,
        error=largest_error(case) if largest_error(case) is not None else raced.error,
        deterministic=raced.deterministic if check is None else check.deterministic,
        energy_j=confirmed.energy_j,
        case=case.id,
    )


def _whole(suite: Suite, decisions: Sequence[Decision], tuned: TuneResult) -> TunedWhole:
    winners = {number: decision.winner for number, decision in enumerate(decisions)}
    gain = total_gain(suite, winners, look_count(tuned.document.run.settings))
    combined = totals(suite, decisions)
    if tuned.tuning.scope == "layer":  # plans are of one graph each, and no whole has them
        combined = tuple(each for each in combined if not each.missing)
    if gain is None:
        return TunedWhole(None, None, None, combined)
    return TunedWhole(gain.default_ns, gain.tuned_ns, gain.ratio, combined)


def environment_of(tuned: TuneResult) -> Environment:
    document, options = tuned.document, tuned.options
    used_options = [option for each in tuned.raced for option in each.options]
    by_key = {option.case.engine.key: option.case.engine for option in used_options}
    engines = tuple(
        TunedEngine(
            key=engine.key,
            spec=by_key[engine.key].spec.text,
            name=engine.name,
            math=by_key[engine.key].options.math,
            libraries=dict(engine.libraries),
            device=engine.device,
            device_kind=engine.device_kind,
            plugin_sha256=engine.plugin_sha256,
        )
        for engine in document.engines
    )
    used = next((e for e in engines if e.device != "cpu"), engines[0])
    device = find_device(document.machine, used.device)
    settings = document.run.settings
    return Environment(
        host=document.machine.host,
        device_kind=used.device_kind,
        device_uuid=None if device is None else device.uuid,
        arch=None if device is None else device.arch,
        driver=None if device is None else device.driver,
        engines=engines,
        math=options.math,
        cache=settings.cache,
        timer=settings.timer,
        duty=settings.duty,
    )
