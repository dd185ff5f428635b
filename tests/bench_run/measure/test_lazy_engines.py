"""An engine that does nothing in some iterations is wrong, however right its outputs look."""

from __future__ import annotations

import pytest
from hostile_engine import LAZY

import bench_run

pytestmark = pytest.mark.slow

CAUGHT = "iterations wrote nothing"


def measured(graph, way, **options):
    if way not in ("lazy-at-random", "lazy-every-tenth"):  # rare: as much effort as by default
        options = {"rounds": 2, "iterations": 40, **options}
    document = bench_run.run([str(graph)], engine=[f"hostile:{way}"], **options)
    return document.cases[0]


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("way", [way for way in LAZY if way.startswith("lazy")])
def test_an_engine_that_leaves_iterations_out_is_wrong(small_graph, way):
    validation = measured(small_graph, way, replay=way == "lazy-under-replay").validation
    assert "failed" == validation.status
    assert CAUGHT in validation.reason or "differ" in validation.reason


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize(
    "way", ["lazy-after-the-first", "lazy-every-second", "lazy-after-a-failure", "lazy-in-half"]
)
def test_an_engine_that_does_not_say_where_its_outputs_lie_is_caught_by_repeats(small_graph, way):
    validation = measured(small_graph, f"{way}-out-of-reach").validation
    assert "failed" == validation.status


@pytest.mark.usefixtures("hostile")
def test_an_engine_that_writes_into_its_inputs_is_wrong_and_they_are_named(small_graph):
    validation = measured(small_graph, "scribbles").validation
    assert ("failed", False) == (validation.status, validation.inputs_unchanged)
    assert "wrote into its inputs" in validation.reason


@pytest.mark.usefixtures("hostile")
def test_laziness_is_seen_without_a_reference_too(small_graph):
    validation = measured(small_graph, "lazy-every-tenth", reference="none").validation
    assert "failed" == validation.status


@pytest.mark.usefixtures("hostile")
def test_an_engine_that_works_passes_and_every_iteration_ran_on_canaries(small_graph):
    case = measured(small_graph, "fine", rounds=2, iterations=10)
    assert ("passed", True) == (case.validation.status, case.validation.inputs_unchanged)
    timed = sum(len(each.series["e2e_ns"]) for each in case.rounds)
    assert case.validation.iterations_poisoned >= timed
