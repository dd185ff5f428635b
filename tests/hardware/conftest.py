"""`hipdnn` on an AMD GPU. Where there is none, everything here is skipped with the reason."""

from __future__ import annotations

import pytest

from tests.conformance.opening import engine_params, opened


@pytest.fixture(scope="session", params=engine_params("hipdnn"))
def engine_spec(request):
    return request.param


@pytest.fixture(scope="session")
def engine(engine_spec):
    with opened(engine_spec) as engine:
        yield engine
