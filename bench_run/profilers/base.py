"""Request to a profiler, and the process that runs under it: one prepared case.

A profiler starts a program of ours with the path of a pickled `Profiled` as its argument, which
`prepare` reads there.
"""

from __future__ import annotations

import pickle
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_schema.document import Kernel

    from bench_run.engines.base import EngineOptions, EngineSpec, Plan, TraceEvent
    from bench_run.graph.model import Graph
    from bench_run.streams.base import Stream
    from bench_run.tensors.data import Data


ITERATIONS = 5
"""Iterations in a trace."""
REST_NS = 5_000_000
"""Between them where only rests tell one from the next: far longer than any gap between the kernels
of one iteration."""


@dataclass(frozen=True)
class Profiled:
    """Work of the profiled process."""

    spec: EngineSpec
    options: EngineOptions
    graph: Graph
    variant: Mapping[str, str]
    data: Data


@dataclass(frozen=True)
class Counted:
    """Kernels with their counters; notes say which counters could not be had, and why."""

    kernels: tuple[Kernel, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profiler:
    """A row of `table.PROFILERS`: a program that reads hardware counters. What runs raises
    `EngineError`."""

    tool: str
    why_not: Callable[[], str | None]
    """Why nothing can be recorded here, in a sentence; None if it can."""
    count: Callable[[Profiled, str, Mapping[str, str], float], Counted]
    """The kernels of a case with a set of counters, in an environment and within so many
    seconds."""
    trace: Callable[[Profiled, Mapping[str, str], float], list[TraceEvent]] | None = None
    """Events of `ITERATIONS` iterations, by one that sees kernels which no recorder inside of the
    process does."""


def save(case: Profiled, folder: Path) -> Path:
    """Write the file that the profiled process reads; return its path."""
    path = folder / "case.pickle"
    path.write_bytes(pickle.dumps(case))
    return path


@contextmanager
def prepare(path: str) -> Iterator[tuple[Plan, Stream]]:
    """Yield the case of the file as a plan that ran once, on its stream."""
    from bench_run.engines import engine_module
    from bench_run.measure.prepared import prepare_plan

    case = pickle.loads(Path(path).read_bytes())  # noqa: S301 - written by our own parent
    assert isinstance(case, Profiled)
    engine = engine_module(case.spec.name).open(case.spec, case.options)
    with prepare_plan(engine, case.graph, case.data, case.variant) as prepared:
        yield prepared.plan, engine.stream
        engine.stream.synchronize()
    engine.close()


def run(
    command: Sequence[str], environment: Mapping[str, str], timeout_s: float, tool: str
) -> subprocess.CompletedProcess[str]:
    """Run the profiler. Raises `EngineError` if it does not start or does not end; its exit code is
    the caller's."""
    try:
        return subprocess.run(  # noqa: S603 - fixed words and our own files, no shell
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{tool} did not finish: {error}") from error


def output_tail(done: subprocess.CompletedProcess[str], otherwise: str = "") -> str:
    """Return the last line of what it said."""
    words = (done.stderr or done.stdout or otherwise).strip().splitlines()
    return words[-1] if words else "it said nothing"
