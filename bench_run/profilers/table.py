"""The profilers: one row each. An engine's module names its row; without one it is NVIDIA's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.engines import engine_module
from bench_run.engines.base import NamesProfiler
from bench_run.profilers import amd, ncu

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.profilers.base import Profiler

PROFILERS: Mapping[str, Profiler] = {ncu.TOOL: ncu, amd.TOOL: amd}


def profiler_of(engine: str) -> Profiler:
    """The profiler that sees the kernels of an engine, by the engine's name."""
    module = engine_module(engine)
    return PROFILERS[module.PROFILER if isinstance(module, NamesProfiler) else ncu.TOOL]
