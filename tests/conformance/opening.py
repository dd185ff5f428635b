"""Opens engines for tests, and runs a graph on one."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from bench_run.engines import engine_module
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineUnavailableError


@contextmanager
def opened(text, **options):
    """The engine of a spec; the test is skipped with the reason where it cannot run."""
    spec = parse_spec(text)
    module = engine_module(spec.name)
    found = module.probe()
    if not found.ok:
        pytest.skip(f"{text}: {found.reason}")
    try:
        engine = module.open(spec, EngineOptions(**options))
    except EngineUnavailableError as error:
        pytest.skip(f"{text}: {error}")
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def planned(engine, graph, inputs=None):
    plan = engine.plan(engine.build(graph, engine.variants(graph)[0]))
    try:
        if inputs is not None:
            plan.upload(inputs)
        plan.poison()
        yield plan
    finally:
        plan.close()


def outputs(engine, graph, inputs):
    """Of one run on poisoned buffers."""
    with planned(engine, graph, inputs) as plan:
        plan.run()
        engine.stream.synchronize()
        return plan.download()
