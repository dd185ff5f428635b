"""The profilers: one row each. An engine's module names its row; without one it is NVIDIA's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.engines import engine_module
from bench_run.profilers import amd, ncu, perf
from bench_run.profilers.base import Profiler

if TYPE_CHECKING:
    from collections.abc import Mapping

PROFILERS: Mapping[str, Profiler] = {
    row.tool: row
    for row in (
        Profiler(ncu.TOOL, ncu.why_not, ncu.count),
        Profiler(amd.TOOL, amd.why_not, amd.count, amd.trace),
        Profiler(perf.TOOL, perf.why_not, perf.count),
    )
}


def profiler_of(engine: str, device: str | None = None) -> Profiler:
    """Return the profiler that sees the kernels of an engine, by the engine's name and the device
    that it is on."""
    if device == "cpu":
        return PROFILERS[perf.TOOL]
    name = engine_module(engine).ABILITIES.profiler
    return PROFILERS[ncu.TOOL if name is None else name]
