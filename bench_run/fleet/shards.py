"""A run in shards: a process for each device or host, and one document of all.

`--device all` has a shard for each GPU of this host, `--ray` one for each GPU of a cluster. A graph
stays in its shard for all rounds. Each shard is an ordinary run with `--shard` and its own journal;
one that dies is started again and continues from its journal. At the end the documents are merged.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench_schema.files import read
from bench_schema.journal import journal_path
from bench_schema.settings import RecordedSettings, rows_of

from bench_run.errors import BenchRunError, EngineUnavailableError, IncompleteRunError, UsageError
from bench_run.files import Scratch
from bench_run.fleet.join import join_documents
from bench_run.fleet.shard import End, Job, ShardProcess
from bench_run.machine.devices import devices
from bench_run.options import STDOUT, Engines, grouped
from bench_run.plan.engines import computes_on_host, engine_texts
from bench_run.progress import Progress
from bench_run.runner.benchmark import run_benchmark
from bench_run.runner.early import early_launcher
from bench_run.runner.output import FINISHED, OutputLock, check_destinations, interrupted
from bench_run.runner.places import check_run_places
from bench_run.runner.planning import outline_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bench_schema.document import Document

    from bench_run.options import Options
    from bench_run.runner.planning import Outline

POLL_S = 0.05
RESTARTS = 2
"""Number of times that a shard is started again after its process died."""
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Variables that choose the devices of a process."""
WRITTEN_ONCE: Mapping[str, None] = dict.fromkeys(("save_graphs", "save_suite"))
"""Options of what describes the whole run: the first shard writes it."""
FOUND_OUT = ("timer", "max_rounds", "threshold_ratio", "threads")
"""Settings whose value in a document may differ from the requested one."""
WHOLE = {"ray": None, "csv": None, "csv_samples": None, "markdown": None, "watch": False}
"""Options that concern the document of all shards."""


class Shard(Protocol):
    """A shard that was started."""

    def end(self) -> End | None:
        """Return its end; None while it runs."""

    def stop(self) -> None:
        """Interrupt it; return when it has ended."""


class Place(Protocol):
    """A device or a host that runs one shard at a time."""

    @property
    def name(self) -> str: ...

    @property
    def companions(self) -> tuple[str, ...]:
        """Other devices of its host that measure at the same time, by uuid or index."""

    def is_usable(self) -> bool:
        """Return True if it can be reached."""

    def start(self, job: Job, part: Path, hear: Callable[[str], object]) -> Shard:
        """Start a shard that writes its document to `part`, and continues what is there."""


@dataclass(frozen=True)
class LocalPlace:
    """A device of this host, or a part of its processors."""

    name: str
    environment: Mapping[str, str | None]
    companions: tuple[str, ...] = ()
    cpus: Sequence[int] = ()

    def is_usable(self) -> bool:
        return True

    def start(self, job: Job, part: Path, hear: Callable[[str], object]) -> Shard:
        return ShardProcess(replace(job, cpus=self.cpus), part, self.environment, hear)


def local_places(options: Options) -> list[LocalPlace]:
    """Return the GPUs that this process may use, each with its share of the processors. Raises
    `UsageError` and `EngineUnavailableError`."""
    known = {str(d.index): d.uuid or str(d.index) for d in devices()}
    listed = next((os.environ[name] for name in VISIBLE if name in os.environ), ",".join(known))
    visible = [word.strip() for word in listed.split(",") if word.strip()]
    if not visible:
        raise EngineUnavailableError("--device all: no GPU is visible here")
    texts, _ = engine_texts(grouped(Engines, options))
    names = [spec for spec in texts if computes_on_host(spec)]
    if names:
        raise UsageError(
            f"--device all: {names[0]} runs on the processor, which the GPUs share: leave it out"
        )
    cpus = sorted(os.sched_getaffinity(0))
    share = max(1, len(cpus) // len(visible))
    return [
        LocalPlace(
            f"GPU {word}",
            dict.fromkeys(VISIBLE, word),
            tuple(known.get(other, other) for other in visible if other != word),
            cpus[place * share : (place + 1) * share] or cpus,
        )
        for place, word in enumerate(visible)
    ]


def check_shards(options: Options, flag: str) -> None:
    """Raise `UsageError` for options that a run in shards does not support."""
    refused = {"--trace": options.trace is not None, "--watch": options.watch}
    refused["--shard"] = options.shard is not None
    for name, given in refused.items():
        if given:
            raise UsageError(f"{name} does not go with {flag}: name one device with --device N")


def run_on_all_devices(options: Options, command: Sequence[str] = ()) -> Document:
    """Run with `--device all` and return the document. Raises as `run_benchmark` does."""
    check_shards(options, "--device all")
    places, own = local_places(options), replace(options, device=0)
    if len(places) > 1:
        return run_shards(own, command, places)
    with early_launcher(own) as launcher:
        return run_benchmark(own, command, launcher)


def run_shards(options: Options, command: Sequence[str], places: Sequence[Place]) -> Document:
    """Run one shard on each of the places and return the merged document, saved if an output is
    named. Raises as `run_benchmark` does."""
    check_destinations(options)
    check_run_places(options)
    outline, count = outline_run(options), len(places)  # mistakes end the run before it starts
    with Progress(0, quiet=options.quiet) as talk, _parts_folder(options, count) as folder:
        if folder is None:
            document = _finished(options, outline)
            talk.say(f"{options.output}: {FINISHED}")
            return document
        parts = [folder / f"{number}-of-{count}.json" for number in range(1, count + 1)]
        driver = Driver(options, command, places, parts, talk)
        try:
            driver.run()
        except KeyboardInterrupt:
            talk.say(interrupted(options.output))
        found = [path for part in parts if (path := left_by(part)) is not None]
        if not found:
            raise BenchRunError(next(iter(driver.errors.values()), "nothing was measured"))
        kept = options.output in (None, STDOUT)
        target = str(folder / "all.json") if kept else str(options.output)
        joined = join_documents(list(map(str, found)), target, allow_unlike=True)
        document = read(target)
        if joined.header.run.complete and not kept:
            shutil.rmtree(folder)
    problems = (*driver.problems, *(f"{name}: {why}" for name, why in driver.errors.items()))
    if problems:
        raise IncompleteRunError(*problems, document=document)
    return document


def parts_path(output: str) -> Path:
    """Return the folder of the shards' documents until they are merged."""
    return Path(f"{output}.parts")


@contextmanager
def _parts_folder(options: Options, count: int) -> Iterator[Path | None]:
    """Yield the folder for the documents of `count` shards; None if ``--resume`` finds a finished
    run. Raises `UsageError` if an unfinished run is in the way."""
    if options.output is None or options.output == STDOUT:
        with ExitStack() as undo:
            scratch = Scratch()
            undo.callback(scratch.close)
            yield scratch.path
        return
    lock = OutputLock(Path(options.output))
    try:
        folder = parts_path(options.output)
        if not options.resume and folder.exists():
            if not options.force:
                raise UsageError(
                    f"-o {options.output}: an unfinished run is there: continue it with --resume, "
                    "or replace it with --force"
                )
            shutil.rmtree(folder)
        journal = journal_path(Path(options.output))
        if options.resume and journal.exists():
            raise UsageError(f"--resume: the unfinished run of {options.output} has one device")
        journal.unlink(missing_ok=True)  # there only with --force
        if options.resume and not folder.exists() and os.path.exists(options.output):
            yield None
            return
        others = [path.name for path in folder.glob("*-of-*") if f"-of-{count}." not in path.name]
        if others:
            before = others[0].partition("-of-")[2].partition(".")[0]
            raise UsageError(f"--resume: the unfinished run has {before} shards, this one {count}")
        folder.mkdir(exist_ok=True)
        yield folder
    finally:
        lock.release()


def _finished(options: Options, outline: Outline) -> Document:
    """Return the document of a finished run. Raises `UsageError` if it is of another run."""
    assert options.output is not None
    document = read(options.output)
    settings = vars(document.run.settings)
    names = [name for name in rows_of(RecordedSettings) if name not in FOUND_OUT]
    before: tuple[object, ...] = (
        {case.graph.fingerprint for case in document.cases},
        {engine.key for engine in document.engines},
        [settings[name] for name in names],
    )
    now = (
        {graph.id.fingerprint for graph in outline.graphs},
        {engine.key for engine in outline.engines},
        [vars(options)[name] for name in names],
    )
    if before != now or not document.run.complete:
        raise UsageError(f"--resume: {options.output} holds another run: choose another output")
    return document


def left_by(part: Path) -> Path | None:
    """Return the file with the rounds of a shard: its journal, which has those of an earlier
    document, or its document; None if it measured nothing."""
    journal = journal_path(part)
    if journal.exists() and b"\n" in journal.read_bytes():
        return journal
    return part if part.exists() else None


def is_finished(part: Path) -> bool:
    """Return True if the file is the document of a shard that measured everything."""
    return part.exists() and read(part).run.complete


class Driver:
    """Starts the shards, and those again that die."""

    def __init__(
        self,
        options: Options,
        command: Sequence[str],
        places: Sequence[Place],
        parts: Sequence[Path],
        talk: Progress,
    ) -> None:
        self._options, self._command = options, tuple(command)
        self._places, self._parts, self._talk = places, parts, talk
        self.problems: list[str] = []
        """Defects of the document."""
        self.errors: dict[str, str] = {}
        """Reasons why shards measured nothing, by shard."""

    def run(self) -> None:
        """Return when every shard has ended, or is lost."""
        due = deque(n for n, part in enumerate(self._parts) if not is_finished(part))
        starts = [0] * len(self._parts)
        running: dict[int, tuple[int, Shard]] = {}
        try:
            while due or running:
                for number, at in self._assign(due, [place for place, _ in running.values()]):
                    due.remove(number)
                    starts[number] += 1
                    running[number] = at, self._start(number, at)
                if not running:
                    names = ", ".join(map(self._name, due))
                    self.problems.append(f"no device is left for shard {names}: use --resume")
                    return
                for number, (at, shard) in list(running.items()):
                    end = shard.end()
                    if end is None:
                        continue
                    del running[number]
                    if not self._note(number, at, end):
                        continue
                    if starts[number] <= RESTARTS:
                        due.append(number)
                    else:
                        self.problems.append(
                            f"shard {self._name(number)} was lost {starts[number]} times: "
                            f"{end.lost}; continue with --resume"
                        )
                time.sleep(POLL_S)
        finally:
            with ThreadPoolExecutor() as threads:  # all at the same time: each writes its document
                list(threads.map(lambda running: running[1].stop(), running.values()))

    def _assign(self, due: Iterable[int], busy: Sequence[int]) -> list[tuple[int, int]]:
        """Return shards that can start now with their places: each prefers its own."""
        free = [at for at in range(len(self._places)) if at not in busy]
        found = []
        for number in due:
            preferred = sorted(free, key=lambda at: at != number)
            at = next((at for at in preferred if self._places[at].is_usable()), None)
            if at is not None:
                found.append((number, at))
                free.remove(at)
        return found

    def _name(self, number: int) -> str:
        return f"{number + 1}/{len(self._parts)}"

    def _start(self, number: int, at: int) -> Shard:
        place, part = self._places[at], self._parts[number]
        changes = {**WHOLE, **(WRITTEN_ONCE if number else {})}
        own = replace(
            self._options,
            **changes,  # type: ignore[arg-type]
            shard=self._name(number),
            resume=True,
            force=False,
            companions=place.companions,
        )
        name = f"shard {self._name(number)}"
        self._talk.say(f"{name}: {place.name}")
        job = Job(vars(own), self._command)
        return place.start(job, part, lambda line: self._talk.say(f"{name}: {line}"))

    def _note(self, number: int, at: int, end: End) -> bool:
        """Keep what a shard reports at its end; true if it was lost."""
        name = f"shard {self._name(number)}"
        self.problems += [f"{name}: {problem}" for problem in end.problems]
        if end.error is not None:
            self.errors[name] = end.error
        if end.lost is not None:
            self._talk.say(f"note: {name} on {self._places[at].name} is lost: {end.lost}")
        return end.lost is not None
