"""Plans that rotate their buffers."""

from __future__ import annotations

import numpy as np
import pytest

from bench_run.engines.arrange import RotatingPlan, copies
from bench_run.engines.base import PlanAbilities, PlanFacts
from tests.conformance.data import case, misses
from tests.conformance.opening import opened, outputs


class Scripted:
    abilities = PlanAbilities()
    facts = PlanFacts(chosen={"plan": "a"}, buffer_bytes=100)

    def __init__(self, number, log):
        self.number, self.log = number, log

    def run(self):
        self.log.append(self.number)

    def download(self):
        return {0: np.array([self.number])}


@pytest.mark.parametrize(
    ("buffer_bytes", "expected"), [(2**20, 96), (2**30, 2), (1000, 256), (0, 256)]
)
def test_copies_are_three_times_the_cache_within_bounds(buffer_bytes, expected):
    assert expected == copies(buffer_bytes, 32 * 2**20)


def test_runs_take_turns():
    log = []
    plan = RotatingPlan([Scripted(i, log) for i in range(3)])
    for _ in range(5):
        plan.run()
    assert [0, 1, 2, 0, 1] == log


def test_the_download_is_of_the_copy_that_ran_last():
    plan = RotatingPlan([Scripted(i, []) for i in range(3)])
    plan.run()
    plan.run()
    assert 1 == plan.download()[0][0]


def test_the_facts_say_how_many_copies_there_are():
    plan = RotatingPlan([Scripted(i, []) for i in range(3)])
    assert {"plan": "a", "buffer copies": "3"} == dict(plan.facts.chosen)


@pytest.mark.parametrize("spec", ["numpy", "torch:cpu"])
@pytest.mark.parametrize("cache", ["hot", "cold", "rotate"])
def test_the_cache_state_does_not_change_results(spec, cache):
    graph, inputs, expected = case("conv_fwd_2d", "float", "packed")
    with opened(spec, cache=cache) as engine:
        engine.stream.flush()
        assert [] == misses(graph, outputs(engine, graph, inputs), expected)
