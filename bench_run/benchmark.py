"""From options to a document: load, open the engines, run, save. What the CLI and the API share."""

from __future__ import annotations

import contextlib
import json
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from bench_run.crew import Crew
from bench_run.engines import choose_auto
from bench_run.engines.base import EngineFacts
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineUnavailableError, OutputError, UsageError
from bench_run.gather import Gathered, gather
from bench_run.machine import machine
from bench_run.options import Options
from bench_run.plan import PlannedCase, PlannedEngine, plan_cases, plan_engines, plan_graph
from bench_run.progress import Progress
from bench_run.session import Session
from bench_schema.document import SCHEMA_VERSION, Case, Document, Engine, Run, Settings, Tool
from bench_schema.journal import Journal, assemble, journal_path, read_journal, seal

VERSION = "0.1.0"


@dataclass(frozen=True)
class Planned:
    """A run before anything is measured."""

    engines: tuple[PlannedEngine, ...]
    cases: tuple[PlannedCase, ...]
    gathered: Gathered
    reason: str | None
    """Why the engine was chosen, when the user left the choice to us."""


def plan_run(options: Options) -> Planned:
    """Graphs and engines of a run. Raises `UsageError` and `GraphError`."""
    gathered = gather(options)
    texts, reason = _engine_texts(options)
    engines = plan_engines(options, [parse_spec(text) for text in texts])
    graphs = [plan_graph(loaded) for loaded in gathered.graphs]
    return Planned(engines, plan_cases(graphs, engines, {}), gathered, reason)


def _engine_texts(options: Options) -> tuple[tuple[str, ...], str | None]:
    if options.a is not None and options.b is not None:
        return (options.a, options.b), None
    if options.engine and options.engine != ("auto",):
        return options.engine, None
    text, reason = choose_auto()
    return (text,), reason


def expand_variants(planned: Planned, crew: Crew) -> Planned:
    """Ask engines that have several variants of a graph (``cudnn:all``) which they are."""
    asked = {engine.key for engine in planned.engines if engine.spec.id == "all"}
    if not asked:
        return planned
    graphs = {case.graph.id.path: case.graph for case in planned.cases}
    variants = {
        (path, engine.key): crew.variants(engine, graph.loaded.graph)
        for engine in planned.engines
        if engine.key in asked
        for path, graph in graphs.items()
    }
    cases = plan_cases(graphs.values(), planned.engines, variants)
    return replace(planned, cases=cases)


def run_benchmark(options: Options, command: Sequence[str] = ()) -> Document:
    """Run everything that `options` ask for and return the document, saved where asked.

    Raises `UsageError`, `GraphError`, `EngineUnavailableError` and `OutputError` before anything is
    measured; what happens to a case later is its outcome. Ctrl-C ends the run early: the document
    holds what was measured and says that it is not complete.
    """
    planned = plan_run(options)
    with Progress(0, quiet=options.quiet) as talk:
        for note in planned.gathered.notes:
            talk.say(f"note: {note}")
        if planned.reason is not None:
            talk.say(f"engine {planned.engines[0].key}: {planned.reason}")
    opened = _open_all(planned, options)
    planned = opened.planned
    header = _header(options, planned, opened.engines, opened.timer, command)
    record = Record.begin(options, header)
    total = len(planned.cases) * options.rounds
    with Progress(total, quiet=options.quiet) as progress, record:
        session = Session(options, planned.cases, record.add, progress, {})
        session.resume(record.done)
        for case in planned.gathered.failed(planned.engines):
            record.add(case)
        try:
            session.run()
        except KeyboardInterrupt:
            progress.say("interrupted: what was measured is kept; go on with --resume")
            return record.finish(complete=False)
    return record.finish(complete=True)


@dataclass(frozen=True)
class OpenedRun:
    planned: Planned
    engines: tuple[Engine, ...]
    timer: str


def _open_all(planned: Planned, options: Options) -> OpenedRun:
    """Open each engine once before anything is measured: one that is not there ends the run."""
    crew = Crew(options.timeout_s, {})
    try:
        facts = {}
        for engine in planned.engines:
            try:
                facts[engine.key] = crew.facts(engine)
            except EngineUnavailableError as error:
                raise EngineUnavailableError(f"engine {engine.key}: {error}") from None
        planned = expand_variants(planned, crew)
        clocks = {opened.clock for opened in crew.opened.values()}
    finally:
        crew.close()
    engines = tuple(_engine_row(engine, facts[engine.key]) for engine in planned.engines)
    clocks.discard("host")
    return OpenedRun(planned, engines, next(iter(sorted(clocks)), "host"))


def _engine_row(engine: PlannedEngine, facts: EngineFacts) -> Engine:
    return Engine(key=engine.key, name=engine.spec.name, **asdict(facts))


def _header(
    options: Options, planned: Planned, engines: tuple[Engine, ...], timer: str,
    command: Sequence[str],
) -> Document:
    run = Run(
        id=str(uuid.uuid4()),
        label=options.label,
        tags=dict(options.tag),
        started=_now(),
        finished=None,
        complete=False,
        command=tuple(command),
        tool=Tool("bench-run", VERSION),
        settings=settings_of(options, timer),
    )
    paths = [case.graph.id.path for case in planned.cases[:1]]
    return Document(SCHEMA_VERSION, run, machine(paths), engines, ())


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
    )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """The operating system's refusal to write as one line that names the file."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


class Record:
    """Keeps what is measured: in the journal beside the output, or in memory without one."""

    def __init__(self, header: Document, output: Path | None, journal: Journal | None) -> None:
        self._header = header
        self._output = output
        self._journal = journal
        self._parts: list[Case] = []
        self.done: tuple[Case, ...] = ()

    @classmethod
    def begin(cls, options: Options, header: Document) -> Record:
        """A fresh record, or the one that ``--resume`` goes on with."""
        if options.output is None:
            return cls(header, None, None)
        output = Path(options.output)
        path = journal_path(output)
        with writing(output):
            if options.resume:
                earlier = _earlier(output, path)
                if earlier is not None:
                    return cls._go_on(header, output, path, earlier)
            elif path.exists():
                raise UsageError(
                    f"{path} holds an unfinished run: go on with --resume, or delete it"
                )
            if output.is_dir():
                raise OutputError(f"cannot write {output}: it is a folder")
            return cls(header, output, Journal.create(path, header))

    @classmethod
    def _go_on(cls, header: Document, output: Path, path: Path, earlier: Document) -> Record:
        _refuse_other_settings(earlier, header)
        if path.exists():
            journal = Journal.reopen(path)
        else:
            journal = Journal.create(path, replace(earlier, cases=()))
            for case in earlier.cases:
                journal.append_case(case)
        record = cls(header, output, journal)
        record.done = earlier.cases
        return record

    def __enter__(self) -> Record:
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()

    def add(self, case: Case) -> None:
        """Keep one partial case, on disk before anything else is measured."""
        if self._journal is None or self._output is None:
            self._parts.append(case)
            return
        with writing(self._output):
            self._journal.append_case(case)

    def finish(self, *, complete: bool) -> Document:
        """The document, sealed in place of the journal where there is an output."""
        if self._output is None:
            return assemble(self._header, self._parts, finished=_now(), complete=complete)
        with writing(self._output):
            return seal(
                journal_path(self._output), self._output, finished=_now(), complete=complete
            )


def _earlier(output: Path, path: Path) -> Document | None:
    """The run to go on with: its journal, or the document of an interrupted run."""
    if path.exists():
        return read_journal(path)
    if output.exists():
        from bench_schema.codec import read

        return read(output)
    return None


def _refuse_other_settings(earlier: Document, header: Document) -> None:
    """A resumed run must go on as it began, or its numbers would not belong together."""
    before, now = asdict(earlier.run.settings), asdict(header.run.settings)
    for name, value in now.items():
        if before[name] != value:
            raise UsageError(
                f"--resume: the unfinished run has {name} {json.dumps(before[name])}, "
                f"this one {json.dumps(value)}"
            )


def command_line() -> tuple[str, ...]:
    """How this process was called, program name shortened."""
    return (Path(sys.argv[0]).name, *sys.argv[1:])


