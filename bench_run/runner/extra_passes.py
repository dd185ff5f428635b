"""Passes of a run after its samples: traces, adversarial inputs and hardware counters."""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING

from bench_schema.document import Case, Validation
from bench_schema.units import count_text

from bench_run.errors import BenchRunError, EngineError, EngineUnavailableError, OutputError
from bench_run.files import write_text_file
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.profilers.base import Profiled
from bench_run.profilers.table import profiler_of
from bench_run.profilers.trace import join_parts, leave_events
from bench_run.worker.life import own_environment
from bench_run.worker.messages import NOT_CHECKED, Attack, Attacked, Trace
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_run.options import Output
    from bench_run.plan.cases import PlannedCase
    from bench_run.progress import Progress
    from bench_run.runner.rounds import Rounds


def extra_passes(
    output: Output, rounds: Rounds, save: Callable[[Case], None], progress: Progress
) -> tuple[str, ...]:
    """Run the requested passes over the completed cases. A failure costs a line, never the run;
    returns the lines on files that could not be written."""
    unwritten: list[str] = []
    if output.trace is not None:
        try:
            _trace(output.trace, output.timeout_s, rounds, progress)
        except OutputError as error:
            unwritten.append(f"--trace: {error}")
    if output.adversarial:
        attack(rounds, rounds.completed(), progress.say)
    if output.counters is not None:
        _count(output.counters, output.timeout_s, rounds, save, progress)
    return tuple(unwritten)


def attack(rounds: Rounds, cases: Sequence[PlannedCase], say: Callable[[str], None]) -> list[Case]:
    """Put what adversarial inputs show into the validation of each case; return these parts."""
    pool, parts = rounds.pool.beside(TimeBreakdown()), list[Case]()
    try:
        for case in cases:
            say(f"--adversarial: {case.id}")
            math, graph = case.engine.options.math, case.graph.loaded.graph
            request = Attack(case.id, graph, case.variant, rounds.data(case), math)
            try:
                found = pool.ask(case.engine, request)
            except BenchRunError as error:
                found = Attacked(findings=(str(error),))
            for text in (each for each in found.notes if NOT_CHECKED in each):
                say(f"--adversarial: {case.id}: {text}")
            parts.append(_attacked(case, found))
            rounds.save(parts[-1])
    finally:
        pool.close()
    return parts


def _attacked(case: PlannedCase, found: Attacked) -> Case:
    """Return the validation alone: it is merged with the parts that the rounds left."""
    notes = [f"adversarial: {text}" for text in found.notes]
    if found.kinds:
        same = "two runs are bit-identical" if found.deterministic else "two runs differ in bits"
        right = f"right on {len(found.kinds)} kinds of inputs ({', '.join(found.kinds)})"
        notes.append(f"adversarial: {right}; {same}")
    if found.findings:
        notes.append(f"adversarial: wrong on {count_text(len(found.findings), 'kind')} of inputs")
    reason = "; ".join(f"adversarial: {text}" for text in found.findings) or None
    return Case(
        id=case.id,
        graph=case.graph.id,
        engine=case.engine.key,
        variant=case.variant,
        work=case.graph.work,
        validation=Validation(
            # What is right on other inputs says nothing of the samples' outputs.
            "failed" if found.findings else "not checked",
            "numpy",
            reason,
            deterministic=found.deterministic if found.kinds else None,
        ),
        notes=tuple(notes),
    )


def _trace(path: str, timeout_s: float, rounds: Rounds, progress: Progress) -> None:
    unseen: dict[str, list[str]] = {}
    for name in dict.fromkeys(case.engine.spec.name for case in rounds.completed()):
        profiler = profiler_of(name)
        reason = None if profiler.trace is None else profiler.why_not()
        if reason is not None:
            unseen.setdefault(reason, []).append(name)
    for reason, engines in unseen.items():
        names = ", ".join(engines)
        progress.say(f"--trace: {reason}; of {names} the trace holds the host side only")
    pool = WorkerPool(timeout_s)
    with tempfile.TemporaryDirectory() as folder:
        try:
            for case in rounds.completed():
                problem = _trace_case(rounds, case, pool, timeout_s, folder)
                if problem is not None:
                    progress.say(f"--trace: {case.id}: {problem}")
        finally:
            pool.close()
        write_text_file(path, json.dumps(join_parts(folder)))


def _trace_case(
    rounds: Rounds, case: PlannedCase, pool: WorkerPool, timeout_s: float, folder: str
) -> str | None:
    """Leave the events of the case in `folder`; return the error's text, or None without an
    error."""
    profiler = profiler_of(case.engine.spec.name)
    if profiler.trace is None or profiler.why_not() is not None:
        graph = case.graph.loaded.graph
        request = Trace(case.id, graph, case.variant, rounds.data(case), folder)
        try:
            pool.ask(case.engine, request)
        except BenchRunError as error:
            return str(error)
        return None
    profiled, environment = _profiled(rounds, case)
    try:
        leave_events(profiler.trace(profiled, environment, timeout_s), case.id, folder)
    except (EngineError, EngineUnavailableError) as error:
        return str(error)
    return None


def _profiled(rounds: Rounds, case: PlannedCase) -> tuple[Profiled, dict[str, str]]:
    """Return the case for a process of its own, and that process's environment."""
    engine = case.engine
    graph = case.graph.loaded.graph
    profiled = Profiled(engine.spec, engine.options, graph, case.variant, rounds.data(case))
    return profiled, {**os.environ, **own_environment(engine)}


def _count(
    counters: str,
    timeout_s: float,
    rounds: Rounds,
    save: Callable[[Case], None],
    progress: Progress,
) -> None:
    missing: dict[str, str | None] = {}
    for case in rounds.completed():
        device = rounds.pool.facts(case.engine).device
        profiler = profiler_of(case.engine.spec.name, device)
        if profiler.tool not in missing:
            missing[profiler.tool] = reason = profiler.why_not()
            if reason is not None:
                progress.say(f"--counters: {reason}; there are no counters")
        if missing[profiler.tool] is None:
            profiled, environment = _profiled(rounds, case)
            try:
                counted = profiler.count(profiled, counters, environment, timeout_s)
            except (EngineError, EngineUnavailableError) as error:
                progress.say(f"--counters: {case.id}: {error}")
            else:
                note = f"kernels and their times are those of the counters' pass ({profiler.tool})"
                for missed in counted.notes:
                    progress.say(f"--counters: {case.id}: {missed}")
                # The kernels alone: they are merged with the parts that the rounds left.
                save(
                    Case(
                        id=case.id,
                        graph=case.graph.id,
                        engine=case.engine.key,
                        variant=case.variant,
                        work=case.graph.work,
                        kernels=counted.kernels,
                        notes=(note, *counted.notes),
                    )
                )
