"""Public series with steps that their authors know (`tests/data/series`), and series of noise."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench_compare.cli import main
from tests.bench_compare.history import make
from tests.conftest import ROOT

PUBLIC = json.loads((ROOT / "tests/data/series/public.json").read_text())["series"]


def events(folder, capsys):
    main(["history", str(folder), "--json", "-"])
    return json.loads(capsys.readouterr().out)["events"]


def written(folder, rows):
    """A document for each build, of levels in seconds."""
    random = np.random.default_rng(1)
    return make.write(
        folder,
        [
            make.one(n, [1e9 * v for v in row], random=random, rounds=1, count=3, spread=0.0)
            for n, row in enumerate(rows)
        ],
    )


@pytest.mark.parametrize("series", PUBLIC, ids=lambda series: series["name"])
def test_the_known_steps_of_a_public_series_are_dated(tmp_path, series, capsys):
    found = events(written(tmp_path / "a", [[value] for value in series["values"]]), capsys)
    places = [event["build"] for event in found]
    assert [] == [at for at in series["steps"] if all(abs(at - place) > 1 for place in places)]
    if not series["more"]:
        assert len(places) == len(series["steps"])


def test_the_public_series_hold_twenty_one_known_steps_or_more():
    assert sum(len(series["steps"]) for series in PUBLIC) >= 21


@pytest.mark.parametrize("seed", range(3))
def test_six_series_of_a_hundred_builds_of_noise_have_no_event(tmp_path, seed, capsys):
    random = np.random.default_rng(seed)
    rows = 1e-3 * np.exp(random.normal(0, 0.02, (100, 6)))
    assert [] == events(written(tmp_path / "a", rows), capsys)


@pytest.mark.parametrize("seed", [1, 4, 5, 7])
def test_two_levels_by_chance_are_not_steps(tmp_path, seed, capsys):
    """Each value of six cases is of one of two levels, 10 % apart. Some run of equal ones is longer
    than normal noise would give."""
    random = np.random.default_rng(seed)
    logs = random.normal(0, 0.003, (6, 24)) + 0.1 * (random.random((6, 24)) < 0.5)
    assert [] == events(written(tmp_path / "a", 1e-3 * np.exp(logs.T)), capsys)
