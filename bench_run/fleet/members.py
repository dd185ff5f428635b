"""The units of a fleet that can run its engines: started, asked what they are, chosen by kind."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench_run.errors import BenchRunError, EngineUnavailableError
from bench_run.runner.benchmark import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.fleet.cluster import Cluster, Slot
    from bench_run.fleet.unit import UnitFacts
    from bench_run.progress import Progress
    from bench_run.runner.planning import Outline

START_S = 120.0
"""How long a unit may take to start and to open its engines, beside `--timeout`."""


@dataclass(eq=False)
class Member:
    """A unit, as the run sees it."""

    slot: Slot
    facts: UnitFacts | None = None
    promise: Any = None
    """Of the answer that is waited for."""
    asked: float = 0.0
    question: str = ""
    received: int = 0
    block: int = 0
    lost: bool = False
    restarts: int = 0
    before: tuple[str, ...] = ()
    """Which hardware it was, where it is started anew."""
    orphans: list[str] = field(default_factory=list)
    """Cases that wait for it to come back."""
    at: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        return f"{self.slot.host}/{self.slot.key[:6]}{self.slot.key[-2:]}"


def open_units(cluster: Cluster, outline: Outline, talk: Progress) -> list[Member]:
    """The units that can run the engines, of the kind that there is most of. Raises
    `EngineUnavailableError` where there is none."""
    members = [Member(slot) for slot in cluster.slots()]
    problems = []
    for member in members:
        cluster.start(member.slot, outline.options)
        member.promise = cluster.ask(member.slot, "open", outline.engines)
    until = time.monotonic() + START_S + outline.options.timeout_s
    for member in members:
        problem = _opened(cluster, member, until)
        if problem is not None:
            cluster.end(member.slot)
            problems.append(f"unit {member.name}: {problem}")
    usable = _of_one_kind([m for m in members if m.facts is not None], problems)
    for member in members:
        if member not in usable:
            cluster.end(member.slot)
    if not usable:
        raise EngineUnavailableError("; ".join(problems) or "the cluster has no unit to measure on")
    for problem in problems:
        talk.say(f"note: left out: {problem}")
    hosts = len({member.slot.node for member in usable})
    talk.say(f"{_counted(len(usable), 'unit')} on {_counted(hosts, 'node')}")
    return usable


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _opened(cluster: Cluster, member: Member, until: float) -> str | None:
    """Why a unit cannot be used."""
    if not cluster.wait([member.promise], max(0.0, until - time.monotonic())):
        return "it did not start: busy with other work, or out of reach"
    try:
        facts: UnitFacts = cluster.answer(member.promise)
    except BenchRunError as error:
        return str(error)
    if facts.version != VERSION:
        return f"it has version {facts.version} of bench-run, this is {VERSION}"
    member.facts = facts
    member.promise = None
    return None


def _of_one_kind(members: Sequence[Member], problems: list[str]) -> list[Member]:
    """The most numerous kind; and one unit of each node where engines run on its processors."""
    kinds = Counter(member.facts.kind for member in members if member.facts is not None)
    if not kinds:
        return []
    kind = max(kinds, key=lambda each: (kinds[each], str(each)))
    usable, nodes = [], set()
    for member in members:
        assert member.facts is not None
        if member.facts.kind != kind:
            problems.append(f"unit {member.name}: another kind of device or library")
        elif member.slot.node in nodes and _uses_processor(member.facts):
            problems.append(f"unit {member.name}: one unit of a host measures its processors")
        else:
            usable.append(member)
            nodes.add(member.slot.node)
    return usable


def _uses_processor(facts: UnitFacts) -> bool:
    return any(engine.device == "cpu" for engine in facts.opened.engines)
