"""Blocks of samples: their size, what does not count, when there are enough."""

from __future__ import annotations

from itertools import repeat

import pytest

from bench_run.measure import blocks
from bench_run.measure.blocks import BlockLoop, block_shape
from bench_run.measure.loop import SamplingBudget
from tests.bench_run.measure.test_loop import ScriptedPlan, ScriptedStream

MS = 1_000_000


def measure(duration_ns, turns, iterations=4, held=False, **stream):
    """Blocks of a plan that always takes as long, in so many turns at most."""
    made = ScriptedStream(repeat(duration_ns, 100_000), **stream)
    plan, asked = ScriptedPlan(made), []

    def next_block(*, enough):
        asked.append(enough)
        return None if len(asked) > turns else (len(asked) - 1) % 2

    budget = SamplingBudget(2, iterations, hold_iterations=held)
    loop = BlockLoop(plan, made, budget, clock=made.time)
    found, taken = loop.measure(next_block)
    return found, taken, asked


@pytest.mark.parametrize(
    ("execution_ns", "shape"),
    [
        (1_000, (8, 24)),
        (50_000, (4, 24)),
        (300_000, (2, 4)),
        (700_000, (2, 1)),
        (3 * MS, (1, 1)),
    ],
)
def test_a_block_lasts_two_milliseconds_if_an_execution_is_shorter(execution_ns, shape):
    assert block_shape(execution_ns) == shape


def test_the_document_learns_where_blocks_begin_and_their_places():
    found, taken, _ = measure(300_000, turns=3)
    assert found.series == {"e2e_ns": [300_000] * 12}
    assert (taken.begins, taken.places) == ({"e2e_ns": [0, 4, 8]}, [0, 1, 0])


def test_both_series_of_a_device_have_the_same_blocks():
    found, taken, _ = measure(300_000, turns=2, clock="events", gate_depth=100)
    assert {name: len(samples) for name, samples in found.series.items()} == {
        "device_ns": 8,
        "e2e_ns": 8,
    }
    assert taken.begins == {"device_ns": [0, 4], "e2e_ns": [0, 4]}


def test_a_side_has_enough_after_its_time_and_its_iterations():
    _, _, asked = measure(700_000, turns=1_000)
    blocks_needed = -(-blocks.LEAST_HOST_NS // (3 * 700_000))
    assert asked.index(True) == blocks_needed


@pytest.mark.parametrize("iterations", [1, 2, 3, 4, 5, 6, 7, 20, 100, 1000, 1201])
@pytest.mark.parametrize("stream", [{}, {"clock": "events", "gate_depth": 100}])
def test_iterations_that_are_asked_for_are_taken_exactly_in_as_many_blocks_by_any_speed(
    iterations, stream
):
    counts = set()
    for duration_ns in (1_000, 700_000, 5 * MS):
        asked = blocks.ENOUGH_BLOCKS + 1
        found, taken, said = measure(duration_ns, asked, iterations, held=True, **stream)
        needed = said.index(True)
        begins = taken.begins["e2e_ns"]
        ends = [*begins, len(found.series["e2e_ns"])]
        assert ends[needed] == iterations
        counts.add(needed)
    assert len(counts) == 1


def test_a_limit_that_ends_blocks_early_is_said():
    found, _, _ = measure(700_000, 2, 20, held=True)
    assert (len(found.series["e2e_ns"]), found.stopped_by) == (6, "max time")


@pytest.mark.long
def test_more_iterations_than_fit_into_the_time_are_measured_all_the_same():
    found, _, asked = measure(700_000, turns=5_000, iterations=2_000)
    assert len(found.series["e2e_ns"]) >= 2_000
    assert asked.index(True) == 2_000
