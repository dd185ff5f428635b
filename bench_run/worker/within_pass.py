"""``--cache pass`` on the processor: before each iteration the layers run that come before in a
pass of the pipeline, on memory of their own. Runs inside a worker.

Elsewhere, and where the engine does not take these layers, as many bytes are touched as a pass
does (`streams/caches.py`).
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from bench_run.engines import chain
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.streams.base import RunsBefore
from bench_run.tensors.seeded.chain_inputs import make_chain_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench_run.engines.base import Engine, Plan
    from bench_run.graph.chain.model import ChainGraph
    from bench_run.worker.messages import RunCase

FACT = "before each iteration"


@contextmanager
def within_pass(engine: Engine, request: RunCase) -> Iterator[Mapping[str, str]]:
    """Yields what the document says of it: nothing, where nothing of the like was asked for."""
    asked, stream = request.preceding, engine.stream
    if asked is None or not isinstance(stream, RunsBefore):
        yield {}
        return
    found = _plan(engine, asked.chain, request.data.seed)
    if isinstance(found, str):
        yield {FACT: f"as many bytes are read; the layers before do not run: {found}"}
        return
    names = f"{len(asked.chain.places)} layers of the pipeline run"
    read = f"{asked.left_bytes} bytes are read, then " if asked.left_bytes else ""
    try:
        with stream.run_before(found.run, asked.left_bytes):
            yield {FACT: f"{read}{names}"}
    finally:
        with suppress(EngineError):  # the case is measured already
            found.close()


def _plan(engine: Engine, preceding: ChainGraph, seed: int) -> Plan | str:
    """Or why there is none."""
    try:
        plan = chain.plan(engine, chain.build(engine, preceding, {}))
    except (UnsupportedGraphError, EngineError, MemoryError) as error:
        return str(error) or "out of memory"
    try:
        plan.upload(make_chain_inputs(preceding, seed, ()))
        plan.run()
        engine.stream.synchronize()
    except (EngineError, MemoryError) as error:
        plan.close()
        return str(error) or "out of memory"
    return plan
