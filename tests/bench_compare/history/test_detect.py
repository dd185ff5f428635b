"""Steps, slopes and odd documents in simulated archives, through the real functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_compare.history.steps.detect import detect, odd_heads
from bench_compare.history.steps.noise import Grid
from tests.support import examples

LEAST = math.log1p(0.01)


def archive(seed=1, cases=20, builds=40, sd=0.01):
    return np.random.default_rng(seed).normal(0, sd, (cases, builds))


def grid(values, unit=None, build=None, variance=None):
    count = values.shape[1]
    return Grid(
        values,
        np.zeros_like(values) if variance is None else variance,
        np.arange(count) if build is None else np.asarray(build),
        np.zeros(count, int) if unit is None else np.asarray(unit),
    )


def found(values, **more):
    return detect(grid(values, **more), LEAST)


def test_identical_builds_give_no_event():
    assert () == found(archive()).events


@pytest.mark.parametrize("value", [0.0, 7.5])
def test_builds_that_agree_to_the_last_digit_give_no_event(value):
    assert () == found(np.full((12, 30), value)).events


def test_a_step_of_five_percent_is_placed_where_it_came():
    values = archive()
    values[3, 25:] += math.log(1.05)
    assert [25] == [event.build for event in found(values).events]


def test_the_interval_of_a_step_holds_its_size():
    values = archive()
    values[3, 25:] += math.log(1.05)
    event = found(values).events[0]
    assert event.low < math.log(1.05) < event.high


def test_steps_at_one_build_are_one_event():
    values = archive()
    values[3:9, 25:] += 0.05
    values[9:12, 25:] -= 0.05
    assert [set(range(3, 12))] == [
        {member.row for member in event.members} & set(range(20)) for event in found(values).events
    ]


@pytest.mark.long
def test_a_step_that_all_series_take_is_a_step_of_the_suite():
    values = archive(cases=40)
    values[:, 30:] += 0.02
    result = found(values)
    assert result.suite
    assert 40 in {member.row for member in result.events[0].members}


def test_a_step_that_was_undone_is_two_events():
    values = archive(builds=60)
    values[3, 25:40] += 0.06
    assert [25, 40] == [event.build for event in found(values).events]


def test_a_unit_of_hardware_is_no_step_of_a_build():
    values = archive()
    unit = (np.arange(40) >= 20).astype(int)
    values[:, 20:] += 0.15
    assert () == found(values, unit=unit).events


def test_a_step_is_seen_across_units_in_turn():
    values = archive()
    unit = np.arange(40) % 2
    values[:, unit == 1] += 0.15
    values[2, 30:] += 0.05
    assert [30] == [event.build for event in found(values, unit=unit).events]


def test_a_ramp_is_one_slope():
    values = archive(builds=60, sd=0.005)
    values[5] += 0.2 * np.clip((np.arange(60) - 15) / 30, 0, 1)
    events = found(values).events
    assert [True] == [event.slope for event in events]
    assert abs(events[0].earliest - 15) <= 5


def test_one_odd_document_is_no_event():
    values = archive()
    values[:, 20] += 0.3
    values[4, 30] += 0.5
    assert () == found(values).events


def test_the_newest_odd_document_asks_for_a_repeat():
    values = archive()
    values[7, -1] += 0.2
    result = found(values)
    assert () == result.events
    assert [7] == [one.row for one in odd_heads(result.tracks[:20], result.steps, 39, LEAST)]


def test_two_documents_of_the_newest_build_are_enough_for_a_large_step():
    values = archive(cases=10)
    values[7, -2:] += 0.2
    build = [*range(38), 38, 38]
    assert [38] == [event.build for event in found(values, build=build).events]


def test_a_step_comes_between_builds_never_within_one():
    values = archive()
    values[7, 21:] += 0.1
    build = np.arange(40) // 2
    assert {event.build for event in found(values, build=build).events} <= {10, 11}


def test_documents_whose_rounds_scatter_count_less():
    values, variance = archive(), np.zeros((20, 40))
    values[2, 20:24] += 0.04
    variance[2, 20:24] = 0.05**2
    assert () == found(values, variance=variance).events


def test_an_accepted_step_stays_where_it_was_accepted():
    values = archive(builds=60)
    values[3, 30:] += 0.04
    event = detect(grid(values), LEAST, {3: [29]}).events[0]
    assert (29, True) == (event.build, event.pinned)


def test_nothing_is_accepted_where_there_is_no_step():
    assert () == detect(grid(archive()), LEAST, {3: [20]}).events


@pytest.mark.parametrize("builds", [0, 1, 2, 3, 4, 5])
def test_short_archives_are_read(builds):
    assert () == found(archive(builds=builds)).events


def test_an_archive_without_a_series_has_no_event():
    assert () == found(np.empty((0, 5))).events


def test_a_series_that_is_never_there_costs_nothing():
    values = archive()
    values[4] = np.nan
    values[3, 25:] += 0.05
    assert [25] == [event.build for event in found(values).events]


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 0.5), st.integers(4, 26))
def test_the_mirrored_archive_has_the_mirrored_events(seed, size, at):
    values = archive(seed, cases=6, builds=30)
    values[1, at:] += size
    up, down = found(values).events, found(-values).events
    assert [(e.build, round(e.shift, 9)) for e in up] == [
        (e.build, round(-e.shift, 9)) for e in down
    ]


@pytest.mark.long
@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 10**6), st.randoms())
def test_the_order_of_the_series_changes_nothing(seed, random):
    values = archive(seed, cases=8, builds=30)
    values[1, 20:] += 0.05
    values[2, 12:] -= 0.05
    order = list(range(8))
    random.shuffle(order)
    plain = [(e.build, round(e.shift, 9), len(e.members)) for e in found(values).events]
    mixed = [(e.build, round(e.shift, 9), len(e.members)) for e in found(values[order]).events]
    assert plain == mixed


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 10**6), st.floats(-20, 40))
def test_the_unit_of_time_changes_nothing(seed, offset):
    values = archive(seed, cases=6, builds=30)
    values[1, 20:] += 0.05
    assert [e.build for e in found(values).events] == [
        e.build for e in found(values + offset).events
    ]
