"""The race over the exhaustive measurement of all plans of 24 graphs on an H200."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data" / "tuning" / "exhaustive_h200.json.gz"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(
        "tune_gpu", ROOT / "tests" / "benchmarks" / "tune_gpu.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def replayed(script):
    """Regrets, whether two races name the same winner, and whether the same or a tied one."""
    return script.replay(DATA, seeds=4)


def test_the_data_hold_at_least_19_graphs_with_many_plans(script):
    many = [row for row in script.load(DATA)["graphs"] if len(row["plans"]) > 5]
    assert 19 <= len(many)


def test_95_percent_of_regrets_are_at_most_half_a_percent(replayed):
    assert np.percentile(replayed[0], 95) <= 0.005


def test_nine_of_ten_pairs_of_races_name_the_same_winner(replayed):
    assert np.mean(replayed[1]) >= 0.9
