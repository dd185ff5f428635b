"""Which unit of a fleet measures which cases, and what was taken of what they send. No clock, no
network: events go in, blocks of cases come out.

A graph stays on one unit for all its rounds, because units of one kind differ. When a unit is lost
its open cases go back, as another attempt: to the same unit where it comes back, else to another
one. Each round of a case is taken once, whoever delivers it and however late.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench_schema.document import Case, Outcome

from bench_run.plan.shard import estimate_us, needs_processor, shards_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from bench_run.plan.cases import PlannedCase

GATED, UNGATED = "gated events", "events"
MOST_ATTEMPTS = 3
"""A case with which so many units were lost is given up."""


@dataclass(frozen=True)
class UnitBlock:
    """What a unit measures in one go."""

    number: int
    cases: tuple[PlannedCase, ...]
    done: tuple[Case, ...]
    """What is known of them already; it is not measured again."""
    attempt: int


@dataclass
class CaseProgress:
    """What was taken of a case."""

    case: PlannedCase
    parts: list[Case] = field(default_factory=list)
    rounds: set[int] = field(default_factory=set)
    timing: str | None = None
    """How the device times of these rounds were taken."""
    ended: bool = False
    """A part without a round came: it failed, or a rule stopped it."""
    attempt: int = 0


@dataclass
class Queue:
    """The work of one unit."""

    waiting: list[str] = field(default_factory=list)
    active: list[str] = field(default_factory=list)
    block: int | None = None
    attempts: dict[str, int] = field(default_factory=dict)
    """Attempt by case, as this unit was told."""
    lost: bool = False


class Dispatch:
    """`take` gives what is to be journalled, `next_block` what a unit does next."""

    def __init__(self, cases: Sequence[PlannedCase], rounds: int, *, open_ended: bool) -> None:
        """`open_ended`: a rule adds rounds, so that the unit knows when a case is complete."""
        self._cases = {case.id: CaseProgress(case) for case in cases}
        self._rounds = rounds
        self._open_ended = open_ended
        self._open = dict.fromkeys(self._cases)
        self._queues: dict[str, Queue] = {}
        self._blocks = 0
        self.dropped = 0
        """Results that were there already, or came from a unit that had been given up."""

    # --- what is known ---

    def resume(self, done: Iterable[Case]) -> None:
        """What an earlier run measured."""
        for part in done:
            if part.id in self._cases:
                self._keep(self._cases[part.id], part)

    def _keep(self, known: CaseProgress, part: Case) -> None:
        known.parts.append(part)
        for each in part.rounds:
            if each.device_timing == UNGATED and known.timing == GATED:
                known.rounds.clear()  # these are void: they are measured again without a gate
            known.timing = each.device_timing
            known.rounds.add(each.index)
        known.ended |= not part.rounds or part.outcome.status != "completed"
        if self._is_complete(known):
            self._open.pop(part.id, None)
        else:
            self._open[part.id] = None

    @property
    def open(self) -> Set[str]:
        """Ids of the cases that are not complete."""
        return self._open.keys()

    def _is_complete(self, known: CaseProgress) -> bool:
        if known.ended:
            return True
        return not self._open_ended and len(known.rounds) >= self._rounds

    def remaining(self, name: str) -> int:
        """Rounds of a case that did not come, as far as they are fixed."""
        return max(0, self._rounds - len(self._cases[name].rounds))

    # --- units ---

    def _queue(self, unit: str) -> Queue:
        return self._queues.setdefault(unit, Queue())

    def spread(self, homes: Mapping[str, str], units: Sequence[str]) -> None:
        """Give every open case to a unit: by `homes` (fingerprint to unit), else by cost."""
        open_cases = [self._cases[name].case for name in self.open]
        costs: dict[str, int] = defaultdict(int)
        for case in open_cases:
            costs[case.graph.id.fingerprint] += _cost_us(case)
        free = {meaning: cost for meaning, cost in costs.items() if homes.get(meaning) not in units}
        chosen = {meaning: units[place] for meaning, place in shards_of(free, len(units)).items()}
        for case in open_cases:
            meaning = case.graph.id.fingerprint
            self._queue(chosen.get(meaning) or homes[meaning]).waiting.append(case.id)

    def next_block(self, unit: str) -> UnitBlock | None:
        """All that waits for a unit; None while it is busy, or where nothing does."""
        queue = self._queue(unit)
        if queue.lost or queue.block is not None:
            return None
        names = [name for name in queue.waiting if not self._is_complete(self._cases[name])]
        queue.waiting = []
        if not names:
            return None
        attempt = min(self._cases[name].attempt for name in names)
        later = [name for name in names if self._cases[name].attempt != attempt]
        names = [name for name in names if self._cases[name].attempt == attempt]
        queue.waiting, queue.active = later, names
        self._blocks += 1
        queue.block = self._blocks
        known = [self._cases[name] for name in names]
        queue.attempts.update(dict.fromkeys(names, attempt))
        done = tuple(part for one in known for part in one.parts)
        return UnitBlock(self._blocks, tuple(one.case for one in known), done, attempt)

    def finish(self, unit: str, block: int) -> list[str]:
        """A unit has done its block; cases that it should have completed and did not go back."""
        queue = self._queue(unit)
        if queue.block != block:
            return []
        queue.block = None
        left = [n for n in queue.active if not self._is_complete(self._cases[n])]
        queue.active = []
        if self._open_ended:
            for name in left:
                self._cases[name].ended = True
                self._open.pop(name, None)
            return []
        return self._put_back(left)

    def lose(self, unit: str) -> list[str]:
        """A unit is gone: its open cases, to be given to others by `give`."""
        queue = self._queue(unit)
        names = [n for n in (*queue.active, *queue.waiting) if n in self.open]
        begun = set(queue.active)
        queue.active, queue.waiting, queue.block, queue.lost = [], [], None, True
        return [*self._put_back([n for n in names if n in begun]), *(set(names) - begun)]

    def _put_back(self, names: Sequence[str]) -> list[str]:
        for name in names:
            self._cases[name].attempt += 1
        return list(names)

    def give(self, names: Sequence[str], units: Sequence[str]) -> None:
        """Cases that lost their unit, each graph to the least loaded of these."""
        groups: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names):
            groups[self._cases[name].case.graph.id.fingerprint].append(name)
        queues = {unit: self._queue(unit) for unit in units}
        load_us = {unit: self._load_us(q.active + q.waiting) for unit, q in queues.items()}
        for group in groups.values():
            unit = min(load_us, key=load_us.__getitem__)
            queues[unit].waiting += group
            load_us[unit] += self._load_us(group)

    def _load_us(self, names: Iterable[str]) -> int:
        return sum(_cost_us(self._cases[name].case) for name in names)

    def hopeless(self, names: Sequence[str]) -> Iterator[PlannedCase]:
        """Those with which too many units were lost; they are not given to another one."""
        for name in names:
            if self._cases[name].attempt >= MOST_ATTEMPTS:
                yield self._cases[name].case

    # --- results ---

    def take(self, unit: str, part: Case) -> Case | None:
        """The part with its attempt, if it is to be kept: each round once. Of a unit that was
        given up only rounds count: its end may look like a crash of the case."""
        known, queue = self._cases.get(part.id), self._queue(unit)
        if known is None:
            return None
        fresh = []
        for each in part.rounds:
            # Where a case had to do without a gate, only its rounds without one count.
            if {each.device_timing, known.timing} == {GATED, UNGATED}:
                is_new = each.device_timing == UNGATED
            else:
                is_new = each.index not in known.rounds
            if is_new:
                fresh.append(each)
        counts = bool(fresh) if part.rounds else not (queue.lost or known.ended)
        if not counts:
            self.dropped += 1
            return None
        attempt = queue.attempts.get(part.id, 0)
        kept = replace(part, rounds=tuple(replace(each, attempt=attempt) for each in fresh))
        self._keep(known, kept)
        return kept

    def give_up(self, case: PlannedCase, reason: str) -> Case:
        """The part that ends a case which no unit survived."""
        known = self._cases[case.id]
        part = Case(
            id=case.id,
            graph=case.graph.id,
            engine=case.engine.key,
            variant=case.variant,
            outcome=Outcome("crashed", reason, "measure"),
            work=case.graph.work,
        )
        self._keep(known, part)
        return part


def _cost_us(case: PlannedCase) -> int:
    return estimate_us(case.graph.work, on_processor=needs_processor(case.engine))
