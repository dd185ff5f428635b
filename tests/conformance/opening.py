"""Opens engines for tests, and runs a graph on one."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from glob import glob
from importlib.util import find_spec

import pytest

from bench_run.engines import availability, engine_module
from bench_run.engines.base import EngineOptions
from bench_run.engines.cudnn.library import load
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineUnavailableError

GPU, CUDNN = "NVIDIA GPU", "cuDNN"
"""What a test can need besides an engine: the device alone, the library alone."""
GPU_FILES = "/dev/nvidia[0-9]*"


@functools.cache
def absence(need):
    """Why an engine (its spec), `GPU` or `CUDNN` is not to be had here, as far as that shows before
    an engine is opened; None where nothing speaks against it."""
    if need == GPU:
        return None if glob(GPU_FILES) else f"no NVIDIA GPU is visible ({GPU_FILES})"
    if need == CUDNN:
        return _missing_cudnn()
    found = availability(need)
    return None if found.ok else f"{need}: {found.reason}"


def _missing_cudnn():
    if find_spec("cudnn") is None:
        return "cuDNN's frontend is not installed"
    try:
        load()
    except EngineUnavailableError as error:
        return str(error)
    return None


def engine_params(*specs):
    """Values for a fixture's `params`; of an engine that is absent one test is skipped."""
    return [pytest.param(spec, marks=pytest.mark.needs(spec)) for spec in specs]


@contextmanager
def opened(text, **options):
    """The engine of a spec; the test is skipped with the reason where it cannot run."""
    spec, reason = parse_spec(text), absence(text)
    if reason is not None:
        pytest.skip(reason)
    try:
        engine = engine_module(spec.name).open(spec, EngineOptions(**options))
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
