"""Which engine's worker computes a reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench_run.engines import availability
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.engines.spec import parse_spec
from bench_run.errors import BenchRunError, EngineUnavailableError, UsageError
from bench_run.plan.engines import PlannedEngine, of_spec
from bench_run.validate.settings import FORMULAS, GOLDEN
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OWN = (FORMULAS, GOLDEN)
"""References that need no engine, only a processor."""


def reference_engine(reference: str, engines: Mapping[str, PlannedEngine]) -> PlannedEngine:
    """The engine whose worker computes: golden files and float64 need none of their own."""
    if reference in OWN:
        return PlannedEngine("numpy", EngineSpec("numpy", "numpy"), EngineOptions(), "none")
    if reference in engines:
        return engines[reference]
    options = replace(next(iter(engines.values())).options, timer="host")
    spec = parse_spec(reference)
    return PlannedEngine(reference, spec, of_spec(options, spec), "none")


def check_references(engines: Sequence[PlannedEngine], timeout_s: float) -> None:
    """Raises `UsageError` for a reference that is no engine, or one that cannot run here."""
    known = {engine.key: engine for engine in engines}
    for reference in dict.fromkeys(engine.reference for engine in engines):
        if reference in ("auto", "none", *OWN) or reference in known:
            continue
        try:
            _try_engine(reference_engine(reference, known), timeout_s)
        except BenchRunError as error:
            reason = str(error).removeprefix(f"--engine {reference!r}: ")
            raise UsageError(f"--reference {reference!r}: {reason}") from None


def _try_engine(engine: PlannedEngine, timeout_s: float) -> None:
    """Open an engine with an id or options of its own; of others it is known beforehand."""
    spec = engine.spec
    if spec.text == spec.name:
        found = availability(spec.name)
        if not found.ok:
            raise EngineUnavailableError(found.reason)
        return
    pool = WorkerPool(timeout_s, {})
    try:
        pool.facts(engine)
    finally:
        pool.close()
