"""The steps from options to a document: load, open the engines, run, save. Shared by CLI and
API."""

from __future__ import annotations

import threading
import uuid
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from bench_schema.document import SCHEMA_VERSION, Document, EngineRecord, Run, Settings, Tool
from bench_schema.settings import RecordedSettings, rows_of
from bench_schema.version import package_version

from bench_run.errors import BenchRunError, IncompleteRunError, OutputError, UsageError
from bench_run.machine.affinity import available_cpus
from bench_run.machine.device_lock import DeviceLock
from bench_run.machine.devices import device_names, devices, refuse_busy, users_of
from bench_run.machine.host import machine
from bench_run.measure.ceilings import add_ceilings
from bench_run.measure.observers.own import check_file
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.options import Validation, cut, grouped
from bench_run.plan.checks import with_golden_inputs
from bench_run.profilers import ncu
from bench_run.progress import Progress
from bench_run.runner.extra_passes import extra_passes
from bench_run.runner.forecast import Forecast
from bench_run.runner.output import FINISHED, Record, check_destinations, interrupted, now
from bench_run.runner.parallel.gate import DeviceGate
from bench_run.runner.parallel.sharing import ALONE, Sharing, share_devices
from bench_run.runner.places import check_run_places
from bench_run.runner.planning import outline_run, plan_opened
from bench_run.runner.referee import Referee, check_until_decided
from bench_run.runner.references import Helpers, ReferenceStore, check_cache, check_references
from bench_run.runner.rounds import Rounds
from bench_run.runner.rules import decided, fixed, one_by_one, precise
from bench_run.text import plain_text
from bench_run.worker.life import Launcher
from bench_run.worker.messages import MeasureCeilings
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bench_schema.document import Device

    from bench_run.measure.budget import Ceilings
    from bench_run.options import Cut, Options
    from bench_run.plan.engines import PlannedEngine
    from bench_run.runner.planning import Planned
    from bench_run.runner.rules import Rule

VERSION = package_version()


def run_benchmark(
    options: Options,
    command: Sequence[str] = (),
    launcher: Launcher | None = None,
    rule_of: RuleOf | None = None,
) -> Document:
    """Run everything that the options request and return the document, saved to their output.
    `launcher`: one whose templates started early; its owner closes it. `rule_of`: another
    rule than that of the options.

    Raises `UsageError`, `GraphError`, `EngineUnavailableError` and `OutputError` before anything is
    measured; what happens to a case later is its outcome. Ctrl-C ends the run early: the document
    holds what was measured and says that it is not complete. Raises `IncompleteRunError` at the end
    of a run that could not write or check all that was asked for.
    """
    if options.counters is not None:
        ncu.check_set(options.counters)
    for path in options.observer:
        check_file(path)
    check_destinations(options)
    check_run_places(options)
    breakdown = TimeBreakdown()
    outline = outline_run(options)
    check_references(outline.engines, options.timeout_s)
    check_cache(options.reference_cache)
    forecast = Forecast(options, outline.graphs, outline.engines)
    first = [forecast.first_line(), *(f"note: {note}" for note in outline.gathered.notes)]
    if outline.reason is not None:
        first.append(f"engine {outline.reason}")
    own = Launcher(options.worker_start, options.timeout_s)
    launcher = launcher or own
    pool = WorkerPool(options.timeout_s, launcher, breakdown)
    helpers = Helpers(options.timeout_s)
    try:
        if options.reference != "none" and available_cpus() > 1:
            helpers.open_early()
        before = users_of(device_names()) if options.require_idle else {}
        for engine in outline.engines:
            launcher.preload(engine)
        with _first_lines(first, quiet=options.quiet):
            planned = plan_opened(outline, pool)
        if options.require_idle:
            used = {pool.facts(engine).device for engine in planned.engines}
            refuse_busy(sorted(used - {"cpu"}), before)
        return run_planned(
            options, planned, pool, command, forecast=forecast, rule_of=rule_of, helpers=helpers
        )
    finally:
        helpers.close()
        pool.close()
        pool.kill()
        own.close()


FIRST_LINES_S = 5.0
"""Time after which a run talks although its engines are not open yet."""


@contextmanager
def _first_lines(lines: Sequence[str], *, quiet: bool) -> Iterator[None]:
    """Print lines when the engines are open, or while that takes long. A run that cannot begin has
    its error only."""

    def say() -> None:
        with Progress(0, quiet=quiet) as talk:
            while left:
                talk.say(left.pop(0))

    left = list(lines)
    timer = threading.Timer(FIRST_LINES_S, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
    say()


def run_planned(
    options: Options,
    planned: Planned,
    pool: WorkerPool,
    command: Sequence[str] = (),
    references: ReferenceStore | None = None,
    forecast: Forecast | None = None,
    rule_of: RuleOf | None = None,
    helpers: Helpers | None = None,
) -> Document:
    """Run these cases and return the document; raises as `run_benchmark` does. `references`: those
    of earlier runs; `rule_of`: another rule than that of the options; `helpers`: workers for
    references that start already."""
    given = cut(options)
    output = given.output
    opened = describe_engines(planned.engines, given, pool)
    if options.until == "decided":
        check_until_decided(options.against, len(planned.engines))
    header = make_header(options, planned, opened, command)
    record = Record.begin(
        output.output, header, planned.cases, resume=output.resume, force=output.force
    )
    order = [case.id for case in planned.cases]
    with Progress(0, quiet=output.quiet) as progress, record:
        if record.finished is not None:
            progress.say(f"{output.output}: {FINISHED}")
            return record.finished
        gate = DeviceGate(DeviceLock(opened.sharing.devices, tell=progress.say))
        references = references or ReferenceStore(
            given.validation,
            {engine.key: engine for engine in planned.engines},
            pool.breakdown,
            helpers,
            gate.touching,
        )
        rounds = Rounds(
            given.sampling,
            planned.cases,
            (rule_of or partial(usual_rule, options))(record.so_far),
            record.add,
            progress,
            pool,
            references,
            gate,
            opened.sharing,
            forecast,
        )
        for note in dict.fromkeys((*planned.notes, *opened.notes, *record.notes)):
            progress.say(f"note: {note}")
        rounds.resume(record.done)
        for case in planned.gathered.failed(planned.engines):
            record.add(case)
        try:
            rounds.run()
            unwritten = extra_passes(output, rounds, record.add, progress)
        except UsageError:  # what ``--until`` asks for cannot be compared
            record.finish(order, complete=True)
            raise
        except KeyboardInterrupt:
            progress.say(interrupted(output.output))
            return record.finish(order, complete=False)
        for note in (*references.notes, *pool.ending_notes()):
            progress.say(f"note: {note}")
        progress.say(pool.breakdown.line())
        document, unsealed = finish_record(record, order)
    problems = (*references.problems, *unwritten, *unsealed)
    if problems:
        raise IncompleteRunError(*problems, document=document)
    return document


RuleOf: TypeAlias = "Callable[[Callable[[Path], Path]], Rule]"
"""Returns the rule of a run, of what saves its results so far to a file."""


def usual_rule(options: Options, save: Callable[[Path], Path]) -> Rule:
    """Return the rule that the options name."""
    fewest, most = options.rounds, options.max_rounds
    rules = [fixed(fewest)]
    if options.precision_ratio is not None:
        rules.append(precise(options.precision_ratio, fewest, most))
    if options.until == "decided":
        referee = Referee(options.against, options.threshold_ratio, save)
        rules.append(decided(referee, fewest, most))
    return one_by_one(*rules)


def finish_record(record: Record, order: Sequence[str]) -> tuple[Document, tuple[str, ...]]:
    """Return the document and remarks. If the document cannot be written, it is as the journal
    holds it, and a remark says what is to be done."""
    try:
        return record.finish(order, complete=True), ()
    except OutputError as error:
        document = record.measured(order)
        return document, (f"{error}; all rounds are in the journal: continue with --resume",)


@dataclass(frozen=True)
class OpenedEngines:
    """Facts of the open engines of a run, and of their devices."""

    engines: tuple[EngineRecord, ...]
    timer: str
    devices: tuple[Device, ...] = ()
    worker_start: Literal["exec", "fork"] = "exec"
    sharing: Sharing = ALONE
    notes: tuple[str, ...] = ()
    """Reports of engines that are not so."""


def describe_engines(
    engines: Sequence[PlannedEngine], given: Cut, pool: WorkerPool
) -> OpenedEngines:
    """Open the engines that are not open yet. Raises `EngineUnavailableError`."""
    facts = {engine.key: pool.facts(engine) for engine in engines}
    clocks = {opened.clock for opened in pool.opened.values()} - {"host"}
    # The accelerators, those that engines run on with their ceilings; none for the processor.
    by_key = {engine.key: engine for engine in engines}
    keys = {key: fact.device for key, fact in facts.items() if fact.device != "cpu"}
    used: tuple[Device, ...] = ()
    if keys:
        used = add_ceilings(
            devices(), keys, given.engines.math, lambda key: _ceilings(by_key[key], pool)
        )
    pool.keep_fresh(engines)
    rows = tuple(
        EngineRecord(key=engine.key, name=engine.spec.name, **asdict(facts[engine.key]))
        for engine in engines
    )
    timer = min(clocks, default="host")
    sharing = share_devices(given.sampling, {key: fact.device for key, fact in facts.items()})
    notes = tuple(note for opened in pool.opened.values() for note in opened.notes)
    return OpenedEngines(rows, timer, used, pool.worker_start, sharing, notes)


def _ceilings(engine: PlannedEngine, pool: WorkerPool) -> Ceilings | None:
    """Measure the peaks of the engine's device; return None if that fails."""
    with suppress(BenchRunError):
        return pool.ask(engine, MeasureCeilings())
    return None


def make_header(
    options: Options, planned: Planned, opened: OpenedEngines, command: Sequence[str]
) -> Document:
    """Return the document of a run before any measurement. Its settings are those of the options,
    without those of unused rules, and facts found since."""
    given: dict[str, Any] = {name: vars(options)[name] for name in rows_of(RecordedSettings)}
    given["timer"] = opened.timer
    if not options.adds_rounds:
        given["max_rounds"] = None
    if options.until is None:
        given["threshold_ratio"] = None
    graphs = planned.gathered.graphs
    if options.init and len(with_golden_inputs(grouped(Validation, options), graphs)) == len(
        graphs
    ):
        given["init"] = ()  # all inputs are golden
    maths = {engine.options.math for engine in planned.engines}
    if len(maths) == 1:
        given["math"] = maths.pop()  # that of the engines, if they have only one
    if not options.hold_threads and all(engine.device != "cpu" for engine in opened.engines):
        given["threads"] = None  # a default that no engine of the run reads
    settings = Settings(
        **given,
        vendor_caches=options.vendor_caches,
        worker_start=opened.worker_start,
        round_preparation="side by side" if opened.sharing.lanes > 1 else "alone",
        device_parallelism=opened.sharing.together(options.companions),
        pass_bytes=next((each.options.pass_bytes for each in planned.engines), None),
        strict=options.strict,
    )
    run = Run(
        id=str(uuid.uuid4()),
        label=None if options.label is None else plain_text(options.label),
        tags={plain_text(name): plain_text(value) for name, value in options.tag},
        started=now(),
        finished=None,
        complete=False,
        command=tuple(map(plain_text, command)),
        tool=Tool("bench-run", VERSION),
        settings=settings,
        shard=options.shard,
        whole=planned.whole,
        notes=opened.notes,
    )
    paths = [case.graph.id.path for case in planned.cases[:1]]
    return Document(SCHEMA_VERSION, run, machine(paths, opened.devices), opened.engines, ())
