"""`bench-run doctor --engine`: one tiny graph, step by step, up to where it stops."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench_schema.document import INIT_PHASES

from bench_run.errors import EngineUnavailableError, WorkerError
from bench_run.text import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_schema.document import Case

    from bench_run.options import Options

TINY = "conv_fwd: n=1 c=4 h=8 w=8 k=4 r=3 s=3 pad=1"
STEPS = {
    "load_ns": "read the graph",
    "import_ns": "load the library, open it and its plugins",
    "build_ns": "make the operation graph",
    "plan_ns": "build the plan, allocate and fill its buffers",
    "search_ns": "run once while the library searches",
    "first_run_ns": "run once and wait",
}
PHASES = {name.removesuffix("_ns"): text for name, text in STEPS.items()} | {
    "validate": "compare the outputs with the reference",
    "gate": "try whether the plan can be held back",
    "measure": "take samples",
}


def try_engine(options: Options) -> tuple[str, bool]:
    """The report, and whether every step worked."""
    from bench_run.runner.benchmark import run_benchmark

    tiny = replace(options, op=options.op or (TINY,), rounds=1, iterations=2, warmup=1, quiet=True)
    try:
        document = run_benchmark(tiny)
    except (EngineUnavailableError, WorkerError) as error:
        return f"no   {STEPS['import_ns']}\n     {error}", False
    case, engine = document.cases[0], document.engines[0]
    worked = case.outcome.status == "completed"
    lines = [
        f"engine {engine.key} on {engine.device_kind} ({engine.device})",
        *(f"  {name}: {version}" for name, version in engine.libraries.items()),
        *(f"  {answer:<3} {name}" for name, answer in (engine.abilities or {}).items()),
        *_steps(case),
    ]
    if worked:
        lines += [f"  {name}: {text}" for name, text in case.plan.items()]
    return "\n".join(lines), worked


def _steps(case: Case) -> Iterator[str]:
    """A line for each step that was done; the one that failed with its reason."""
    if case.outcome.status == "completed":
        for name in INIT_PHASES:
            if name in case.init:
                yield f"yes  {STEPS[name]}, {time_text(int(case.init[name][0]))}"
        check = case.validation
        state = "not checked" if check is None else check.status
        yield f"{'no ' if state == 'failed' else 'yes'}  {PHASES['validate']}: {state}"
        return
    phase = case.outcome.phase or "import"
    for name, text in PHASES.items():
        if name == phase:
            break
        yield f"yes  {text}"
    yield f"no   {PHASES.get(phase, phase)}: {case.outcome.status}"
    yield f"     {case.outcome.reason}"
