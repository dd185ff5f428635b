"""What a stranger sees in an archive at a glance, through the command: archives, and the answer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench_compare.cli import main
from tests.bench_compare.history import make


def told(folder, capsys, *words):
    """(word, hint, events as (kind, build) from the oldest on, sentence)."""
    code = main(["history", str(folder), "--json", "-", *words])
    found = json.loads(capsys.readouterr().out)
    answer = found["conclusion"]
    assert code == answer["exit_code"]
    places = [(event["kind"], event["build"]) for event in found["events"]]
    return (
        answer["word"],
        answer["hint"],
        sorted(places, key=lambda one: one[1]),
        answer["sentence"],
    )


def archive(folder, factors, cases=3, moved=1, noise=0.003, seed=1, **more):
    """A document for each factor, by which the first `moved` cases are slower."""
    random = np.random.default_rng(seed)
    rows = []
    for number, factor in enumerate(factors):
        levels = 1e6 * np.exp(random.normal(0, noise, cases))
        levels[:moved] *= factor
        rows.append(make.one(number, list(levels), random=random, spread=0.001, **more))
    return make.write(folder, rows)


STAIRS = [
    ([1] * 6 + [2] * 6, 0.003, [6]),
    ([1] * 4 + [2] * 4, 0.01, [4]),
    ([1] * 3 + [2] * 3 + [4] * 3, 0.01, [3, 6]),
    ([1] * 4 + [1.3] * 4 + [1.69] * 4, 0.01, [4, 8]),
    ([1] * 5 + [1.3] * 5 + [1.69] * 5, 0.002, [5, 10]),
    ([1] * 4 + [1.3] * 4, 0.002, [4]),
    ([1] * 3 + [2] * 3 + [3] * 3, 0.002, [3, 6]),
]


@pytest.mark.parametrize(("factors", "noise", "places"), STAIRS)
@pytest.mark.parametrize("moved", [1, 3])
def test_stairs_are_dated(tmp_path, factors, noise, places, moved, capsys):
    folder = archive(tmp_path / "a", factors, moved=moved, noise=noise)
    word, _, events, _ = told(folder, capsys)
    assert ("FAIL", [("step", place) for place in places]) == (word, events)


@pytest.mark.parametrize("builds", [12, 24])
@pytest.mark.parametrize("factor", [1.3, 10])
@pytest.mark.parametrize("moved", [1, 3])
def test_a_newest_build_that_is_far_slower_fails_at_once(tmp_path, builds, factor, moved, capsys):
    folder = archive(tmp_path / "a", [1] * (builds - 1) + [factor], moved=moved)
    word, _, events, sentence = told(folder, capsys)
    assert ("FAIL", [("step", builds - 1)]) == (word, events)
    assert "one document" in sentence


def test_a_newest_build_that_noise_may_explain_is_repeated_first(tmp_path, capsys):
    """Documents differ by 3 %, the newest by 35 %: one more of it decides."""
    factors = [1] * 14 + [1.35]
    folder = archive(tmp_path / "a", factors, noise=0.03, label="v14")
    word, hint, events, sentence = told(folder, capsys)
    assert ("UNDECIDED", []) == (word, events)
    assert sentence.startswith("one document of 2026-01-15 is 1.")
    assert "× slower (graph_000): repeat it" in sentence
    assert hint.startswith("bench-run --rerun-from ")
    assert " --label v14 -o " in hint


@pytest.mark.parametrize("factor", [1.25, 10])
def test_two_documents_of_the_newest_build_decide(tmp_path, factor, capsys):
    folder = archive(tmp_path / "a", [1] * 14 + [factor] * 2, noise=0.02)
    assert ("FAIL", [("step", 14)]) == told(folder, capsys)[::2]


def test_ten_percent_over_sixteen_documents_are_a_slope(tmp_path, capsys):
    folder = archive(tmp_path / "a", np.linspace(1, 1.1, 16))
    word, _, ((kind, _),), _ = told(folder, capsys)
    assert ("FAIL", "slope") == (word, kind)


def test_a_slow_creep_is_a_drift_since_its_first_build(tmp_path, capsys):
    """+0.7 % a build over 24 builds."""
    folder = archive(tmp_path / "a", 1.007 ** np.arange(24), cases=6, moved=2)
    word, _, ((kind, _),), sentence = told(folder, capsys)
    assert ("FAIL", "slope") == (word, kind)
    assert "graph_000, graph_001 drift slower since 2026-01-0" in sentence
    assert "1.17× slower" in sentence


@pytest.mark.parametrize("builds", [8, 12, 24, 40])
def test_a_quiet_archive_passes_with_its_limit(tmp_path, builds, capsys):
    """Documents differ by 5 %."""
    folder = archive(tmp_path / "a", [1] * builds, noise=0.05)
    word, _, events, sentence = told(folder, capsys)
    assert ("PASS", []) == (word, events)
    assert "no slow-down above 1." in sentence
    assert "is hidden (99 %)" in sentence


def test_a_single_odd_build_is_no_event(tmp_path, capsys):
    """One build in the middle is ×1.5 in all cases."""
    folder = archive(tmp_path / "a", [1] * 11 + [1.5] + [1] * 12, moved=3)
    assert ("PASS", []) == told(folder, capsys)[::2]


def test_noise_that_hides_everything_asks_for_documents(tmp_path, capsys):
    """Four documents that differ by 30 % exclude nothing: how many more, as a command."""
    folder = archive(tmp_path / "a", [1] * 5, noise=0.3, label="v9")
    word, hint, _, sentence = told(folder, capsys)
    assert "UNDECIDED" == word
    assert "may hide a slow-down up to" in sentence
    assert "exclude no less" not in sentence
    assert hint.startswith("for n in 1 2 ")
    assert " --label v9 -o " in hint
    assert hint.endswith("d004-again-$n.json; done")


def summaries(folder, factors):
    """Files of pytest-benchmark without samples, as it writes them by default."""
    folder.mkdir()
    random = np.random.default_rng(1)
    for number, factor in enumerate(factors):
        median = 1e-3 * factor * float(np.exp(random.normal(0, 0.003)))
        numbers = dict.fromkeys(("min", "max", "mean", "median", "q1", "q3"), median)
        stats = numbers | {"stddev": 1e-5, "iqr": 1e-5, "rounds": 30, "iterations": 1}
        one = {"name": "test_a", "fullname": "t.py::test_a", "group": None, "params": None}
        text = {
            "machine_info": {"node": "ci"},
            "datetime": make.started(number),
            "version": "5.1.0",
            "benchmarks": [{**one, "extra_info": {}, "options": {}, "stats": stats}],
        }
        (folder / f"{number:03}.json").write_text(json.dumps(text))
    return folder


@pytest.mark.parametrize(
    ("factors", "word", "events"),
    [([1] * 30, "PASS", []), ([1] * 18 + [1.15] * 12, "FAIL", [("step", 18)])],
)
def test_files_that_hold_summaries_alone_are_read(tmp_path, factors, word, events, capsys):
    assert (word, events) == told(summaries(tmp_path / "a", factors), capsys)[::2]
