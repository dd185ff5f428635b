"""`--ray`: a run whose cases are measured by the units of a Ray cluster.

The plan, the order, the journal and the document are the run's, here; units measure. A unit that is
lost gives its cases back; what it sends afterwards is taken where it is not there yet.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bench_schema.document import Part, Surroundings

from bench_run.errors import (
    BenchRunError,
    EngineUnavailableError,
    IncompleteRunError,
    UsageError,
)
from bench_run.fleet.cluster import Cluster, LostError, connect
from bench_run.fleet.dispatch import Dispatch
from bench_run.fleet.unit import Unit
from bench_run.plan.engines import EVERY
from bench_run.progress import Progress
from bench_run.runner.benchmark import VERSION, finish_record, make_header
from bench_run.runner.output import FINISHED, Record, check_destinations, interrupted
from bench_run.runner.places import check_run_places
from bench_run.runner.planning import outline_run, plan_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_schema.document import Case, Document, Machine

    from bench_run.fleet.cluster import Cluster, Slot
    from bench_run.fleet.unit import News, UnitFacts
    from bench_run.options import Options
    from bench_run.plan.engines import PlannedEngine
    from bench_run.runner.planning import Planned


# The units of a fleet that can run its engines: started, asked what they are, chosen by kind.

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


def open_units(
    cluster: Cluster, options: Options, engines: Sequence[PlannedEngine], talk: Progress
) -> list[Member]:
    """The units that can run the engines, of the kind that there is most of. Raises
    `EngineUnavailableError` where there is none."""
    members = [Member(slot) for slot in cluster.slots()]
    problems = []
    for member in members:
        cluster.start(member.slot, options)
        member.promise = cluster.ask(member.slot, "open", engines)
    until = time.monotonic() + START_S + options.timeout_s
    for member in members:
        problem = _opened(cluster, member, until)
        if problem is not None:
            cluster.end(member.slot)
            problems.append(f"unit {member.name}: {problem}")
    # The most numerous kind; and one unit of each node where engines run on its processors.
    able = [(member, member.facts) for member in members if member.facts is not None]
    kinds = Counter(facts.kind for _, facts in able)
    kind = max(kinds, key=lambda each: (kinds[each], str(each)), default=())
    usable: list[Member] = []
    nodes = set()
    for member, facts in able:
        on_processors = any(engine.device == "cpu" for engine in facts.opened.engines)
        if facts.kind != kind:
            problems.append(f"unit {member.name}: another kind of device or library")
        elif on_processors and member.slot.node in nodes:
            problems.append(f"unit {member.name}: one unit of a host measures its processors")
        else:
            usable.append(member)
            nodes.add(member.slot.node)
    for member in (other for other in members if other not in usable):
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


SILENT_S = 90.0
"""A unit that answers no question for so long is given up; it may still be heard later."""
RESTARTS = 2
"""How often a unit is started anew on a node that is still there."""
WAIT_S = 1.0
ELSEWHERE = {
    "trace": "--trace",
    "counters": "--counters",
    "write_golden": "--write-golden",
    "save_outputs": "--save-outputs",
}
"""What writes files where cases are measured: on other hosts."""


def check_ray(options: Options) -> None:
    """Raises `UsageError` for what a fleet cannot do."""
    for name, flag in ELSEWHERE.items():
        if getattr(options, name) is not None:
            raise UsageError(f"{flag} does not go with --ray: the files would be on other hosts")
    if options.until is not None:
        raise UsageError("--until does not go with --ray: use --precision")
    if options.parallel is not None or options.require_idle:
        flag = "--require-idle" if options.require_idle else "--parallel"
        raise UsageError(f"{flag} is for the devices of one host: leave out --ray")
    if options.device != 0 and options.device != (0,):
        raise UsageError("--device does not go with --ray, which uses every GPU of the cluster")


def run_fleet(options: Options, command: Sequence[str] = (), unit: type[Unit] = Unit) -> Document:
    """As `run_benchmark`, with the same errors, on the cluster that `options.ray` names."""
    assert options.ray is not None
    check_ray(options)
    check_destinations(options)
    check_run_places(options)
    outline = outline_run(options)
    with connect(options.ray, unit) as cluster, Progress(0, quiet=options.quiet) as talk:
        for note in outline.gathered.notes:
            talk.say(f"note: {note}")
        if outline.reason is not None:
            talk.say(f"engine {outline.reason}")
        members = open_units(cluster, options, outline.engines, talk)
        variants = {}
        if any(engine.spec.id == EVERY for engine in outline.engines):
            variants = cluster.answer(cluster.ask(members[0].slot, "variants", outline))
        planned = plan_run(outline, outline.engines, variants)
        # The first unit stands for all, which are of one kind; each host is a part.
        facts = [member.facts for member in members if member.facts is not None]
        header = make_header(options, planned, facts[0].opened, command)
        machines: dict[str, Machine] = {}
        for each in facts:
            first = machines.setdefault(each.machine.host, each.machine)
            known = {device.uuid: device for device in (*first.devices, *each.machine.devices)}
            known.update(
                {d.uuid: d for d in (*first.devices, *each.machine.devices) if d.ceiling_gbps}
            )
            machines[each.machine.host] = replace(first, devices=tuple(known.values()))
        machine = replace(
            next(iter(machines.values())), graphs_revision=header.machine.graphs_revision
        )
        parts = tuple(Part(header.run, each) for each in machines.values())
        beside = len({member.slot.node for member in members}) < len(members)
        settings = replace(header.run.settings, device_parallelism="measure" if beside else "none")
        header = replace(
            header, run=replace(header.run, settings=settings), machine=machine, parts=parts
        )
        record = Record.begin(
            options.output, header, planned.cases, resume=options.resume, force=options.force
        )
        total = len(planned.cases) * options.rounds
        with Progress(total, quiet=options.quiet) as progress, record:
            if record.finished is not None:
                progress.say(f"{options.output}: {FINISHED}")
                return record.finished
            return Fleet(cluster, options, planned, members, record, progress).run()


class Fleet:
    """The run while units measure."""

    def __init__(
        self,
        cluster: Cluster,
        options: Options,
        planned: Planned,
        members: Sequence[Member],
        record: Record,
        progress: Progress,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._planned = planned
        self._members = {member.slot.key: member for member in members}
        self._record = record
        self._progress = progress
        self._problems: list[str] = []
        """What units could not do."""
        self._homeless: list[str] = []
        """Cases that no unit is there for."""
        self._dispatch = Dispatch(
            planned.cases, options.rounds, open_ended=options.precision_ratio is not None
        )

    def run(self) -> Document:
        order = [case.id for case in self._planned.cases]
        for note in self._record.notes:
            self._progress.say(f"note: {note}")
        self._dispatch.resume(self._record.done)
        for case in self._planned.gathered.failed(self._planned.engines):
            self._record.add(case)
        self._dispatch.spread(self._homes(self._record.done), list(self._members))
        try:
            whole = self._serve()
        except LostError as error:
            self._progress.say(f"the cluster is lost: {error}: continue with --resume")
            whole = False
        except KeyboardInterrupt:
            self._progress.say(interrupted(self._options))
            return self._record.finish(order, complete=False)
        if self._dispatch.dropped:
            self._progress.say(f"note: {self._dispatch.dropped} results came twice or too late")
        if not whole:
            return self._record.finish(order, complete=False)
        document, unsealed = finish_record(self._record, order)
        problems = (*self._problems, *unsealed)
        if problems:
            raise IncompleteRunError(*problems, document=document)
        return document

    def _homes(self, done: Iterable[Case]) -> dict[str, str]:
        """The unit that measured a graph before, where it is here again."""
        units = {m.facts.identity: key for key, m in self._members.items() if m.facts is not None}
        names = {(one[0], device): key for one, key in units.items() for device in one[1:]}
        homes = {}
        for case in done:
            for each in case.rounds[:1]:
                key = names.get((each.host or "", each.device_uuid or "cpu"))
                if key is not None:
                    homes[case.graph.fingerprint] = key
        return homes

    # --- the loop ---

    def _serve(self) -> bool:
        """Until every case is complete; false where no unit is left for some."""
        while self._dispatch.open:
            for key, member in self._members.items():
                if member.lost or member.promise is not None or member.facts is None:
                    continue
                block = self._dispatch.next_block(key)
                if block is not None:
                    self._cluster.ask(member.slot, "start", self._cluster.share(block))
                    member.block = block.number
                    self._ask(member, "poll", member.received, block.number)
            waited = [m.promise for m in self._members.values() if m.promise is not None]
            if not waited:
                self._progress.say("every unit is lost: continue with --resume")
                return False
            for promise in self._cluster.wait(waited, WAIT_S):
                self._hear(promise)
            limit_s = {"poll": SILENT_S, "open": START_S + self._options.timeout_s}
            for member in list(self._members.values()):
                if member.promise is None or member.lost or self._able() == [member.slot.key]:
                    continue  # for the only one there is nobody to take over
                if time.monotonic() - member.asked > limit_s[member.question]:
                    self._lose(
                        member, f"silent for {limit_s[member.question]:g} s", heard_later=True
                    )
        return True

    def _ask(self, member: Member, question: str, *arguments: object) -> None:
        member.promise = self._cluster.ask(member.slot, question, *arguments)
        member.asked, member.question = time.monotonic(), question

    def _hear(self, promise: Any) -> None:
        member = next(m for m in self._members.values() if m.promise is promise)
        member.promise = None
        try:
            answer = self._cluster.answer(promise)
        except BenchRunError as error:
            self._lose(member, str(error))
            return
        if member.question == "open":
            member.facts = answer
            self._progress.say(f"note: unit {member.name} is back")
            names, member.orphans = member.orphans, []
            names, self._homeless = [*names, *self._homeless], []
            self._place(
                names, [member.slot.key] if answer.identity == member.before else self._able()
            )
            return
        news: News = answer
        for place, part in enumerate(news.results, news.first):
            if place >= member.received:
                self._keep(member, part)
        member.received = max(member.received, news.first + len(news.results))
        if member.at != news.at:
            member.at = news.at
            self._progress.start_case(news.at[0], f"{news.at[1]}, {member.name}")
        if member.lost:  # heard once more: what it measures has been given to others
            self._cluster.end(member.slot)
        elif news.finished is None:
            self._ask(member, "poll", member.received, member.block)
        else:
            left = self._dispatch.finish(member.slot.key, news.finished)
            if news.problem is not None:
                self._progress.say(f"note: unit {member.name}: {news.problem}")
                self._problems.append(f"{member.slot.host}: {news.problem}")
            self._place(left, self._able())

    def _keep(self, member: Member, part: Case) -> None:
        kept = self._dispatch.take(member.slot.key, part)
        if kept is None:
            return
        beside = tuple(
            device
            for other in self._members.values()
            if other is not member and other.slot.node == member.slot.node and not other.lost
            for device in (() if other.facts is None else other.facts.identity[1:2])
        )
        rounds = kept.rounds
        if beside:
            rounds = tuple(
                replace(
                    each,
                    surroundings=replace(each.surroundings or Surroundings(), companions=beside),
                )
                for each in rounds
            )
        self._record.add(replace(kept, rounds=rounds))
        for _ in kept.rounds:
            self._progress.finish_case()

    # --- units that come and go ---

    def _lose(self, member: Member, reason: str, *, heard_later: bool = False) -> None:
        if member.lost:
            return
        self._progress.say(f"note: unit {member.name} is lost: {reason}")
        names = [*self._dispatch.lose(member.slot.key), *member.orphans]
        member.orphans = []
        member.lost = True
        if not heard_later:
            self._cluster.end(member.slot)
            if member.restarts < RESTARTS and self._cluster.is_alive(member.slot):
                # The same unit first: its cases wait until it is there again, or is not.
                slot = replace(member.slot, key=f"{member.slot.key}+")
                before = member.before if member.facts is None else member.facts.identity
                again = Member(slot, restarts=member.restarts + 1, before=before, orphans=names)
                self._members[slot.key] = again
                self._cluster.start(again.slot, self._options)
                self._ask(again, "open", self._planned.engines)
                return
        self._place(names, self._able())

    def _able(self) -> list[str]:
        return [k for k, m in self._members.items() if not m.lost and m.facts is not None]

    def _place(self, names: Sequence[str], units: Sequence[str]) -> None:
        """Give cases to these units; what too many units were lost with is given up."""
        hopeless = {case.id: case for case in self._dispatch.hopeless(names)}
        for case in hopeless.values():
            reason = "every unit that measured it was lost"
            self._record.add(self._dispatch.give_up(case, reason))
        rest = [name for name in names if name not in hopeless]
        if rest and units:
            self._dispatch.give(rest, units)
        elif rest:
            self._homeless += rest
