"""Traces and counters of a case on AMD: the case in a process of its own under `rocprofv3`."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import EngineError, EngineUnavailableError
from bench_run.machine import amd as machine
from bench_run.profilers import program, rocprof
from bench_run.profilers.amd_counters import counters_of
from bench_run.profilers.base import ITERATIONS, REST_NS, Counted, save
from bench_run.profilers.records import kernels, last_iterations, trace_events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.engines.base import TraceEvent
    from bench_run.profilers.base import Profiled
from bench_run.profilers.records import Dispatch

TOOL = rocprof.TOOL


def why_not() -> str | None:
    """Why nothing can be recorded here, in a sentence; None where it can."""
    try:
        rocprof.find_tool()
    except EngineUnavailableError as error:
        return str(error)
    return None


def trace(case: Profiled, environment: Mapping[str, str], timeout_s: float) -> list[TraceEvent]:
    """Events of some iterations. Raises `EngineError`."""
    return trace_events(_record(case, (), rocprof.read_trace, environment, timeout_s))


def count(
    case: Profiled, counters: str, environment: Mapping[str, str], timeout_s: float
) -> Counted:
    """The case's kernels: times from a pass without counters, then a pass for each counter of its
    chip; one that cannot be had costs itself. Raises `EngineError` where none can."""
    timed = kernels(_record(case, (), rocprof.read_trace, environment, timeout_s))
    counted: dict[str, dict[str, float]] = {}
    missed: list[str] = []
    for counter in counters_of(counters, arch_of(case.options.device)):
        try:
            seen = _record(case, (counter,), rocprof.read_counters, environment, timeout_s)
        except EngineError as error:
            missed.append(f"no {counter}: {error}")
            continue
        for kernel in kernels(seen):
            counted.setdefault(kernel.name, {}).update(kernel.counters)
    if not counted:
        raise EngineError(missed[0] if missed else f"{TOOL} recorded no kernel")
    complete = (replace(kernel, counters=counted.get(kernel.name, {})) for kernel in timed)
    return Counted(tuple(complete), tuple(missed))


def arch_of(device: int) -> str | None:
    """The chip of the device that ``--device`` names, such as ``gfx942``, as amdsmi tells it."""
    number = machine.device_number(device)
    names = ((each, (str(each.index), each.uuid)) for each in machine.devices())
    return next((each.arch for each, known in names if number in known), None)


def _record(
    case: Profiled,
    counters: Sequence[str],
    read: Callable[[Path], list[Dispatch]],
    environment: Mapping[str, str],
    timeout_s: float,
) -> list[list[Dispatch]]:
    """Launches by iteration, as one pass of the profiler saw them. By the host's clock, so that no
    gate is ever closed: kernels that the profiler runs one at a time would wait behind it."""
    case = replace(case, options=replace(case.options, timer="host"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        request, output = save(case, folder), folder / "out"
        target = [sys.executable, "-m", "bench_run.profilers.target", str(request)]
        command = rocprof.command(rocprof.find_tool(), output, target, counters)
        _run(command, environment, timeout_s)
        iterations = last_iterations(read(output), ITERATIONS, REST_NS)
    if iterations is None:
        raise EngineError(f"{TOOL}: its records do not divide into {ITERATIONS} iterations")
    return iterations


def _run(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> None:
    done = program.run(command, environment, timeout_s, TOOL)
    if done.returncode != 0:
        last = program.output_tail(done)
        raise EngineError(f"{TOOL} ended with code {done.returncode}: {last}")
