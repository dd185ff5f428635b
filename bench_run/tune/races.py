"""The races of all graphs: their candidates listed, built, and raced.

The candidates of a few graphs are built at the same time if that does not disturb measurements
(`building.Benches`).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from bench_run.machine.device_lock import DeviceLock
from bench_run.machine.devices import devices
from bench_run.machine.memory import free_host_bytes
from bench_run.tune.building import Benches, Means, Session, fates_of, repeated, side_by_side
from bench_run.tune.candidates import Lister
from bench_run.tune.choosing import Raced, global_finalists, rank_candidates
from bench_run.tune.racing import (
    RaceSettings,
    choose_finalists,
    close,
    leaders,
    run_all,
    run_race,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.options import Options
    from bench_run.plan.cases import PlannedGraph
    from bench_run.plan.engines import PlannedEngine
    from bench_run.progress import Progress
    from bench_run.runner.planning import Outline
    from bench_run.runner.references import ReferenceStore
    from bench_run.tune.building import Effort
    from bench_run.tune.journal import TuneJournal
    from bench_run.tune.racing import BlockSample, Fate, Option, RaceState
    from bench_run.tune.settings import Tuning
    from bench_run.worker.parent.pool import WorkerPool


MEMORY_SHARE = 0.4
"""Share of the memory that kept plans may take."""
MOST_FINALISTS = 4


@dataclass(frozen=True)
class BenchTools:
    """Tools of a bench."""

    lister: Lister
    means: Means


@dataclass(frozen=True)
class BuiltGraph:
    """A graph whose candidates are listed, and built once there are fates."""

    number: int
    options: Sequence[Option]
    session: Session
    fates: Sequence[Fate] = ()
    took_s: float = 0.0


def build_first(_place: BenchTools, listed: BuiltGraph) -> None:
    if listed.options[0].problem is None:
        listed.session.build(0)


@dataclass(frozen=True)
class Races:
    """State that all races of a tuning share; `run` goes through them once."""

    options: Options
    tuning: Tuning
    outline: Outline
    engines: Sequence[PlannedEngine]
    """Engines of the space."""
    pool: WorkerPool
    references: ReferenceStore
    journal: TuneJournal
    clock: Clock
    effort: Effort
    talk: Progress

    @cached_property
    def _count(self) -> int:
        """Return the number of graphs to build at a time."""
        used = [opened.facts.device for opened in self.pool.opened.values()]
        return side_by_side(self.options, used, len(self.engines), len(self.outline.graphs))

    @cached_property
    def _lock(self) -> DeviceLock:
        used = {opened.facts.device for opened in self.pool.opened.values()} - {"cpu"}
        return DeviceLock(sorted(used), tell=self.talk.say)

    def run(self) -> list[Raced]:
        default = self.outline.engines[0]
        self.references.announce((graph, default.reference) for graph in self.outline.graphs)
        if self._count > 1:
            self.references.compute_ahead()
        if self._lock.problem is not None:
            self.talk.say(f"note: {self._lock.problem}: other runs on the device are not kept away")
        benches = Benches(self.pool, self._count, self._furnish)
        raced = None
        try:
            benches.open(list({e.key: e for e in (default, *self.engines)}.values()))
            raced = self._run_on(benches)
        finally:
            if raced is None:
                self.journal.stop()  # what is killed from here on did not fail
                self.references.stop()
                benches.stop()
        benches.close()
        if self.tuning.scope == "global":
            every = sum(len(each.options) for each in raced)
            most = every if self.tuning.exhaustive else MOST_FINALISTS
            return global_finalists(raced, most)
        return raced

    def _furnish(self, pool: WorkerPool) -> BenchTools:
        specs = tuple(engine.spec.text for engine in self.outline.engines)
        space = replace(self.tuning.space, engines=specs)
        on_device = {o.facts.device for o in self.pool.opened.values()} - {"cpu"}
        sizes = [d.memory_bytes for d in devices() if d.memory_bytes] if on_device else []
        total_bytes = min(sizes) if sizes else free_host_bytes()
        means = Means(
            pool,
            self.references,
            self.options,
            self.journal,
            int(MEMORY_SHARE * total_bytes) // self._count,
            self.effort,
            self._lock,
            self.tuning.limits.deterministic,
        )
        return BenchTools(Lister(space, self.outline.engines[0], self.engines, pool), means)

    def _run_on(self, benches: Benches[BenchTools]) -> list[Raced]:
        raced: list[Raced] = []
        count = len(self.outline.graphs)
        for first in range(0, count, self._count):
            numbers = range(first, min(first + self._count, count))
            with self.pool.breakdown.on("building candidates"):
                begin, left = time.monotonic(), count - first
                is_over = self.clock.race_end(left, len(numbers))
                names = ", ".join(self.outline.graphs[number].id.name for number in numbers)
                self.talk.say(f"building the candidates of {names} ({self.clock.text()})")
                listed = benches.at_once(self._list, numbers)
                if first == 0:  # each worker calibrates its clock when it builds its first plan
                    list(benches.in_turn(build_first, listed))
                fates = benches.at_once(partial(self._build, is_over=is_over), listed)
                took_s = time.monotonic() - begin
                pairs = zip(listed, fates, strict=True)
                built = [replace(each, fates=known, took_s=took_s) for each, known in pairs]
            with self.pool.breakdown.on("racing"):
                raced += benches.in_turn(self._race_built, built)
        return raced

    def _list(self, place: BenchTools, number: int) -> BuiltGraph:
        graph = self.outline.graphs[number]
        options = place.lister.options(graph)
        name = f"{graph.id.fingerprint[:16]} {number}"
        return BuiltGraph(number, options, Session(name, options, place.means))

    def _build(
        self, _: BenchTools, listed: BuiltGraph, is_over: Callable[[], bool]
    ) -> Sequence[Fate]:
        return fates_of(listed.options, listed.session, self.tuning.limits, is_over)

    def _race_built(self, _: BenchTools, built: BuiltGraph) -> Raced:
        graphs, number = self.outline.graphs, built.number
        name = graphs[number].id.name
        self.talk.say(f"tuning {number + 1} of {len(graphs)}: {name} ({self.clock.text()})")
        is_over = self.clock.race_end(len(graphs) - number)
        try:
            return self._race(graphs[number], built, self.clock.with_grace(is_over, built.took_s))
        finally:
            built.session.close()

    def _race(
        self,
        graph: PlannedGraph,
        built: BuiltGraph,
        is_over: Callable[[], bool],
    ) -> Raced:
        options, session, fates = built.options, built.session, list(built.fates)
        entered = [i for i, fate in enumerate(fates) if fate.status == "ok"]
        # A default that breaks a limit is confirmed, and eliminates no candidate in the race.
        is_aside = 0 in entered and len(entered) > 1 and fates[0].beyond is not None
        aside = [0] if is_aside and self.tuning.scope == "layer" else []
        entered = [i for i in entered if i not in aside]
        if not entered:
            self.talk.say(f"  no way to run it: {fates[0].reason}")
            return Raced(graph, options, fates, (), None, _ranks(fates))
        state = self._run(entered, session, is_over)
        # Those that may be confirmed run again, to see which are deterministic; one that is wrong
        # now is out.
        for row in state.within(close(self.tuning.race_margin)):
            index = entered[row]
            if fates[index].deterministic is None:
                fates[index] = repeated(fates[index], session.repeat(index))
            if fates[index].status != "ok":
                state.alive.remove(row)
        ranks = _ranks(fates)
        margin = self.tuning.race_margin
        rank_row = np.array([ranks[i] for i in entered], np.int64)
        always = entered.index(0) if 0 in entered else -1
        finalists, tied = choose_finalists(state, rank_row, always, margin, MOST_FINALISTS)
        if len({options[i].case.engine.key for i in entered}) > 1:
            best = leaders(state, [options[i].case.engine.key for i in entered])
            fine = [row for row in best if entered[row] not in session.failed]
            finalists = list(dict.fromkeys([*finalists, *fine]))
        if self.tuning.exhaustive:
            others = (row for row, i in enumerate(entered) if i not in session.failed)
            finalists = list(dict.fromkeys([*finalists, *others]))
        names = [options[entered[row]].key or "the default" for row in finalists]
        self.talk.say(
            f"  {len(options)} candidates, {len(entered)} raced ({state.blocks} blocks, stopped "
            f"by: {state.stopped_by}){_lead(state)}; finalists: {', '.join(names) or 'none'}"
        )
        for index, outcome in session.failed.items():
            fates[index] = replace(fates[index], status=outcome.status, reason=outcome.reason)
        return Raced(
            graph,
            options,
            fates,
            entered,
            state,
            ranks,
            [*aside, *(entered[f] for f in finalists)],
            [entered[t] for t in tied],
        )

    def _run(
        self,
        entered: Sequence[int],
        session: Session,
        is_over: Callable[[], bool],
    ) -> RaceState:
        def measure(rows: Sequence[int], samples: int) -> Mapping[int, BlockSample]:
            by_option = session.measure([entered[row] for row in rows], samples)
            return {row: by_option[entered[row]] for row in rows if entered[row] in by_option}

        def watch(state: RaceState) -> None:
            alive = {entered[row] for row in state.alive}
            for index in entered:
                if index not in alive:
                    session.release(index)

        if self.tuning.scope == "global":
            return run_all(len(entered), measure, is_over, watch)
        settings = RaceSettings(margin=self.tuning.race_margin)
        always = entered.index(0) if 0 in entered else -1
        return run_race(len(entered), always, measure, settings, is_over, watch)


def _ranks(fates: Sequence[Fate]) -> dict[int, int]:
    return rank_candidates({index: fate.facts for index, fate in enumerate(fates)}, 0)


def _lead(state: RaceState) -> str:
    """Return a phrase on the lead of the fastest over the default."""
    if 0 not in state.alive:
        return ""
    ahead = math.expm1(float(state.behind()[state.alive.index(0)]))
    if ahead == 0:
        return "; the default leads"
    return f"; the fastest leads the default by about {100 * ahead:.1f} %"


RACE_SHARE = 0.6
"""Share of the budget for races; the rest is for the rounds of the finalists."""
GRACE = 0.5
"""Share of the building time by which a race may exceed its share of the budget."""


@dataclass
class Clock:
    """Clock of the remaining budget."""

    budget_s: float | None
    began: float = field(default_factory=time.monotonic)

    def spent_s(self) -> float:
        return time.monotonic() - self.began

    def race_end(self, graphs_left: int, graphs: int = 1) -> Callable[[], bool]:
        """Return a test for the end of the next graphs' share of the time for all races."""
        if self.budget_s is None:
            return lambda: False
        left = max(0.0, RACE_SHARE * self.budget_s - self.spent_s())
        end = time.monotonic() + left * graphs / max(graphs, graphs_left)
        return lambda: time.monotonic() >= end

    def with_grace(self, is_over: Callable[[], bool], took_s: float) -> Callable[[], bool]:
        """Extend the test for a graph with a long build, whose results should be used: it may
        exceed its share by a part of `took_s`, unless all of the budget is used."""
        end = time.monotonic() + GRACE * took_s
        return lambda: self.is_over() or (is_over() and time.monotonic() >= end)

    def is_over(self) -> bool:
        return self.budget_s is not None and self.spent_s() >= self.budget_s

    def text(self) -> str:
        spent = f"{self.spent_s():.0f} s"
        return spent if self.budget_s is None else f"{spent} of {self.budget_s:.0f} s"
