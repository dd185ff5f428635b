"""The record of a tuning: the document of its ordinary rounds, with every candidate and winner."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import look_count
from bench_schema.tuning import (
    Candidate,
    Total,
    Tuned,
    TunedEngine,
    TunedEntry,
    TunedWhole,
)

from bench_run.plan.tuned import in_folder
from bench_run.tune.known import combinations, contenders_of, find_known, races_of
from bench_run.tune.race import Contender, Decision, decide, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Document

    from bench_run.tune.known import Known, Listed, Race
    from bench_run.tune.settings import Tuning


def with_choices(
    tuning: Tuning, listed: Sequence[Listed], short: Document | None, document: Document
) -> Document:
    """Return the document of the ordinary rounds as a record. `short`: that of the short rounds."""
    before = {} if short is None else {case.id: case for case in short.cases}
    after = {case.id: case for case in document.cases if case.rounds}
    known = [find_known(each, before, after, tuning.limits) for each in listed]
    races = races_of(listed, known, is_global=tuning.scope == "global")
    looks = look_count(document.run.settings)
    if tuning.scope == "global":
        chosen = _for_all(races[0], known, tuning.margin_ratio, looks)
    else:
        chosen = [
            _for_one(race, facts, known, tuning.margin_ratio, looks)
            for race, facts in zip(races, known, strict=True)
        ]
    entries = tuple(map(_entry, listed, known, chosen))
    used = {
        option.case.engine.key: option.case.engine for each in listed for option in each.options
    }
    tuned = Tuned(
        space=tuning.space.texts,
        scope=tuning.scope,
        margin_ratio=tuning.margin_ratio,
        limits=tuning.limits,
        budget_s=tuning.budget_s,
        engines=tuple(
            TunedEngine(key, engine.spec.text, engine.options.math) for key, engine in used.items()
        ),
        entries=entries,
        whole=_whole(tuning, listed, known, chosen, looks),
    )
    return replace(document, tuned=in_folder(tuned, Path(tuning.record).parent))


def _for_one(
    race: Race,
    facts: Sequence[Known],
    known: Sequence[Sequence[Known]],
    margin_ratio: float,
    looks: int,
) -> Decision:
    """Decide for one graph; the reason says if no other candidate ran or the default breaks a
    limit."""
    contenders = contenders_of(race, known)
    if not contenders:
        return Decision(0, (), None, "no candidate could be confirmed")
    decision = decide(contenders, margin_ratio, looks)
    others = [fact for fact in facts[1:] if fact.status != "duplicate"]
    if decision.winner == 0 and facts[1:] and all(fact.status != "ok" for fact in others):
        left = f"no other candidate is left: {others[0].reason}" if others else None
        decision = replace(decision, reason=left or "the others are the same")
    beyond = facts[0].beyond
    if beyond is None:
        return decision
    if decision.winner == 0:
        return replace(decision, reason=f"{decision.reason}; the default breaks a limit: {beyond}")
    base, winner = (Contender(i, i, facts[i].logs) for i in (0, decision.winner))
    what = "the only one" if len(contenders) == 1 else "the fastest"
    reason = f"{what} within the limits; the default breaks one: {beyond}"
    return replace(decision, gain=ratio(base, winner), reason=reason)


def _for_all(
    race: Race,
    known: Sequence[Sequence[Known]],
    margin_ratio: float,
    looks: int,
) -> list[Decision]:
    """Decide for one combination; return each graph's own gain with it."""
    contenders = contenders_of(race, known)
    if not contenders:
        reason = "no combination could be confirmed for all graphs"
        return [Decision(0, (), None, reason) for _ in known]
    decision = decide(contenders, margin_ratio, looks)
    winner = next(e for e in race.entrants if e.index == decision.winner)
    named = " ".join(f"{axis}={value}" for axis, value in winner.variant.items())
    reason = f"one for all graphs: {named or 'the default'}, {decision.reason}"
    beyond = next((facts[0].beyond for facts in known if facts[0].beyond is not None), None)
    if beyond is not None:
        reason = f"{reason}; the default breaks a limit: {beyond}"
    made = []
    for place, index in winner.parts:
        base, own = (Contender(i, i, known[place][i].logs) for i in (0, index))
        gain = ratio(base, own) if base.logs.size and own.logs.size else None
        made.append(Decision(index, (), gain, reason))
    return made


def _entry(listed: Listed, facts: Sequence[Known], decision: Decision) -> TunedEntry:
    graph = listed.graph.id
    return TunedEntry(
        name=graph.name,
        path=graph.path,
        fingerprint=graph.fingerprint,
        family=graph.family,
        repeat=listed.graph.loaded.repeat,
        candidates=tuple(
            Candidate(
                variant=dict(option.variant),
                case_variant=dict(option.case.variant),
                engine=option.case.engine.key,
                fingerprint=option.case.graph.id.fingerprint,
                status=fact.status,
                reason=fact.reason,
                case=option.case.id if fact.is_confirmed else None,
                time_ns=fact.time_ns,
                rounds=0 if fact.case is None else len(fact.case.rounds),
                error=fact.error,
                deterministic=fact.deterministic,
                workspace_bytes=fact.workspace_bytes,
                plan={} if fact.case is None else dict(fact.case.plan),
            )
            for option, fact in zip(listed.options, facts, strict=True)
        ),
        winner=decision.winner,
        reason=decision.reason,
        gain=decision.gain,
        tied_with=decision.tied_with,
        beyond=facts[0].beyond,
    )


def _whole(
    tuning: Tuning,
    listed: Sequence[Listed],
    known: Sequence[Sequence[Known]],
    chosen: Sequence[Decision],
    looks: int,
) -> TunedWhole:
    """Return the totals of the graphs with times of the default and of the winner, in the rounds
    that all of these have."""
    pairs = [
        (each.graph.loaded.repeat, facts[0], facts[decision.winner])
        for each, facts, decision in zip(listed, known, chosen, strict=True)
        if facts[0].is_confirmed and facts[decision.winner].is_confirmed
    ]
    totals = _totals(tuning, listed, known, chosen)
    if not pairs:
        return TunedWhole(totals=totals)
    rounds = min(fact.logs.size for _, *facts in pairs for fact in facts)
    sides = [
        sum(repeat * np.exp(facts[side].logs[:rounds]) for repeat, *facts in pairs)
        for side in (0, 1)
    ]
    base, other = (Contender(i, i, np.log(side)) for i, side in enumerate(sides))
    gain = ratio(base, other, looks=looks)
    default_ns, tuned_ns = (math.exp(float(each.logs.mean())) for each in (base, other))
    return TunedWhole(default_ns, tuned_ns, gain, totals)


def _totals(
    tuning: Tuning,
    listed: Sequence[Listed],
    known: Sequence[Sequence[Known]],
    chosen: Sequence[Decision],
) -> tuple[Total, ...]:
    """Return the time of every combination of a space that is the same for all graphs: plans are of
    one graph each."""
    names = {axis.partition("=")[0] for axis in tuning.space.texts}
    if tuning.scope == "layer" and "plan" in names:
        return ()
    winners = [decision.winner for decision in chosen]
    made = []
    for entrant, missing in combinations(listed, known):
        parts = [(listed[place].graph.loaded.repeat, known[place][i]) for place, i in entrant.parts]
        times = [repeat * part.time_ns for repeat, part in parts if part.time_ns is not None]
        is_whole = not missing and len(times) == len(listed)
        made.append(
            Total(
                variant=dict(entrant.variant),
                time_ns=math.fsum(times) if is_whole else None,
                confirmed=is_whole and all(part.is_confirmed for _, part in parts),
                missing=missing,
                chosen=not missing and [i for _, i in entrant.parts] == winners,
            )
        )
    return tuple(made)
