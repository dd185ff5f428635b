"""Engines that support a graph: each prepares it, in its own process."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench_run.engines import ENGINES, KERNEL, list_engines
from bench_run.engines.spec import parse_spec
from bench_run.errors import BenchRunError, WorkerError
from bench_run.options import Engines, grouped
from bench_run.plan.engines import EVERY, PlannedEngine, plan_engines
from bench_run.runner.memory import case_need, free_memory, lack_of_memory
from bench_run.tensors.data import Data
from bench_run.worker.messages import Attempt, Variants
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_run.graph.model import Graph
    from bench_run.options import Options


class SupportingEngines:
    """The engines of an open `supporting_engines` block."""

    def __init__(self, pool: WorkerPool, engines: Sequence[PlannedEngine]) -> None:
        self._pool = pool
        self._engines = {engine.key: engine for engine in engines}
        self.keys = tuple(self._engines)
        self.offered: dict[str, tuple[str, str]] = {}
        """Library and id of each engine that `run` met, by what a table calls it."""

    def devices(self) -> dict[str, str]:
        """Return the device of each engine, by key."""
        return {key: self._pool.facts(engine).device for key, engine in self._engines.items()}

    def prepare(self, key: str, graph: Graph) -> str | None:
        """Return the reason why the engine does not support the graph; None if it does."""
        return self._ask(key, Attempt(graph))

    def run(self, key: str, graph: Graph) -> dict[str, str | None]:
        """Return the same after one execution on seeded inputs, by what a table calls the engine:
        its key, or each engine that it offers where every one is asked for."""
        engine, data = self._engines[key], Data(seed=0)
        if engine.spec.id != EVERY:
            self.offered[key] = engine.spec.name, engine.spec.id or ""
            return {key: self._ask(key, Attempt(graph, data))}
        try:
            variants = self._pool.ask(engine, Variants(graph))
        except BenchRunError as error:
            return {key: str(error)}
        name, found = key.removesuffix(f":{EVERY}"), {}
        for variant in variants:
            label = ":".join([name, *variant.values()]) if variant else key
            self.offered[label] = engine.spec.name, variant.get("engine", "")
            found[label] = self._ask(key, Attempt(graph, data, variant))
        return found

    def _ask(self, key: str, request: Attempt) -> str | None:
        engine = self._engines[key]
        try:
            device = self._pool.facts(engine).device
            need = case_need(request.graph, engine, device, checked=False)
            problem = lack_of_memory(need, free_memory(device))
            if problem is not None:
                return problem
            self._pool.ask(engine, request)
        except WorkerError as error:
            return f"{error.status}: {error}"
        except BenchRunError as error:
            return str(error)
        return None


@contextmanager
def supporting_engines(
    options: Options, usual: Sequence[str] | None = None
) -> Iterator[SupportingEngines]:
    """Yield the named engines, otherwise those of `usual` that can run here, otherwise all of ours
    that can."""
    names = usual or tuple(name for name in ENGINES if name != KERNEL)
    texts = (
        options.engine
        if options.engine
        else tuple(r.name for r in list_engines() if r.name in names and r.availability.ok)
    )
    pool = WorkerPool(options.timeout_s)
    try:
        engines = plan_engines(grouped(Engines, options), [parse_spec(text) for text in texts])
        for engine in engines if options.engine else ():
            pool.facts(engine)  # one that was asked for and is not there is an error
        yield SupportingEngines(pool, engines)
    finally:
        pool.close()
