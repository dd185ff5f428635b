"""Knowledge of each candidate from its rounds, and the races of candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from bench_schema.estimate import case_time, main_series, round_logs

from bench_run.tune.candidates import Option, key_of
from bench_run.tune.race import Contender, kept, ranked
from bench_run.tune.settings import SHORT_ROUNDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt
    from bench_schema.document import Case, Document
    from bench_schema.tuning import Fate, Limits

    from bench_run.plan.cases import PlannedGraph
    from bench_run.tune.race import Logs

    Cases = Mapping[str, Case]


@dataclass(frozen=True)
class Listed:
    """A graph and its options, the default first."""

    graph: PlannedGraph
    options: Sequence[Option]


@dataclass(frozen=True)
class Known:
    """Results of an option: of its ordinary rounds, otherwise of its short ones."""

    status: Fate
    reason: str | None = None
    case: Case | None = None
    is_confirmed: bool = False
    """True if the case has ordinary rounds."""
    beyond: str | None = None
    """The limit that it breaks, of a default: this one is measured all the same, as the reference
    of the others."""
    same_as: int | None = None
    """Index of the option that it is a duplicate of."""

    @property
    def error(self) -> float | None:
        return None if self.case is None else largest_error(self.case)

    @property
    def deterministic(self) -> bool | None:
        checked = None if self.case is None else self.case.validation
        return None if checked is None else checked.deterministic

    @property
    def workspace_bytes(self) -> int | None:
        memory = None if self.case is None else self.case.memory
        return None if memory is None else memory.workspace_bytes

    @property
    def logs(self) -> Logs:
        """Logarithms of the times of its rounds."""
        return np.array([]) if self.case is None else logs_of(self.case)

    @property
    def time_ns(self) -> float | None:
        time = None if self.case is None else case_time(self.case)
        return None if time is None else time.ns


def logs_of(case: Case) -> npt.NDArray[np.float64]:
    """Return the time of each round of a case; empty without rounds."""
    series = main_series(case.rounds[0].series) if case.rounds else None
    return np.array([] if series is None else [*round_logs(case, series).values()])


def largest_error(case: Case) -> float | None:
    """Return the largest relative L2 error of an output; None if nothing was compared, or if the
    largest is not finite."""
    outputs = () if case.validation is None else case.validation.outputs
    errors = [float(output.relative_l2) for output in outputs]
    worst = max(errors, key=lambda e: (e != e, e), default=math.inf)
    return worst if math.isfinite(worst) else None


def find_known(listed: Listed, short: Cases, ordinary: Cases, limits: Limits) -> list[Known]:
    """Return what the cases of the short and of the ordinary rounds say of each option."""
    found: list[Known] = []
    plans: dict[object, int] = {}
    for index, option in enumerate(listed.options):
        case_id = option.case.id
        case = ordinary.get(case_id) or short.get(case_id)
        if option.problem is not None:
            found.append(Known(option.status, option.problem, same_as=option.same_as))
            continue
        if case is None:
            found.append(Known("not tried", "the budget was gone before it was measured"))
            continue
        known = of_case(case, case_id in ordinary)
        if known.status == "ok" and found and _is_implausible(case, found[0].case):
            known = replace(known, status="wrong", reason=f"implausible: {case.implausible}")
        problem = _beyond(known, limits) if known.status == "ok" else None
        plan = case.plan.get("plan")
        if problem is not None and index > 0:
            known = replace(known, status="over a limit", reason=problem)
        elif problem is not None:
            known = replace(known, beyond=problem)
        elif known.status == "ok" and plan:  # a duplicate where its engine chose it before
            engine, inner = option.case.engine, option.case.variant.items()
            knobs = sorted((k, v) for k, v in inner if k.startswith("knob:"))
            key = (case.graph.fingerprint, engine.spec.name, engine.options, plan, knobs)
            first = plans.setdefault(repr(key), index)
            if first != index:
                name = listed.options[first].key or "the default"
                reason = f"the same plan as {name}"
                known = replace(known, status="duplicate", reason=reason, same_as=first)
        found.append(known)
    return found


def _is_implausible(case: Case, default: Case | None) -> bool:
    """Return True if the case beats a limit of the machine, and the default does not: where both
    do, the limit is wrong."""
    return case.implausible is not None and (default is None or default.implausible is None)


def of_case(case: Case, is_confirmed: bool) -> Known:
    outcome, checked = case.outcome, case.validation
    if outcome.status != "completed":
        status: Fate = "failed" if outcome.status == "skipped" else outcome.status
        return Known(status, outcome.reason, case, is_confirmed)
    if checked is not None and checked.status == "failed":
        reason = checked.reason or "its outputs differ from the reference"
        return Known("wrong", reason, case, is_confirmed)
    return Known("ok", None, case, is_confirmed)


def _beyond(known: Known, limits: Limits) -> str | None:
    """Return the limit that a candidate breaks. What is not known breaks it too."""
    error, size = known.error, known.workspace_bytes
    if limits.error is not None and (error is None or error > limits.error):
        text = "not known" if error is None else f"{error:.3g}"
        return f"error {text}, at most {limits.error:g} is allowed"
    most = limits.workspace_bytes
    if most is not None and size is None:
        return f"its workspace is not known, at most {most} bytes are allowed"
    if most is not None and size is not None and size > most:
        return f"workspace {size} bytes, at most {most} are allowed"
    if limits.deterministic and known.deterministic is None:
        return "not known to be deterministic: its outputs were not compared"
    if limits.deterministic and not known.deterministic:
        return "not deterministic: two runs gave other bytes"
    return None


Part: TypeAlias = "tuple[int, int]"
"""Place of a graph in the tuning, and index of one of its options."""


@dataclass(frozen=True)
class Entrant:
    """One way to run the graphs of a race: an option of one graph, or a combination for all."""

    index: int
    variant: Mapping[str, str]
    parts: tuple[Part, ...]
    is_broken: bool = False
    """True if it leaves a graph with a default that breaks a limit: it wins only if no other is
    left."""


@dataclass(frozen=True)
class Race:
    """Entrants of which one wins; the default has the index 0."""

    listed: Sequence[Listed]
    entrants: Sequence[Entrant]
    short: Mapping[int, Logs] = field(default_factory=dict)
    """Logarithms of the short rounds by entrant, of those that have all of them."""

    def cases(self, entrant: Entrant) -> list[str]:
        """Return the ids of its cases."""
        return [self.listed[place].options[index].case.id for place, index in entrant.parts]

    def logs(self, entrant: Entrant, logs_of_case: Callable[[str], Logs | None]) -> Logs | None:
        """Return the logarithm of the total time in each round that all parts have; None if one
        does not have any."""
        found = [logs_of_case(case_id) for case_id in self.cases(entrant)]
        known = [logs for logs in found if logs is not None and logs.size]
        if len(known) < len(found):
            return None
        rounds = min(logs.size for logs in known)
        weights = [self.listed[place].graph.loaded.repeat for place, _ in entrant.parts]
        if len(known) == 1:
            return known[0]
        parts = zip(weights, known, strict=True)
        total: Logs = np.log(sum(weight * np.exp(logs[:rounds]) for weight, logs in parts))
        return total

    def rivals(self, contenders: Sequence[Contender]) -> list[Contender]:
        """Return the contenders that may win: without those that break a limit, if there are
        others."""
        broken = {entrant.index for entrant in self.entrants if entrant.is_broken}
        return [c for c in contenders if c.index not in broken] or list(contenders)

    def finalists(self, alive: Callable[[Entrant], bool]) -> list[Entrant]:
        """Return the entrants that are alive, without those that are far behind the fastest in each
        of the short rounds. The default stays, and so do those that lack a short round."""
        left = [entrant for entrant in self.entrants if alive(entrant)]
        rows = [entrant.index for entrant in left if entrant.index in self.short]
        near = kept(np.array([self.short[index] for index in rows])) if rows else []
        out = set(rows) - {0} - {rows[row] for row in near}
        return [entrant for entrant in left if entrant.index not in out]


def races_of(
    listed: Sequence[Listed], known: Sequence[Sequence[Known]], *, is_global: bool
) -> list[Race]:
    """Return a race a graph, or one for all graphs."""
    if not is_global:
        made = []
        for place, (each, facts) in enumerate(zip(listed, known, strict=True)):
            rows = enumerate(zip(each.options, facts, strict=True))
            made.append(
                Race(
                    listed,
                    [
                        Entrant(index, option.variant, ((place, index),), known.beyond is not None)
                        for index, (option, known) in rows
                        if known.status == "ok"
                    ],
                )
            )
        return made
    return [Race(listed, [e for e, missing in combinations(listed, known) if not missing])]


def combinations(
    listed: Sequence[Listed], known: Sequence[Sequence[Known]]
) -> list[tuple[Entrant, tuple[str, ...]]]:
    """Return every combination that some graph has, the default first, with the names of the graphs
    that it cannot run."""
    variants = {o.key: o.variant for each in listed for o in each.options}
    made = []
    for number, (key, variant) in enumerate(variants.items()):
        parts, missing = [], []
        for place, (each, facts) in enumerate(zip(listed, known, strict=True)):
            index = original_of(each.options, facts, key)
            if index is None:
                missing.append(each.graph.id.name)
            else:
                parts.append((place, index))
        is_broken = any(known[place][index].beyond is not None for place, index in parts)
        made.append((Entrant(number, variant, tuple(parts), is_broken), tuple(missing)))
    return made


def original_of(options: Sequence[Option], facts: Sequence[Known], key: str) -> int | None:
    """Return the index of the option that runs what this key means; None if nothing does."""
    index = next((i for i, option in enumerate(options) if key_of(option.variant) == key), None)
    while index is not None and facts[index].same_as is not None:
        index = facts[index].same_as
    return index if index is not None and facts[index].status == "ok" else None


def with_short(races: Sequence[Race], document: Document) -> list[Race]:
    """Return the races with the short rounds of their entrants."""
    logs = {case.id: logs_of(case) for case in document.cases}
    made = []
    for race in races:
        found = {entrant.index: race.logs(entrant, logs.get) for entrant in race.entrants}
        whole = {i: own for i, own in found.items() if own is not None and own.size == SHORT_ROUNDS}
        made.append(replace(race, short=whole))
    return made


def contenders_of(race: Race, known: Sequence[Sequence[Known]]) -> list[Contender]:
    """Return the entrants with ordinary rounds in all of their parts that may win."""
    found, facts = [], []
    for entrant in race.entrants:
        parts = [known[place][index] for place, index in entrant.parts]
        if not all(part.is_confirmed and part.status == "ok" for part in parts):
            continue
        by_id = {part.case.id: part.logs for part in parts if part.case is not None}
        logs = race.logs(entrant, by_id.get)
        if logs is None:
            continue
        found.append(Contender(entrant.index, 0, logs))
        facts.append(_facts(parts))
    return race.rivals(ranked(found, facts))


def _facts(parts: Sequence[Known]) -> tuple[bool | None, float | None, int | None]:
    """Return the worst of several parts: determinism, error, workspace."""
    if len(parts) > 1:
        return None, None, None  # combinations are told apart by their order
    (part,) = parts
    return part.deterministic, part.error, part.workspace_bytes
