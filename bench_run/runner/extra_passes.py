"""What a run does after its samples are taken: traces, and hardware counters."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.document import Case

from bench_run.profilers import amd, ncu
from bench_run.profilers.trace import join_parts, leave_events
from bench_run.runner.record import writing
from bench_run.worker.messages import Trace
from bench_run.worker.pool import WorkerPool, own_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_schema.document import Kernel

    from bench_run.options import Options
    from bench_run.plan.cases import PlannedCase
    from bench_run.progress import Progress
    from bench_run.runner.rounds import Rounds

NOT_HERE = ("numpy",)
"""Engines whose work no device profiler sees."""


def check_extra(options: Options) -> None:
    """Raises `UsageError` for a set of counters that there is none of."""
    if options.counters is not None:
        ncu.check_set(options.counters)


def extra_passes(
    options: Options, rounds: Rounds, save: Callable[[Case], None], progress: Progress
) -> None:
    """The passes that were asked for, over the cases that completed. What cannot be had costs a
    line, never the run."""
    if options.trace is not None:
        _trace(options, options.trace, rounds, progress)
    if options.counters is not None:
        _count(options, options.counters, rounds, save, progress)


def _trace(options: Options, path: str, rounds: Rounds, progress: Progress) -> None:
    cases = rounds.completed()
    on_amd = [case for case in cases if case.engine.spec.name in amd.ENGINES]
    missing = amd.why_not() if on_amd else None
    if missing is not None:
        progress.say(f"--trace: {missing}; of hipdnn the trace holds the host's side only")
    pool = WorkerPool(options.timeout_s, {})
    with tempfile.TemporaryDirectory() as folder:
        try:
            for case in cases:
                if case in on_amd and missing is None:
                    problem = _trace_on_amd(options, rounds, case, folder)
                else:
                    data, graph = rounds.data(case), case.graph.loaded.graph
                    problem = pool.trace(
                        case.engine, Trace(case.id, graph, case.variant, data, folder)
                    )
                if problem is not None:
                    progress.say(f"--trace: {case.id}: {problem}")
        finally:
            pool.close()
        with writing(path):
            Path(path).write_text(json.dumps(join_parts(folder)), encoding="utf-8")


def _trace_on_amd(options: Options, rounds: Rounds, case: PlannedCase, folder: str) -> str | None:
    """Leave what AMD's profiler recorded of the case; what went wrong, else None."""
    profiled, environment = _profiled(rounds, case)
    found = amd.trace(profiled, environment, options.timeout_s)
    if isinstance(found, str):
        return found
    leave_events(found, case.id, folder)
    return None


def _profiled(rounds: Rounds, case: PlannedCase) -> tuple[ncu.Profiled, dict[str, str]]:
    """The case for a process of its own, and that process's environment."""
    engine = case.engine
    profiled = ncu.Profiled(
        engine.spec, engine.options, case.graph.loaded.graph, case.variant, rounds.data(case)
    )
    return profiled, {**os.environ, **own_environment(engine)}


def _count(
    options: Options,
    name: str,
    rounds: Rounds,
    save: Callable[[Case], None],
    progress: Progress,
) -> None:
    said = set()
    for case in rounds.completed():
        tool = amd if case.engine.spec.name in amd.ENGINES else ncu
        problem = tool.why_not()
        if problem is not None and problem not in said:
            progress.say(problem)
            said.add(problem)
        if problem is None and case.engine.spec.name not in NOT_HERE:
            _count_case(options, name, rounds, save, progress, case)


def _count_case(
    options: Options,
    name: str,
    rounds: Rounds,
    save: Callable[[Case], None],
    progress: Progress,
    case: PlannedCase,
) -> None:
    tool = amd if case.engine.spec.name in amd.ENGINES else ncu
    profiled, environment = _profiled(rounds, case)
    found = tool.count(profiled, name, environment, options.timeout_s)
    if isinstance(found, str):
        progress.say(f"{case.id}: {found}")
        return
    note = f"kernels and their times are those of the counters' pass ({tool.TOOL})"
    save(_part(case, found, note))


def _part(case: PlannedCase, kernels: tuple[Kernel, ...], note: str) -> Case:
    """The case with its kernels alone, to be merged with the parts that its rounds left."""
    return Case(
        id=case.id,
        graph=case.graph.id,
        engine=case.engine.key,
        variant=case.variant,
        work=case.graph.work,
        kernels=kernels,
        notes=(note,),
    )
