"""Archives that nobody planned: empty documents, clocks that stand, new hardware, many builds."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_compare.cli import main
from bench_compare.history.steps.detect import detect
from bench_compare.history.steps.noise import Grid
from tests.bench_compare.history import make
from tests.support import examples

LEAST = math.log1p(0.01)


def told(capsys, folder, *words):
    code = main(["history", str(folder), *words])
    out, err = capsys.readouterr()
    return code, out, err


def written(folder, levels, seed=1, **changes):
    """A document for each row of levels; `changes`: name → its value by the number of the build."""
    random = np.random.default_rng(seed)
    rows = [
        make.one(n, row, random=random, **{name: of(n) for name, of in changes.items()})
        for n, row in enumerate(levels)
    ]
    return make.write(folder, rows)


def test_a_newest_build_that_holds_no_case_is_no_answer(tmp_path, capsys):
    folder = written(tmp_path / "a", [[1e6, 2e6]] * 10 + [[]])
    code, out, err = told(capsys, folder)
    assert (1, "nothing can be said") == (code, out.splitlines()[1])
    assert "2 absent" in out
    assert "holds no case" in " ".join(out.split())
    assert not err


def test_a_regression_before_a_build_without_cases_still_fails(tmp_path, capsys):
    levels = [[1e6, 2e6]] * 8 + [[1.2e6, 2e6]] * 4 + [[]]
    assert 2 == told(capsys, written(tmp_path / "a", levels))[0]


def test_cases_that_fail_together_are_one_event(tmp_path, capsys):
    folder = written(tmp_path / "a", [[1e6] * 5] * 8 + [["failed"] * 5])
    code, out, _ = told(capsys, folder, "--json", "-")
    (event,) = json.loads(out)["events"]
    assert (2, 5, "broken") == (code, len(event["changes"]), event["kind"])


def test_of_cases_that_fail_together_all_have_to_be_accepted(tmp_path, capsys):
    folder = written(tmp_path / "a", [[1e6] * 3] * 8 + [["failed"] * 3])
    some, every = tmp_path / "some.toml", tmp_path / "every.toml"
    some.write_text('[[event]]\ndate = 2026-01-09\ncases = ["graph_001"]\n')
    every.write_text("[[event]]\ndate = 2026-01-09\n")
    codes = [told(capsys, folder, "--events", str(path))[0] for path in (some, every)]
    assert [2, 0] == codes


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"])
def test_a_start_beyond_the_calendar_is_left_out(tmp_path, text, capsys):
    starts = {5: text}
    folder = written(tmp_path / "a", [[1e6]] * 6, started=lambda n: starts.get(n, make.started(n)))
    code, _, err = told(capsys, folder)
    assert (0, True) == (code, "d005.json: left out, its start is not a date" in err)


def test_builds_that_start_at_one_instant_are_said_to_have_no_order(tmp_path, capsys):
    folder = written(tmp_path / "a", [[1e6]] * 6, started=lambda n: make.started(min(n, 3)))
    assert "3 builds start at the same instant" in told(capsys, folder)[2]


def test_a_clock_that_goes_back_orders_by_what_it_said(tmp_path, capsys):
    levels = [[1.1e6]] * 8 + [[1e6]] * 8
    folder = written(tmp_path / "a", levels, started=lambda n: make.started(20 - n))
    (event,) = json.loads(told(capsys, folder, "--json", "-")[1])["events"]
    assert (8, "slower") == (event["build"], event["direction"])


def test_new_hardware_is_no_step_and_is_said(tmp_path, capsys):
    levels = [[1e6 * (1.15 if n >= 10 else 1)] * 5 for n in range(20)]
    folder = written(tmp_path / "a", levels, host=lambda n: "new" if n >= 10 else "old")
    code, _, err = told(capsys, folder)
    assert (0, True) == (code, "from 2026-01-11 on no document is of the hardware" in err)


def test_a_first_document_of_new_hardware_is_no_answer(tmp_path, capsys):
    levels = [[1e6]] * 9 + [[2e6]]
    folder = written(tmp_path / "a", levels, host=lambda n: "new" if n == 9 else "old")
    code, out, _ = told(capsys, folder)
    assert 1 == code
    assert "no case has two documents before 2026-01-10 on its hardware" in " ".join(out.split())


def test_hardware_that_came_back_is_no_step_and_no_remark(tmp_path, capsys):
    levels = [[1e6 * (1.15 if 7 <= n < 13 else 1)] * 5 for n in range(20)]
    folder = written(tmp_path / "a", levels, host=lambda n: "b" if 7 <= n < 13 else "a")
    assert (0, "") == told(capsys, folder)[::2]


def test_a_step_on_new_hardware_is_found_there(tmp_path, capsys):
    levels = [[1e6 * (1.15 if n >= 8 else 1) * (1.06 if n >= 15 else 1)] * 3 for n in range(22)]
    folder = written(tmp_path / "a", levels, host=lambda n: "new" if n >= 8 else "old")
    (event,) = json.loads(told(capsys, folder, "--json", "-")[1])["events"]
    assert (15, 1.06) == (event["build"], pytest.approx(event["changes"][0]["ratio"], abs=0.005))


def test_times_of_nothing_are_read(tmp_path, capsys):
    folder = written(tmp_path / "a", [[0.1, 2e6]] * 8)
    assert 0 == told(capsys, folder)[0]


def test_a_build_that_was_measured_again_joins_its_build(tmp_path, capsys):
    levels = [[1e6 * (1.1 if n % 12 >= 6 else 1)] * 3 for n in range(24)]
    folder = written(tmp_path / "a", levels, label=lambda n: f"v{n % 12:02d}")
    found = json.loads(told(capsys, folder, "--by", "label", "--json", "-")[1])
    assert [2] * 12 == [len(build["documents"]) for build in found["builds"]]
    assert ["v06"] == [found["builds"][event["build"]]["name"] for event in found["events"]]


def changes(values, pins):
    count = values.shape[1]
    builds = np.arange(count)
    grid = Grid(values, np.zeros_like(values), builds, np.zeros(count, np.int64))
    return detect(grid, LEAST, pins, 0.001)


def test_a_thousand_documents_of_one_case_show_their_step():
    values = np.random.default_rng(1).normal(0, 0.01, (1, 1000))
    values[0, 600:] += 0.03
    (event,) = changes(values, {}).events
    assert abs(event.build - 600) <= 2


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(0, 10**6),
    st.floats(0.06, 0.3),
    st.lists(st.floats(-0.3, 0.3), min_size=1, max_size=12),
)
def test_an_accepted_step_does_not_move_whatever_is_appended(seed, size, more):
    random = np.random.default_rng(seed)
    values = random.normal(0, 0.01, (4, 24 + len(more)))
    values[1, 15:24] += size
    values[1, 24:] += size + np.array(more)
    for documents in (24, 24 + len(more)):
        found = changes(values[:, :documents], {1: [15]}).steps[1]
        assert [15] == [step.column for step in found if step.column == 15]


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 10**6), st.floats(0.08, 0.3), st.integers(0, 20))
def test_a_large_step_stays_while_like_documents_are_appended(seed, size, more):
    random = np.random.default_rng(seed)
    values = random.normal(0, 0.01, (4, 44))
    values[1, 15:] += size
    found = changes(values[:, : 24 + more], {}).steps[1]
    places = [step.column for step in found if step.shift > 0.02]
    assert [True] == [abs(place - 15) <= 1 for place in places]


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10**6))
def test_changes_are_in_order_and_have_two_sides_whatever_the_archive(seed):
    """Few documents, several of a build, missing values, units in any order, clocks that stand."""
    random = np.random.default_rng(seed)
    shape = random.integers(0, 6), random.integers(1, 30)
    values = random.normal(0, random.choice([0, 1e-9, 0.01, 1]), shape)
    values[random.random(shape) < random.choice([0, 0.2, 0.9])] = np.nan
    values[:, shape[1] // 2 :] += random.choice([0, 0.05, 3])
    builds = np.sort(random.integers(0, shape[1], shape[1]))
    grid = Grid(values, np.abs(values) * 1e-6, builds, random.integers(0, 3, shape[1]))
    pins = {0: random.integers(0, shape[1], 3).tolist()}
    found = detect(grid, LEAST, pins, 0.001)
    for steps in found.steps:
        places = [step.column for step in steps]
        assert places == sorted(set(places))
        assert all(max(step.before) < min(step.after) for step in steps)
    assert all(event.earliest <= event.latest for event in found.events)
    assert all(math.isfinite(one.hidden) for one in found.newest)
