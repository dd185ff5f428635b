"""A tuning from options to its record: list, build, race, confirm, decide.

Everything but the race is the ordinary runner's: the pool of workers, references, rounds, the
journal of the document. Only the rounds of the finalists are ever shown as times.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import looks
from bench_schema.places import Place, check_places, journaled, refuse_replacing

from bench_run.errors import OutputError, UsageError
from bench_run.files import writing
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.options import Validation, grouped
from bench_run.progress import Progress
from bench_run.runner.benchmark import VERSION, run_planned
from bench_run.runner.output import check_destinations, now
from bench_run.runner.places import inputs_of, outputs_of
from bench_run.runner.planning import Planned, outline_run
from bench_run.runner.references import ReferenceStore, check_cache, check_references
from bench_run.runner.rounds import engines_of
from bench_run.runner.rules import fixed, one_by_one, settled
from bench_run.tune.building import Effort
from bench_run.tune.candidates import tuned_engines
from bench_run.tune.choosing import Finalist, open_finalists
from bench_run.tune.journal import TuneJournal, race_path, renewed
from bench_run.tune.races import Clock, Races
from bench_run.tune.record import TuneResult
from bench_run.tune.settings import Tuning, run_options
from bench_run.worker.life import Launcher
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_schema.document import Document

    from bench_run.options import Options
    from bench_run.runner.planning import Outline
    from bench_run.runner.states import CaseState
    from bench_run.tune.choosing import Raced

INTERRUPTED = "interrupted: what was measured is kept; continue with --resume"


def tune(options: Options, tuning: Tuning, command: Sequence[str] = ()) -> TuneResult | None:
    """Tune; return None after an interruption: the journal stays for ``--resume``."""
    options = run_options(options, tuning)
    check_destinations(options)
    check_destinations(replace(options, output=tuning.record))
    _check_places(options, tuning)
    breakdown, started = TimeBreakdown(), now()
    outline = outline_run(options)
    if not outline.graphs:
        raise UsageError("no graph could be read: there is nothing to tune")
    check_references(outline.engines, options.timeout_s)
    check_cache(options.reference_cache)
    launcher = Launcher(options.worker_start, options.timeout_s)
    pool = WorkerPool(options.timeout_s, launcher, breakdown)
    try:
        return Stages(options, tuning, outline, pool).run(started, command)
    finally:
        pool.close()
        pool.kill()
        launcher.close()


def _check_places(options: Options, tuning: Tuning) -> None:
    """Raise `OutputError` if inputs and outputs meet, or a record or document would be lost."""
    record, document = tuning.record, tuning.document
    races = race_path(record)
    force, resume = options.force, options.resume
    with writing(record):
        kept = [
            Place("-o", record),
            *(Place("-o", str(path)) for path in (races, renewed(races))),
            *journaled("--document", document),
            *outputs_of(replace(options, output=None)),
        ]
        check_places(inputs_of(options), kept)
        refuse_replacing(record, force=force, resume=resume, journal=str(races))
        if not races.exists():  # else it belongs to what is gone on with
            refuse_replacing(document, force=force, resume=resume, flag="--document")


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

    def run(self, started: str, command: Sequence[str]) -> TuneResult | None:
        specs = [engine.spec.text for engine in self._outline.engines]
        engines = tuned_engines(self._options, self._tuning.space, specs)
        default = self._outline.engines[0]
        for engine in {e.key: e for e in (default, *engines)}.values():
            self._pool.facts(engine)
        known = {engine.key: engine for engine in (default, *engines)}
        references = ReferenceStore(grouped(Validation, self._options), known, self._pool.breakdown)
        journal = TuneJournal(
            self._tuning.record,
            self._head(specs),
            resume=self._options.resume,
            force=self._options.force,
        )
        with Progress(0, quiet=self._options.quiet) as talk:
            for note in (*self._outline.gathered.notes, *self._notes):
                talk.say(f"note: {note}")
            raced = None
            try:
                races = Races(
                    self._options,
                    self._tuning,
                    self._outline,
                    engines,
                    self._pool,
                    references,
                    journal,
                    self._clock,
                    self._effort,
                    talk,
                )
                raced = races.run()
                talk.say(f"races: {self._pool.breakdown.line()}")
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
        self._notes += self._budget_notes(raced)
        confirm_s = self._clock.spent_s() - race_s
        return TuneResult(
            self._tuning,
            self._options,
            engines,
            raced,
            document,
            started,
            self._effort,
            race_s,
            confirm_s,
            self._notes,
            command,
            VERSION,
        )

    def _budget_notes(self, raced: Sequence[Raced]) -> list[str]:
        """Return notes on steps that the budget cut."""
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
        """Return the properties that must be equal to resume an unfinished tuning."""
        o, t = self._options, self._tuning
        facts = {key: opened.facts for key, opened in self._pool.opened.items()}
        return {
            "graphs": [graph.id.fingerprint for graph in self._outline.graphs],
            "engines": list(specs),
            "libraries": {k: dict(f.libraries) for k, f in facts.items() if k in specs},
            "devices": {k: f.device for k, f in facts.items() if k in specs},
            "space": list(t.space.texts),
            "scope": t.scope,
            "limits": asdict(t.limits),
            "margin": t.margin_ratio,
            "settings": [o.cache, o.timer, o.duty, o.math, o.seed, list(o.init), o.reference],
        }

    def _confirm(
        self, raced: Sequence[Raced], references: ReferenceStore, command: Sequence[str]
    ) -> Document:
        """Measure the finalists of all graphs as one ordinary run; return its document."""
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
        fewest, most = options.rounds, options.max_rounds
        rule = fixed(fewest)
        if options.until is not None:  # more rounds if the winner is not sure
            confirmation = Confirmation(raced, self._tuning, options, self._clock.is_over)
            rule = one_by_one(rule, settled(confirmation.find_open, fewest, most))
        return run_planned(
            options, planned, self._pool, command, references, rule_of=lambda _: rule
        )


class Confirmation:
    """Selection of finalists that need more rounds; for the rule `settled`."""

    def __init__(
        self, raced: Sequence[Raced], tuning: Tuning, options: Options, is_over: Callable[[], bool]
    ) -> None:
        """`is_over`: returns True when the time is used up."""
        self._raced, self._tuning, self._is_over = raced, tuning, is_over
        self._most = options.max_rounds
        self._looks = len(looks(options.rounds, options.max_rounds))

    def find_open(self, states: Mapping[str, CaseState]) -> frozenset[str]:
        """Return the ids of the cases of graphs without a sure winner. One combination for all
        graphs is chosen from equally many rounds of all."""
        if self._tuning.scope == "global" or self._is_over():
            return frozenset()
        due: set[str] = set()
        for each in self._raced:
            finalists = []
            for index in each.finalists:
                state = states.get(each.options[index].case.id)
                if state is None or state.is_wrong or state.ended:
                    continue
                rounds = state.in_order()
                times = np.array([each.log for each in rounds])
                finalists.append(Finalist(index, each.ranks[index], times))
            rivals = each.rivals(finalists)
            margin_ratio = self._tuning.margin_ratio
            more = open_finalists(rivals, 0, margin_ratio, self._looks, self._most)
            if more:  # a default that may not win has its time shown too
                more |= {f.index for f in finalists} - {f.index for f in rivals}
            due |= {each.options[index].case.id for index in more}
        return frozenset(due)
