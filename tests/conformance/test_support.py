"""No engine supports less, or more, than its stored table says."""

from __future__ import annotations

import pytest

from tests.support_matrix import NEEDS, stored, table


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(*needs)) for name, needs in NEEDS.items()]
)
def test_an_engine_supports_what_its_table_says(name):
    assert stored(name) == table(name), "if this is meant: make support, and commit the table"
