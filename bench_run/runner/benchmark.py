"""From options to a document: load, open the engines, run, save. What the CLI and the API share."""

from __future__ import annotations

import sys
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.document import SCHEMA_VERSION, Document, Engine, Run, Settings, Tool

from bench_run.engines import choose_auto
from bench_run.engines.spec import parse_spec
from bench_run.errors import BenchRunError, EngineUnavailableError, UsageError
from bench_run.machine.devices import devices
from bench_run.machine.host import machine
from bench_run.measure.ceilings import add_ceilings
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.plan.cases import (
    EVERY,
    PlannedCase,
    PlannedEngine,
    PlannedGraph,
    asks_several,
    on_devices,
    plan_cases,
    plan_engines,
    plan_graph,
)
from bench_run.plan.checks import check_options
from bench_run.plan.load import Gathered, gather
from bench_run.plan.rerun import Wanted, narrowed, read_wanted
from bench_run.progress import Progress
from bench_run.runner.extra_passes import check_extra, extra_passes
from bench_run.runner.record import Record, now
from bench_run.runner.rounds import Rounds
from bench_run.worker.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Device

    from bench_run.engines.base import EngineFacts
    from bench_run.options import Options

VERSION = "0.1.0"


@dataclass(frozen=True)
class Planned:
    """A run before anything is measured."""

    engines: tuple[PlannedEngine, ...]
    cases: tuple[PlannedCase, ...]
    gathered: Gathered
    reason: str | None
    """Why the engine was chosen, when the user left the choice to us."""
    wanted: Wanted | None = None
    """The pairs of graph and engine that are to be run; None for all."""


def plan_run(options: Options) -> Planned:
    """Graphs and engines of a run. Raises `UsageError` and `GraphError`."""
    wanted = None if options.rerun_from is None else read_wanted(options.rerun_from)
    if wanted is not None:
        options = narrowed(options, wanted)
    gathered = gather(options)
    notes = check_options(options, gathered.graphs)
    gathered = replace(gathered, notes=(*gathered.notes, *notes))
    texts, reason = _engine_texts(options)
    engines = plan_engines(options, [parse_spec(text) for text in texts])
    graphs = [plan_graph(loaded) for loaded in gathered.graphs]
    cases = plan_cases(graphs, engines, {})
    planned = Planned(engines, cases, gathered, reason, wanted)
    return planned if asks_several(options) else replace(planned, cases=_only(cases, wanted))


def _only(cases: tuple[PlannedCase, ...], wanted: Wanted | None) -> tuple[PlannedCase, ...]:
    """The cases that a comparison left open."""
    if wanted is None:
        return cases
    kept = tuple(c for c in cases if (c.graph.id.fingerprint, c.engine.key) in wanted.pairs)
    if not kept:
        raise UsageError("--rerun-from: none of its open cases is among these graphs and engines")
    return kept


def _engine_texts(options: Options) -> tuple[tuple[str, ...], str | None]:
    if options.a is not None and options.b is not None:
        return (options.a, options.b), None
    if options.engine and options.engine != ("auto",):
        return options.engine, None
    text, reason = choose_auto()
    return (text,), reason


def expand_devices(options: Options, planned: Planned, pool: WorkerPool) -> Planned:
    """Each engine on each of the devices asked for, as many as it sees."""
    visible = {engine.key: pool.opened[engine.key].devices for engine in planned.engines}
    engines = on_devices(options, planned.engines, visible)
    if engines == planned.engines:
        return replace(planned, cases=_only(planned.cases, planned.wanted))
    graphs = [plan_graph(loaded) for loaded in planned.gathered.graphs]
    cases = _only(plan_cases(graphs, engines, {}), planned.wanted)
    return replace(planned, engines=engines, cases=cases)


def opened_on_devices(options: Options, planned: Planned) -> Planned:
    """The run with its engines on every device asked for, found out by opening them."""
    pool = WorkerPool(options.timeout_s, {})
    try:
        _facts(planned.engines, pool)
        return expand_devices(options, planned, pool)
    finally:
        pool.close()


def expand_variants(planned: Planned, pool: WorkerPool) -> Planned:
    """Ask engines that have several variants of a graph (``cudnn:all``) which they are."""
    asked = {engine.key for engine in planned.engines if engine.spec.id == EVERY}
    if not asked:
        return planned
    graphs = {case.graph.id.path: case.graph for case in planned.cases}
    variants = {
        (path, engine.key): _variants(pool, engine, graph)
        for engine in planned.engines
        if engine.key in asked
        for path, graph in graphs.items()
    }
    cases = plan_cases(graphs.values(), planned.engines, variants)
    return replace(planned, cases=_only(cases, planned.wanted))


def _variants(
    pool: WorkerPool, engine: PlannedEngine, graph: PlannedGraph
) -> tuple[Mapping[str, str], ...]:
    """The engine's variants for a graph; one where it lists none: running that says why."""
    try:
        return pool.variants(engine, graph.loaded.graph)
    except BenchRunError:
        return ({},)


def run_benchmark(options: Options, command: Sequence[str] = ()) -> Document:
    """Run everything that `options` ask for and return the document, saved where asked.

    Raises `UsageError`, `GraphError`, `EngineUnavailableError` and `OutputError` before anything is
    measured; what happens to a case later is its outcome. Ctrl-C ends the run early: the document
    holds what was measured and says that it is not complete.
    """
    check_extra(options)
    breakdown = TimeBreakdown()
    planned = plan_run(options)
    with Progress(0, quiet=options.quiet) as talk:
        for note in planned.gathered.notes:
            talk.say(f"note: {note}")
        if planned.reason is not None:
            talk.say(f"engine {planned.reason}")
    pool = WorkerPool(options.timeout_s, {}, breakdown)
    try:
        opened = _open_all(planned, options, pool)
        record = Record.begin(options, _header(options, opened, command))
        return _measured(options, opened.planned, record, pool, breakdown)
    finally:
        pool.close()


def _measured(
    options: Options, planned: Planned, record: Record, pool: WorkerPool, breakdown: TimeBreakdown
) -> Document:
    order = [case.id for case in planned.cases]
    total = len(order) * options.rounds
    with Progress(total, quiet=options.quiet) as progress, record:
        rounds = Rounds(options, planned.cases, record.add, progress, pool, breakdown)
        rounds.resume(record.done)
        for case in planned.gathered.failed(planned.engines):
            record.add(case)
        try:
            rounds.run()
            extra_passes(options, rounds, record.add, progress)
        except KeyboardInterrupt:
            progress.say("interrupted: what was measured is kept; go on with --resume")
            return record.finish(order, complete=False)
        progress.say(breakdown.line())
    return record.finish(order, complete=True)


@dataclass(frozen=True)
class OpenedRun:
    planned: Planned
    engines: tuple[Engine, ...]
    timer: str
    devices: tuple[Device, ...] = ()


def _open_all(planned: Planned, options: Options, pool: WorkerPool) -> OpenedRun:
    """Open each engine once before anything is measured: one that is not there ends the run."""
    _facts(planned.engines, pool)
    planned = expand_devices(options, planned, pool)
    facts = _facts(planned.engines, pool)
    planned = expand_variants(planned, pool)
    clocks = {opened.clock for opened in pool.opened.values()}
    found = _devices(planned, facts, pool, options)
    pool.keep_fresh(planned.engines)
    engines = tuple(_engine_row(engine, facts[engine.key]) for engine in planned.engines)
    clocks.discard("host")
    return OpenedRun(planned, engines, next(iter(sorted(clocks)), "host"), found)


def _facts(engines: Sequence[PlannedEngine], pool: WorkerPool) -> dict[str, EngineFacts]:
    """What each engine says of itself, by key. Raises `EngineUnavailableError`."""
    facts = {}
    for engine in engines:
        try:
            facts[engine.key] = pool.facts(engine)
        except EngineUnavailableError as error:
            raise EngineUnavailableError(f"engine {engine.key}: {error}") from None
    return facts


def _devices(
    planned: Planned, facts: Mapping[str, EngineFacts], pool: WorkerPool, options: Options
) -> tuple[Device, ...]:
    """The accelerators, those that engines run on with their ceilings; none for the processor."""
    keys = {key: fact.device for key, fact in facts.items() if fact.device != "cpu"}
    if not keys:
        return ()
    by_key = {engine.key: engine for engine in planned.engines}
    return add_ceilings(devices(), keys, options.math, lambda key: pool.ceilings(by_key[key]))


def _engine_row(engine: PlannedEngine, facts: EngineFacts) -> Engine:
    return Engine(key=engine.key, name=engine.spec.name, **asdict(facts))


def _header(options: Options, opened: OpenedRun, command: Sequence[str]) -> Document:
    run = Run(
        id=str(uuid.uuid4()),
        label=options.label,
        tags=dict(options.tag),
        started=now(),
        finished=None,
        complete=False,
        command=tuple(command),
        tool=Tool("bench-run", VERSION),
        settings=settings_of(options, opened.timer),
    )
    paths = [case.graph.id.path for case in opened.planned.cases[:1]]
    return Document(SCHEMA_VERSION, run, machine(paths, opened.devices), opened.engines, ())


def settings_of(options: Options, timer: str) -> Settings:
    return Settings(
        timer=timer,
        cache=options.cache,
        duty=options.duty,
        math=options.math,
        replay=options.replay,
        warmup=options.warmup,
        iterations=options.iterations,
        rounds=options.rounds,
        min_time_s=options.min_time_s,
        max_time_s=options.max_time_s,
        precision_ratio=options.precision_ratio,
        timeout_s=options.timeout_s,
        seed=options.seed,
        reference=options.reference,
        tolerance=options.tolerance,
        rtol=options.rtol,
        atol=options.atol,
        check_budget_s=options.check_budget_s,
        init=options.init,
        executions=options.executions,
        knobs=dict(options.knob),
        max_rounds=options.max_rounds if options.precision_ratio is not None else None,
    )


def command_line() -> tuple[str, ...]:
    """How this process was called, program name shortened."""
    return (Path(sys.argv[0]).name, *sys.argv[1:])
