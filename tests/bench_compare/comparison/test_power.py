"""The promises about noise, on a small version of `tests/benchmarks/compare_power.py`."""

from __future__ import annotations

import pytest

from tests.benchmarks.compare_power import SCENARIOS, Design, pair, rates

DESIGN = Design(graphs=400)


QUICK = ("iid", "run.2", "clk15", "all")
NAMES = [
    pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK), id=name)
    for name in SCENARIOS
]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_identical_builds_raise_no_alarm(name):
    found = rates(pair(SCENARIOS[name], DESIGN, 0.0, seed=11), 0.0)
    assert found.alarms <= 0.0025
    assert found.coverage >= 0.90  # 95 % in the mean, here of 400 cases


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_true_five_percent_is_found(name):
    found = rates(pair(SCENARIOS[name], DESIGN, 0.05, seed=12), 0.05)
    assert found.power >= 0.95
    assert found.false <= 0.07  # 5 % in the mean, here of forty alarms


@pytest.mark.long
def test_a_true_two_percent_is_found_where_rounds_spread_little():
    found = rates(pair(SCENARIOS["run.2"], DESIGN, 0.02, seed=13), 0.02)
    assert found.power >= 0.8
