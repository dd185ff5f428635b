"""``--watch``: the kernels of a file are measured again at each save.

The worker of a kernel is a new process each time, forked from one that has imported the libraries,
and so is that of the first other engine, which is measured again in turns with the kernel.
References and inputs stay. One line for each graph has the time, the change since the last save and
against the best one, and the result of the validation.
"""

from __future__ import annotations

import math
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.estimate import case_time, change, main_series
from bench_schema.names import cut
from bench_schema.streams import write_text
from bench_schema.units import is_too_noisy

from bench_run.engines import KERNEL
from bench_run.engines.base import FORKED
from bench_run.errors import BenchRunError, UsageError
from bench_run.options import Validation, grouped
from bench_run.report.console import change_cells
from bench_run.report.labels import is_wrong
from bench_run.runner.benchmark import run_planned
from bench_run.runner.planning import outline_run, plan_opened
from bench_run.runner.references import ReferenceStore
from bench_run.text import one_line, percent_text, time_text, visible
from bench_run.user.cases import ENTRY
from bench_run.worker.life import Launcher
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bench_schema.document import Case, Document

    from bench_run.options import Options
    from bench_run.plan.engines import PlannedEngine
    from bench_run.runner.planning import Outline

ROUNDS, ITERATIONS = 3, 60
"""Upper limits of each save."""
LOOK_S = 0.05
"""Interval at which the files are read; a save is over once they stay the same for one."""
NAME_WIDTH = 30


def say(text: str) -> None:
    """Print a line of the answer at once."""
    write_text(sys.stdout, visible(text) + "\n")
    sys.stdout.flush()


class KeptReferences(ReferenceStore):
    """Expected outputs and inputs that outlive the runs that use them."""

    def stop(self) -> None:
        """Leaves everything for the next run."""

    def close(self) -> None:
        """Leaves everything for the next run."""

    def end(self) -> None:
        super().stop()
        self._scratch.close()


@dataclass
class Watch:
    """Measurements so far, by case."""

    kernels: frozenset[str]
    """Keys of the engines that are files."""
    last: dict[str, Case] = field(default_factory=dict)
    best: dict[str, Case] = field(default_factory=dict)
    files: set[Path] = field(default_factory=set)

    def note(self, document: Document) -> None:
        """Report the cases of a run, and remember them."""
        clock = time.strftime("%H:%M:%S")
        others: dict[str, Case] = {}
        for case in document.cases:
            if case.engine not in self.kernels and case_time(case) is not None:
                others.setdefault(case.graph.fingerprint, case)
        for case in document.cases:
            if case.engine not in self.kernels:
                continue
            for line in self._lines(case, others.get(case.graph.fingerprint)):
                say(f"{clock}  {line}")
            if case_time(case) is not None and _is_right(case):
                self.last[case.id] = case
                best = self.best.get(case.id)
                if best is None or _nanoseconds(case) < _nanoseconds(best):
                    self.best[case.id] = case
        for engine in document.engines:
            if engine.plugin_path is not None:
                path = Path(engine.plugin_path)
                self.files.add(path)
                self.files |= {path.parent / n for n in engine.libraries if n.endswith(".py")}

    def _lines(self, case: Case, other: Case | None) -> Iterator[str]:
        """Yield the lines of a case. `other`: the other engine's, of the same run."""
        name = cut(one_line(case.id), NAME_WIDTH)
        found = case_time(case)
        if found is None:
            yield f"{name}  {case.outcome.status}: {one_line(case.outcome.reason or '')}"
            return
        half = found.half_width_ratio
        width = "" if half is None else f" ± {percent_text(half)}"
        check = case.validation
        parts = [f"{time_text(found.ns)}{width}", "not checked" if check is None else check.status]
        sides = [] if is_wrong(case) else [("the last save", self.last), ("the best", self.best)]
        if self.best.get(case.id) is self.last.get(case.id):
            sides = sides[:1]
        parts += [
            f"{_change(known[case.id], case)} against {of}"
            for of, known in sides
            if case.id in known
        ]
        if other is not None and not is_wrong(case):
            its = case_time(other)
            beside = "" if its is None else f" ({time_text(its.ns)})"
            parts.append(f"{_change(other, case)} against {other.engine}{beside}")
        yield f"{name}  {', '.join(parts)}"
        if check is not None and is_wrong(case):
            yield f"{name}  wrong: {one_line(check.reason or '')}"
        if case.implausible is not None:
            yield f"{name}  implausible: {one_line(case.implausible)}"


def _is_right(case: Case) -> bool:
    return not is_wrong(case) and case.implausible is None


def _nanoseconds(case: Case) -> float:
    found = case_time(case)
    return math.inf if found is None else found.ns


def _change(base: Case, other: Case) -> str:
    """Return the change of a time in words, with its interval."""
    series = main_series(other.summary)
    found = None if series is None or series not in base.summary else change(base, other, series)
    if found is None:
        return "no time to compare"
    ratio, margin = change_cells(found)
    if found.low is None or found.high is None:
        return ratio
    if is_too_noisy(math.exp(found.low), math.exp(found.high)):
        return "too noisy to compare"
    return f"{ratio} ({margin})"


def watch(options: Options, first: Document) -> Document:
    """Measure the kernels of the options at each save until Ctrl-C; the document of the last run
    that measured something. `first`: the run of all engines. Raises `UsageError` if no kernel is
    among them."""
    specs = [engine.key for engine in first.engines if engine.name == KERNEL]
    if not specs:
        raise UsageError("--watch: no engine is a file; give one, such as --engine kernel@my.py")
    others = [engine.key for engine in first.engines if engine.name != KERNEL][:1]
    quick = replace(
        options,
        engine=(*others, *specs),
        a=None,
        b=None,
        output=None,
        csv=None,
        csv_samples=None,
        markdown=None,
        trace=None,
        until=None,
        precision_ratio=None,
        against=None,
        counters=None,
        quiet=True,
        rounds=min(ROUNDS, options.rounds),
        iterations=None if options.iterations is None else min(ITERATIONS, options.iterations),
    )
    state = Watch(frozenset(specs))
    state.files = {Path(m["path"]) for g in options.graphs if (m := ENTRY.fullmatch(g))}
    environments = {key: {FORKED: "1"} for key in (*others, *specs)}
    launcher = Launcher("fork", options.timeout_s, environments)
    runs = Runs(quick, launcher)
    try:
        return _loop(runs, state, first)
    finally:
        runs.close()
        launcher.close()


def _loop(runs: Runs, state: Watch, document: Document) -> Document:
    is_first = True
    with suppress(KeyboardInterrupt):
        while True:
            for engine in document.engines:
                if engine.name == KERNEL and engine.plugin_path is not None:
                    state.files.add(Path(engine.plugin_path))
            seen = stamps(state.files)
            try:
                document = runs.run()
                state.note(document)
            except BenchRunError as error:
                say(f"{time.strftime('%H:%M:%S')}  {one_line(str(error))}")
            if is_first:
                names = ", ".join(sorted(path.name for path in state.files))
                say(f"watching {names}; Ctrl-C ends")
            is_first = False
            wait_for_change(state.files, seen)
    return document


class Runs:
    """Runs of the kernels that share references and templates."""

    def __init__(self, options: Options, launcher: Launcher) -> None:
        self._options, self._launcher = options, launcher
        self._outline: Outline | None = None
        self._stamps: Mapping[Path, object] = {}
        self._references: KeptReferences | None = None

    def run(self) -> Document:
        """Run and watch. Raises `BenchRunError` if the files cannot be used."""
        outline = self._read()
        pool = WorkerPool(self._options.timeout_s, self._launcher)
        try:
            planned = plan_opened(outline, pool)
            if self._references is None:
                engines: dict[str, PlannedEngine] = {e.key: e for e in planned.engines}
                self._references = KeptReferences(grouped(Validation, self._options), engines)
            return run_planned(self._options, planned, pool, references=self._references)
        finally:
            pool.close()
            pool.kill()

    def _read(self) -> Outline:
        """Return the graphs, read again only if a file that defines some has changed."""
        paths = [Path(m["path"]) for g in self._options.graphs if (m := ENTRY.fullmatch(g))]
        now = stamps(paths)
        if self._outline is None or now != self._stamps:
            known, self._outline, self._stamps = self._outline, outline_run(self._options), now
            before = None if known is None else [graph.id.fingerprint for graph in known.graphs]
            if before != [graph.id.fingerprint for graph in self._outline.graphs]:
                self.close()
        return self._outline

    def close(self) -> None:
        if self._references is not None:
            self._references.end()
            self._references = None


def stamps(paths: Iterable[Path]) -> dict[Path, tuple[int, int] | None]:
    """Time of change and size of each file; None for one that is not there at the moment."""
    found: dict[Path, tuple[int, int] | None] = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            found[path] = None
        else:
            found[path] = status.st_mtime_ns, status.st_size
    return found


def wait_for_change(paths: set[Path], seen: Mapping[Path, object]) -> None:
    """Return once a file differs from its last state, and all files exist and are at rest."""
    while True:
        now = stamps(paths)
        if now != seen and None not in now.values():
            time.sleep(LOOK_S)
            if stamps(paths) == now:
                return
        time.sleep(LOOK_S)
