"""A tuning from options to its record: list, build, race, confirm, decide.

Everything but the race is the ordinary runner's: the pool of workers, references, rounds, the
journal of the document. Only the rounds of the finalists are ever shown as times.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil

from bench_run.errors import OutputError, UsageError
from bench_run.machine.devices import devices
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.progress import Progress
from bench_run.runner.benchmark import VERSION, run_planned
from bench_run.runner.output.destinations import check_destinations
from bench_run.runner.output.record import now
from bench_run.runner.planning import Planned, outline_run
from bench_run.runner.references.engines import check_references
from bench_run.runner.references.spool import check_cache
from bench_run.runner.references.store import ReferenceStore
from bench_run.runner.rounds import Brought, engines_of
from bench_run.runner.stopping import until_settled
from bench_run.tune.candidates import Lister, Option, tuned_engines
from bench_run.tune.choosing.decide import rank_candidates
from bench_run.tune.choosing.whole import global_finalists
from bench_run.tune.confirm import Confirmation
from bench_run.tune.fates import fates_of, repeated
from bench_run.tune.findings import Raced, Tuned
from bench_run.tune.journal import TuneJournal
from bench_run.tune.racing.heats import (
    CLOSE,
    RaceState,
    Visit,
    choose_finalists,
    run_all,
    run_energy_race,
    run_race,
)
from bench_run.tune.racing.rules import RaceSettings
from bench_run.tune.session import Effort, Means, Session
from bench_run.tune.settings import Tuning, run_options
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_schema.document import Document

    from bench_run.options import Options
    from bench_run.plan.cases import PlannedGraph
    from bench_run.runner.planning import Outline
    from bench_run.runner.stopping import Rule
    from bench_run.tune.fates import Fate

RACE_SHARE = 0.6
"""Of the budget; the rest is for the rounds of the finalists."""
GRACE = 0.5
"""Of the time that building took: as long may a race go on that has used up its share."""
MEMORY_SHARE = 0.4
"""Of the memory, which plans that are kept may take."""
MOST_FINALISTS = 4
INTERRUPTED = "interrupted: what was measured is kept; continue with --resume"


@dataclass
class Clock:
    """How much of the budget is left."""

    budget_s: float | None
    began: float = field(default_factory=time.monotonic)

    def spent_s(self) -> float:
        return time.monotonic() - self.began

    def race_end(self, graphs_left: int) -> Callable[[], bool]:
        """Whether the next graph has used up its share of the time for all races."""
        if self.budget_s is None:
            return lambda: False
        left = max(0.0, RACE_SHARE * self.budget_s - self.spent_s())
        end = time.monotonic() + left / max(1, graphs_left)
        return lambda: time.monotonic() >= end

    def with_grace(self, is_over: Callable[[], bool], took_s: float) -> Callable[[], bool]:
        """For the race of a graph that took so long to build: what was built should not be in vain,
        so it may take a part of that more than its share, unless all of the budget is gone."""
        end = time.monotonic() + GRACE * took_s
        return lambda: self.is_over() or (is_over() and time.monotonic() >= end)

    def is_over(self) -> bool:
        return self.budget_s is not None and self.spent_s() >= self.budget_s

    def text(self) -> str:
        spent = f"{self.spent_s():.0f} s"
        return spent if self.budget_s is None else f"{spent} of {self.budget_s:.0f} s"


def tune(options: Options, tuning: Tuning, command: Sequence[str] = ()) -> Tuned | None:
    """None where it was interrupted: what is known is kept for ``--resume``."""
    options = run_options(options, tuning)
    check_destinations(options)
    check_destinations(replace(options, output=tuning.record))
    breakdown, started = TimeBreakdown(), now()
    outline = outline_run(options)
    if not outline.graphs:
        raise UsageError("no graph could be read: there is nothing to tune")
    check_references(outline.engines, options.timeout_s)
    check_cache(options.reference_cache)
    pool = WorkerPool(options.timeout_s, {}, breakdown, options.fresh)
    try:
        return Stages(options, tuning, outline, pool).run(started, command)
    finally:
        pool.close()
        pool.kill()


class Stages:
    """One tuning; `run` goes through it once."""

    def __init__(
        self,
        options: Options,
        tuning: Tuning,
        outline: Outline,
        pool: WorkerPool,
    ) -> None:
        self._options, self._tuning, self._outline = options, tuning, outline
        self._pool = pool
        self._effort, self._clock = Effort(), Clock(tuning.budget_s)
        self._notes = [f"{failure.path}: {failure.error}" for failure in outline.gathered.failures]

    def run(self, started: str, command: Sequence[str]) -> Tuned | None:
        specs = [engine.spec.text for engine in self._outline.engines]
        engines = tuned_engines(self._options, self._tuning.space, specs)
        default = self._outline.engines[0]
        for engine in {e.key: e for e in (default, *engines)}.values():
            self._pool.facts(engine)
        self._check_counters()
        space = replace(self._tuning.space, engines=tuple(specs))
        lister = Lister(space, default, engines, self._pool)
        known = {engine.key: engine for engine in (default, *engines)}
        references = ReferenceStore(self._options, known, self._pool.breakdown)
        journal = TuneJournal(self._tuning.record, self._head(specs), resume=self._options.resume)
        with Progress(0, quiet=self._options.quiet) as talk:
            for note in (*self._outline.gathered.notes, *self._notes):
                talk.say(f"note: {note}")
            raced = None
            try:
                raced = self._race_all(lister, references, journal, talk)
            except KeyboardInterrupt:
                talk.say(INTERRUPTED)
                return None
            finally:
                if raced is None:
                    references.close()
                    journal.close(done=False)
        race_s = self._clock.spent_s()
        document = None
        try:
            document = self._confirm(raced, references, command)
        except KeyboardInterrupt:
            with Progress(0, quiet=self._options.quiet) as talk:
                talk.say(INTERRUPTED)
        finally:
            journal.close(done=document is not None and document.run.complete)
        if document is None or not document.run.complete:
            return None
        self._notes += self._told_of_budget(raced)
        confirm_s = self._clock.spent_s() - race_s
        return Tuned(
            self._tuning, self._options, engines, raced, document, started,
            self._effort, race_s, confirm_s, self._notes, command, VERSION,
        )  # fmt: skip

    def _check_counters(self) -> None:
        """Raises `UsageError` where joules are wanted of what nobody counts them for."""
        here = [key for key, opened in self._pool.opened.items() if opened.facts.device == "cpu"]
        if self._tuning.objective != "time" and here:
            raise UsageError(
                f"--objective {self._tuning.objective}: {here[0]} runs on the processor, whose "
                "energy is not counted"
            )

    def _told_of_budget(self, raced: Sequence[Raced]) -> list[str]:
        """What there was too little time for."""
        budget_s = self._tuning.budget_s
        if budget_s is None:
            return []
        ended = sum(each.state is not None and each.state.stopped_by == "budget" for each in raced)
        missed = sum(fate.status == "not tried" for each in raced for fate in each.fates)
        notes = [f"the budget ended the race of {ended} of {len(raced)} graphs"] if ended else []
        many = "" if missed == 1 else "s"
        notes += [f"the budget left {missed} candidate{many} untried"] if missed else []
        spent_s = self._clock.spent_s()
        if spent_s > 1.05 * budget_s:
            took = f"{spent_s:.0f} s, {budget_s:.0f} s were allowed"
            notes.append(f"it took {took}: every finalist has {self._options.rounds} rounds")
        return notes

    def _head(self, specs: Sequence[str]) -> dict[str, object]:
        """What has to be the same where an unfinished tuning is gone on with."""
        o, t = self._options, self._tuning
        facts = {key: opened.facts for key, opened in self._pool.opened.items()}
        return {
            "graphs": [graph.id.fingerprint for graph in self._outline.graphs],
            "engines": list(specs),
            "libraries": {k: dict(f.libraries) for k, f in facts.items() if k in specs},
            "devices": {k: f.device for k, f in facts.items() if k in specs},
            "space": list(t.space.texts),
            "scope": t.scope,
            "objective": t.objective,
            "limits": asdict(t.limits),
            "margin": t.margin_ratio,
            "settings": [o.cache, o.timer, o.duty, o.math, o.seed, list(o.init), o.reference],
        }

    def _race_all(
        self, lister: Lister, references: ReferenceStore, journal: TuneJournal, talk: Progress
    ) -> list[Raced]:
        graphs = self._outline.graphs
        references.announce((graph, self._outline.engines[0].reference) for graph in graphs)
        means = Means(
            self._pool, references, self._options, journal, self._room(), self._effort,
            self._tuning.limits.deterministic,
        )  # fmt: skip
        raced = []
        for number, graph in enumerate(graphs):
            talk.say(
                f"tuning {number + 1} of {len(graphs)}: {graph.id.name} ({self._clock.text()})"
            )
            is_over = self._clock.race_end(len(graphs) - number)
            options = lister.options(graph)
            name = f"{graph.id.fingerprint[:16]} {number}"
            session = Session(name, options, means)
            try:
                raced.append(self._race(graph, options, session, is_over, talk))
            finally:
                session.close()
        if self._tuning.scope == "global":
            return global_finalists(raced, MOST_FINALISTS)
        return raced

    def _room(self) -> int:
        """Bytes that plans of one graph may take together."""
        on_device = {o.facts.device for o in self._pool.opened.values()} - {"cpu"}
        sizes = [d.memory_bytes for d in devices() if d.memory_bytes] if on_device else []
        total = min(sizes) if sizes else int(psutil.virtual_memory().available)
        return int(MEMORY_SHARE * total)

    def _race(
        self,
        graph: PlannedGraph,
        options: Sequence[Option],
        session: Session,
        is_over: Callable[[], bool],
        talk: Progress,
    ) -> Raced:
        begin = time.monotonic()
        fates = fates_of(options, session, self._tuning.limits, is_over)
        is_over = self._clock.with_grace(is_over, time.monotonic() - begin)
        entered = [i for i, fate in enumerate(fates) if fate.status == "ok"]
        aside = self._set_aside(entered, fates)
        entered = [i for i in entered if i not in aside]
        if not entered:
            talk.say(f"  no way to run it: {fates[0].reason}")
            return Raced(graph, options, fates, (), None, _ranks(fates))
        state = self._run(entered, session, is_over)
        self._run_again(entered, fates, state, session)
        ranks = _ranks(fates)
        margin = self._tuning.race_margin
        rank_row = np.array([ranks[i] for i in entered], np.int64)
        always = entered.index(0) if 0 in entered else -1
        finalists, tied = choose_finalists(state, rank_row, always, margin, MOST_FINALISTS)
        names = [options[entered[row]].key or "the default" for row in finalists]
        talk.say("  " + _race_text(len(options), len(entered), state, names))
        for index, outcome in session.failed.items():
            fates[index] = replace(fates[index], status=outcome.status, reason=outcome.reason)
        return Raced(
            graph, options, fates, entered, state, ranks,
            [*aside, *(entered[f] for f in finalists)], [entered[t] for t in tied],
        )  # fmt: skip

    def _set_aside(self, entered: Sequence[int], fates: Sequence[Fate]) -> list[int]:
        """A default that breaks a limit: it is confirmed, and drops nobody in the race."""
        others = [i for i in entered if i != 0]
        layers = self._tuning.scope == "layer"
        return [0] if layers and others and 0 in entered and fates[0].beyond is not None else []

    def _run_again(
        self,
        entered: Sequence[int],
        fates: list[Fate],
        state: RaceState,
        session: Session,
    ) -> None:
        """Those that may be confirmed, to see which are deterministic; one that is wrong now is
        out."""
        for row in state.within(CLOSE * self._tuning.race_margin):
            index = entered[row]
            if fates[index].deterministic is None:
                fates[index] = repeated(fates[index], session.repeat(index))
            if fates[index].status != "ok":
                state.alive.remove(row)

    def _run(
        self,
        entered: Sequence[int],
        session: Session,
        is_over: Callable[[], bool],
    ) -> RaceState:
        objective = self._tuning.objective

        def measure(
            rows: Sequence[int], samples: int, what: str = objective
        ) -> Mapping[int, Visit]:
            visits = session.measure([entered[row] for row in rows], samples, what)
            return {row: visits[entered[row]] for row in rows if entered[row] in visits}

        def measure_times(rows: Sequence[int], samples: int) -> Mapping[int, Visit]:
            return measure(rows, samples, "time")

        def watch(state: RaceState) -> None:
            alive = {entered[row] for row in state.alive}
            for index in entered:
                if index not in alive:
                    session.release(index)

        if self._tuning.scope == "global":
            return run_all(len(entered), measure, is_over, watch)
        settings = RaceSettings(margin=self._tuning.race_margin)
        always = entered.index(0) if 0 in entered else -1
        if objective != "time":
            return run_energy_race(
                len(entered), always, measure_times, measure, settings, is_over, watch
            )
        return run_race(len(entered), always, measure, settings, is_over, watch)

    def _confirm(
        self, raced: Sequence[Raced], references: ReferenceStore, command: Sequence[str]
    ) -> Document:
        """The finalists of all graphs as one ordinary run."""
        cases = [each.options[index].case for each in raced for index in each.finalists]
        if not cases:
            raise UsageError(f"no graph has a candidate that runs: {raced[0].fates[0].reason}")
        self._pool.close()
        engines = engines_of(cases)
        gathered = replace(self._outline.gathered, failures=())
        planned = Planned(engines, tuple(cases), gathered)
        options = self._options
        if Path(self._tuning.document).is_dir():
            raise OutputError(f"cannot write {self._tuning.document}: it is a directory")
        brought = Brought(references, self._rule(raced))
        return run_planned(options, planned, self._pool, command, brought)

    def _rule(self, raced: Sequence[Raced]) -> Rule | None:
        """More rounds where it is not settled who wins."""
        options = self._options
        if options.until is None:
            return None
        confirmation = Confirmation(raced, self._tuning, options, self._clock.is_over)
        return partial(until_settled, options=options, find_open=confirmation.find_open)


def _ranks(fates: Sequence[Fate]) -> dict[int, int]:
    return rank_candidates({index: fate.facts for index, fate in enumerate(fates)}, 0)


def _race_text(listed: int, entered: int, state: RaceState, finalists: Sequence[str]) -> str:
    """What a race came to, in a line: who leads, and by how much over the default."""
    blocks = f"{state.blocks} blocks, stopped by: {state.stopped_by}"
    names = ", ".join(finalists) or "none"
    return f"{listed} candidates, {entered} raced ({blocks}){_lead(state)}; finalists: {names}"


def _lead(state: RaceState) -> str:
    if 0 not in state.alive:
        return ""
    ahead = math.expm1(float(state.behind()[state.alive.index(0)]))
    if ahead == 0:
        return "; the default leads"
    return f"; the fastest leads the default by about {100 * ahead:.1f} %"
