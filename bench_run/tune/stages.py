"""A tuning from options to its record: list, short rounds of all, ordinary rounds of finalists.

Both kinds of rounds are ordinary runs with their own document: workers, references, the gate, the
journal and ``--resume`` are those of every run. The document of the ordinary rounds becomes the
record; that of the short rounds is removed then.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import looks
from bench_schema.files import read, save
from bench_schema.journal import journal_path
from bench_schema.places import check_places, journaled, refuse_replacing
from bench_schema.units import count_text

from bench_run.errors import UsageError
from bench_run.files import writing
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.progress import Progress
from bench_run.runner.benchmark import run_planned
from bench_run.runner.output import check_destinations
from bench_run.runner.places import inputs_of, outputs_of
from bench_run.runner.planning import Planned, check_threads, outline_run
from bench_run.runner.references import check_cache, check_references
from bench_run.runner.rounds import engines_of
from bench_run.runner.rules import MAX_ROUNDS, End, Step
from bench_run.tune.candidates import Lister, tuned_engines
from bench_run.tune.known import Listed, find_known, races_of, with_short
from bench_run.tune.race import Contender, undecided
from bench_run.tune.record import with_choices
from bench_run.tune.settings import SHORT_ROUNDS, Tuning, run_options, short_options
from bench_run.worker.life import Launcher
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_schema.document import Document

    from bench_run.options import Options
    from bench_run.plan.engines import PlannedEngine
    from bench_run.runner.planning import Outline
    from bench_run.runner.rules import Moves, Rule, Sampled
    from bench_run.runner.states import CaseState
    from bench_run.tune.candidates import Option
    from bench_run.tune.known import Entrant, Race
    from bench_run.tune.race import Logs

SHARE_OF_SHORT = 0.6
"""Share of a budget after which no further graph gets its short rounds."""


def tune(options: Options, tuning: Tuning, command: Sequence[str] = ()) -> Document | None:
    """Tune and return the record; None after an interruption: what was measured is kept for
    ``--resume``."""
    clock = Clock(tuning.budget_s)
    options = run_options(options, tuning)
    check_destinations(options)
    _check_places(options, tuning)
    outline = outline_run(options)
    if not outline.graphs:
        raise UsageError("no graph could be read: there is nothing to tune")
    check_references(outline.engines, options.timeout_s)
    check_cache(options.reference_cache)
    with ExitStack() as stack:
        launcher = Launcher(options.worker_start, options.timeout_s)
        stack.callback(launcher.close)
        pool = WorkerPool(options.timeout_s, launcher, TimeBreakdown())
        stack.callback(pool.kill)
        stack.callback(pool.close)
        listed = list_options(options, tuning, outline, pool)
        run = Run(options, tuning, outline, pool, command, listed, clock)
        return run.all()


def finished(tuning: Tuning) -> Document | None:
    """Return the record if the tuning is finished."""
    is_there = Path(tuning.record).is_file() and not journal_path(tuning.record).exists()
    document = read(tuning.record) if is_there else None
    if document is None or document.tuned is None:
        return None
    tuned, space = document.tuned, tuning.space.texts
    for name, before, now in (
        ("space", tuned.space, space),
        ("scope", tuned.scope, tuning.scope),
        ("limits", tuned.limits, tuning.limits),
        ("margin", tuned.margin_ratio, tuning.margin_ratio),
    ):
        if before != now:
            raise UsageError(
                f"--resume: the finished tuning {tuning.record} has another {name}: continue with "
                "the same options, or choose another output"
            )
    return document


def _check_places(options: Options, tuning: Tuning) -> None:
    """Raise `OutputError` if inputs and outputs meet, or a record or document would be lost."""
    record, short = tuning.record, tuning.short_document
    with writing(record):
        own = [*journaled("-o", record), *journaled("-o", short)]
        check_places(inputs_of(options), [*own, *outputs_of(replace(options, output=None))])
        if not options.resume:
            for path in (record, short):
                refuse_replacing(path, force=options.force, resume=False)
    if options.force and not options.resume:
        _remove(short)


def _remove(document: str) -> None:
    """Remove a document and its journal."""
    for path in (Path(document), journal_path(document)):
        path.unlink(missing_ok=True)


class Clock:
    """Time of a tuning, of a budget if there is one."""

    def __init__(self, budget_s: float | None) -> None:
        self._began, self._budget_s = time.monotonic(), budget_s

    def is_over(self, share: float = 1.0) -> bool:
        """Return True once this share of the budget is spent."""
        spent_s = time.monotonic() - self._began
        return self._budget_s is not None and spent_s > share * self._budget_s


def list_options(
    options: Options, tuning: Tuning, outline: Outline, pool: WorkerPool
) -> list[Listed]:
    """Return the options of each graph; engines are opened for it."""
    specs = [engine.spec.text for engine in outline.engines]
    default, engines = outline.engines[0], tuned_engines(options, tuning.space, specs)
    opened = {e.key: e for e in (default, *(varied.engine for varied in engines))}.values()
    check_threads(None, [(engine, pool.facts(engine).device) for engine in opened])
    lister = Lister(tuning.space, default, engines, pool)
    with Progress(0, quiet=options.quiet) as talk:
        failures = [f"{failure.path}: {failure.error}" for failure in outline.gathered.failures]
        for note in (*outline.gathered.notes, *failures):
            talk.say(f"note: {note}")
        listed = [Listed(graph, lister.options(graph)) for graph in outline.graphs]
        count = sum(len(each.options) for each in listed)
        graphs = count_text(len(listed), "graph")
        what = (
            "in ordinary rounds" if tuning.exhaustive else "in two short rounds, then the fastest"
        )
        talk.say(f"{count_text(count, 'candidate')} of {graphs}, {what}")
    return listed


class Run:
    """The rounds of one tuning."""

    def __init__(
        self,
        options: Options,
        tuning: Tuning,
        outline: Outline,
        pool: WorkerPool,
        command: Sequence[str],
        listed: Sequence[Listed],
        clock: Clock,
    ) -> None:
        self._options, self._tuning, self._pool = options, tuning, pool
        self._outline, self._command, self._listed, self._clock = outline, command, listed, clock
        self._is_global = tuning.scope == "global"

    def all(self) -> Document | None:
        """Return the record, None after an interruption."""
        tuning, short, races = self._tuning, None, None
        if not tuning.exhaustive:
            short = self._short()
            if not short.run.complete:
                return None
            races = with_short(self._races(short), short)
        else:
            races = self._races(None)
        document = self._ordinary(races, short)
        if not document.run.complete:
            return None
        record = with_choices(tuning, self._listed, short, document)
        with writing(tuning.record):
            save(tuning.record, record)
        _remove(tuning.short_document)
        return record

    def _races(self, short: Document | None) -> list[Race]:
        cases = {} if short is None else {case.id: case for case in short.cases}
        limits = self._tuning.limits
        known = [find_known(each, cases, {}, limits) for each in self._listed]
        if short is None:  # all may be in the race
            known = [
                [replace(k, status="ok") if k.status == "not tried" else k for k in each]
                for each in known
            ]
        return races_of(self._listed, known, is_global=self._is_global)

    def _short(self) -> Document:
        """Measure all candidates in short rounds."""
        options = short_options(self._options, self._tuning)
        planned = self._planned([o for each in self._listed for o in each.options])
        engines = {e.key: self._short_engine(e, options) for e in planned.engines}
        cases = tuple(replace(c, engine=engines[c.engine.key]) for c in planned.cases)
        planned = replace(planned, engines=tuple(engines.values()), cases=cases)

        def graph_by_graph(sampled: Sampled) -> Moves:
            for each in self._listed:
                if self._clock.is_over(SHARE_OF_SHORT):
                    return
                ids = {option.case.id for option in each.options}
                yield Step(SHORT_ROUNDS, [s for s in sampled.open_states() if s.case.id in ids])

        def at_once(sampled: Sampled) -> Moves:
            yield Step(SHORT_ROUNDS, list(sampled.open_states()))

        rule = at_once if self._tuning.budget_s is None else graph_by_graph
        return self._run(options, planned, rule)

    def _short_engine(self, engine: PlannedEngine, options: Options) -> PlannedEngine:
        """Return the engine as the short rounds need it. Events take less time than records of
        kernels, and tell as well which candidates are far behind."""
        reference = "none" if options.reference == "none" else engine.reference
        own = engine.options
        if own.timer == "auto" and self._pool.facts(engine).device != "cpu":
            own = replace(own, timer="events")
        return replace(engine, reference=reference, options=own)

    def _ordinary(self, races: Sequence[Race], short: Document | None) -> Document:
        """Measure the finalists of all races; the defaults even if they cannot win."""
        wanted = {case_id for race in races for e in race.entrants for case_id in race.cases(e)}
        defaults = [each.options[0].case.id for each in self._listed]
        failed = {c.id for c in (() if short is None else short.cases) if not c.rounds}
        wanted |= set(defaults) - failed
        every = [option for each in self._listed for option in each.options]
        chosen = [option for option in every if option.case.id in wanted]
        if not chosen:
            reasons = [case.outcome.reason for case in (() if short is None else short.cases)]
            problems = [*reasons, *(option.problem for option in every)]
            reason = next(filter(None, problems), "all were left out")
            _remove(self._tuning.short_document)
            raise UsageError(f"no graph has a candidate that runs: {reason}")
        options = self._options
        counts = counts_of(options.rounds, options.max_rounds if options.until else options.rounds)
        rule = Confirmation(races, self._tuning, defaults, counts, self._clock.is_over)
        return self._run(options, self._planned(chosen), rule)

    def _planned(self, options: Sequence[Option]) -> Planned:
        cases = tuple(option.case for option in options if option.problem is None)
        gathered = replace(self._outline.gathered, failures=(), notes=())
        return Planned(engines_of(cases), cases, gathered)

    def _run(self, options: Options, planned: Planned, rule: Rule) -> Document:
        if options.resume and not _is_begun(options.output):
            options = replace(options, resume=False)
        return run_planned(options, planned, self._pool, self._command, rule_of=lambda _: rule)


def _is_begun(output: str | None) -> bool:
    return output is not None and (Path(output).exists() or journal_path(output).exists())


def counts_of(fewest: int, most: int) -> list[int]:
    """Return the numbers of rounds at looks: of the usual ones about each second one, since the
    workers of a few cases start anew after each."""
    found: list[int] = []
    for count in looks(fewest, most) if most > fewest else (fewest,):
        if not found or count >= 2 * found[-1] or count == most:
            found.append(count)
    return found


class Confirmation:
    """The rule of the ordinary rounds: all finalists, then those that more rounds may decide."""

    def __init__(
        self,
        races: Sequence[Race],
        tuning: Tuning,
        defaults: Sequence[str],
        counts: Sequence[int],
        is_over: Callable[[], bool],
    ) -> None:
        """`defaults`: ids of cases that have the first rounds anyway. `counts`: numbers of rounds
        after which it looks. `is_over`: returns True when the time is used up."""
        self._races, self._margin_ratio = races, tuning.margin_ratio
        self._defaults, self._counts, self._is_over = frozenset(defaults), counts, is_over
        self._looks = len(looks(counts[0], counts[-1])) if len(counts) > 1 else 1

    def __call__(self, sampled: Sampled) -> Moves:
        chosen: list[list[Entrant]] = []
        due: list[CaseState] = []
        for count in self._counts:
            seen: set[str] = set()
            while True:  # again with others in place of those that turned out to be wrong
                states = {state.case.id: state for state in sampled.open_states()}
                if count == self._counts[0]:
                    chosen = [r.finalists(partial(_is_right, r, states)) for r in self._races]
                ids = self._cases(chosen) | (frozenset() if due else self._defaults)
                new = [states[case_id] for case_id in ids - seen if case_id in states]
                if not new:
                    break
                seen |= ids
                yield Step(count, new)
            measured = [states[case_id] for case_id in seen if case_id in states]
            measured = [state for state in measured if state.ended is None]
            chosen = [self._still(*each, states) for each in zip(self._races, chosen, strict=True)]
            ids = self._cases(chosen)
            due = [state for state in measured if state.case.id in ids]
            yield End([state for state in measured if state.case.id not in ids], "settled")
            settled = sum(not entrants for entrants in chosen)
            what = "graphs are" if len(self._races) > 1 else "is"
            sampled.say(f"after {count} rounds: {settled} of {len(self._races)} {what} settled")
            if not due or self._is_over():
                break
        yield End(due, MAX_ROUNDS)

    def _cases(self, chosen: Sequence[Sequence[Entrant]]) -> frozenset[str]:
        """Return the ids of the cases of these entrants; a race of one has no cases to measure."""
        return frozenset(
            case_id
            for race, entrants in zip(self._races, chosen, strict=True)
            for entrant in entrants
            if len(entrants) > 1 or entrant.index
            for case_id in race.cases(entrant)
        )

    def _still(
        self, race: Race, chosen: Sequence[Entrant], states: Mapping[str, CaseState]
    ) -> list[Entrant]:
        """Return the entrants that need more rounds."""
        contenders = []
        for entrant in chosen:
            if _is_right(race, states, entrant):
                logs = race.logs(entrant, lambda case_id: _logs(states[case_id]))
                if logs is not None:
                    contenders.append(Contender(entrant.index, 0, logs))
        still = undecided(race.rivals(contenders), self._margin_ratio, self._looks)
        return [entrant for entrant in chosen if entrant.index in still]


def _logs(state: CaseState) -> Logs:
    return np.array([each.log for each in state.in_order()])


def _is_right(race: Race, states: Mapping[str, CaseState], entrant: Entrant) -> bool:
    found = [states.get(case_id) for case_id in race.cases(entrant)]
    return all(state is not None and not state.is_wrong for state in found)
