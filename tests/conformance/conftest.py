"""Which engines the promises are asked of: every row of the ENGINES table.

Other suites (on a GPU, on hardware) define `engine_spec` and `engine` of their own and import the
tests: ``from tests.conformance.test_promises import *``. The list of promises is one.
"""

from __future__ import annotations

import pytest

from bench_run.engines import ENGINES
from tests.conformance.opening import engine_params, opened

SPECS = {"torch": ("torch:cpu",), "onnxruntime": ("onnxruntime:cpu",), "kernel": ()}
"""What to open of a row where it is not its bare name; the engine ``kernel`` runs what a file has,
and has no kernels of its own."""


EVERY = [spec for name in ENGINES for spec in SPECS.get(name, (name,))]


@pytest.fixture(scope="module", params=engine_params(*EVERY))
def engine_spec(request):
    return request.param


@pytest.fixture(scope="module")
def engine(engine_spec):
    with opened(engine_spec) as engine:
        yield engine
