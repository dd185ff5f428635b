"""An archive tells what single documents cannot know: how much documents of one build differ."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bench_schema import files

from bench_compare.cli import main
from bench_compare.history.calibration import learned
from tests.bench_compare.history import make


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibration") / "a"
    return make.archive(folder, builds=40, cases=40, noise=0.02, steps=((3, 20, 1.3),))


def pair(folder, factor):
    """Two single documents of that machine, all cases apart by a factor."""
    random = np.random.default_rng(7)
    for number, moved in ((100, 1.0), (101, factor)):
        made = make.one(number, [1e6 * moved] * 40, random=random, label=f"v{number}")
        files.save(folder / f"{number}.json", made)
    return str(folder / "100.json"), str(folder / "101.json")


def verdicts(capsys, *words):
    main([*words, "--json", "-"])
    return {case["verdict"] for case in json.loads(capsys.readouterr().out)["cases"]}


@pytest.mark.long
def test_the_spread_between_documents_is_found(archive):
    (entry,) = learned(archive)[0].entries.values()
    assert 0.02 == pytest.approx((entry.own_variance + entry.common_variance) ** 0.5, rel=0.2)


@pytest.mark.long
def test_single_documents_within_that_spread_are_no_change(archive, tmp_path, capsys):
    paths = pair(tmp_path, 1.03)
    alone = verdicts(capsys, *paths)
    assert ({"slower"}, {"unclear"}) == (alone, verdicts(capsys, *paths, "--archive", str(archive)))


def test_single_documents_far_apart_are_still_a_change(archive, tmp_path, capsys):
    assert {"slower"} == verdicts(capsys, *pair(tmp_path, 1.3), "--archive", str(archive))


def test_an_archive_that_is_not_there_is_one_line(tmp_path, capsys):
    assert 1 == main([*pair(tmp_path, 1.0), "--archive", "nowhere"])
    err = capsys.readouterr().err
    assert (1, True) == (len(err.splitlines()), "no such folder" in err)


def test_documents_are_compared_also_where_the_archive_is_too_small(tmp_path, monkeypatch, capsys):
    paths = pair(tmp_path, 1.3)
    monkeypatch.chdir(tmp_path)
    assert 2 == main([*paths, "--archive", "."])
    out = " ".join(capsys.readouterr().out.split())
    assert "4 documents of one engine on one unit of hardware are needed; compared without" in out
    assert "FAIL: " in out
