"""`hipdnn` on an AMD GPU. Where there is none, everything here is skipped with the reason."""

from __future__ import annotations

import pytest

from tests.conformance.opening import opened


@pytest.fixture(scope="session")
def engine_spec():
    return "hipdnn"


@pytest.fixture(scope="session")
def engine(engine_spec):
    with opened(engine_spec) as engine:
        yield engine
