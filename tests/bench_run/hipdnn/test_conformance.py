"""The promises of every engine, asked of hipdnn on every state of the double."""

from __future__ import annotations

import importlib
import os
import sys

import pytest

from bench_run.engines import hipdnn
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.graph.scale import scaled
from tests.conformance.test_promises import *  # noqa: F403 - the list of promises is one


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("sweep", marks=pytest.mark.slow),
        pytest.param("dlpack", marks=pytest.mark.slow),
        "newest",
    ],
)
def engine_spec(request):
    return request.param


@pytest.fixture(scope="module")
def engine(engine_spec, doubles):
    """The engine on one state; the module is gone again afterwards."""
    os.environ["HIPDNN_DOUBLE_PROFILE"] = engine_spec
    sys.path.insert(0, str(doubles))
    importlib.invalidate_caches()
    engine = hipdnn.open(parse_spec("hipdnn"), EngineOptions())
    build = engine.build
    # Without a scale attention is refused: the promises mean what the reference takes it for.
    engine.build = lambda graph, variant: build(scaled(graph, "rsqrt")[0], variant)
    yield engine
    engine.close()
    sys.path.remove(str(doubles))
    del os.environ["HIPDNN_DOUBLE_PROFILE"]
    for name in [name for name in sys.modules if name.startswith("hipdnn_frontend")]:
        del sys.modules[name]
