"""Engines that want to look right without working."""

from __future__ import annotations

import json
import os
from random import Random

import numpy as np
import pytest

import bench_run
from bench_run.measure.canaries import LONG_NS, HostCanaries, Watched
from bench_run.streams.host import HostStream
from tests.support import graph_json

IGNORES = "the outputs do not follow the inputs"
CAUGHT = {
    "remembers": IGNORES,
    "mends": IGNORES,
    "decoy": IGNORES,
    "finds-expected": IGNORES,
    "watches": IGNORES,
    "leaves-to-a-thread": "iterations wrote nothing",
    "reallocates": "iterations wrote nothing",
    "restores-inputs": "differ",
}


WAYS = (*CAUGHT, "stops-the-clock", "remembers-by-content")


PLACE = Watched(0, np.arange(4), np.full(4, 7, np.uint8), 4)


class Watches:
    """A plan that works where its output is not what it was."""

    def __init__(self):
        self.home = np.zeros(4, np.uint8)

    def run(self):
        works = bool(self.home.any())
        self.home[...] = 0
        return works

    def locate_outputs(self, *, upcoming):
        return {0: self.home}


@pytest.fixture(scope="module")
def cases(_hostile_folder, tmp_path_factory):
    """One run of all of them, by their names."""
    path = tmp_path_factory.mktemp("graph") / "g.json"
    path.write_text(json.dumps(graph_json()))
    engines = [f"hostile:{way}" for way in WAYS]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(_hostile_folder))
        here = os.environ.get("PYTHONPATH", "")
        patch.setenv("PYTHONPATH", f"{_hostile_folder}{os.pathsep}{here}".rstrip(os.pathsep))
        document = bench_run.run([str(path)], engine=engines, rounds=1, iterations=20)
    return dict(zip(WAYS, document.cases, strict=True))


@pytest.mark.parametrize("way", CAUGHT)
def test_an_engine_that_only_looks_right_is_wrong(cases, way):
    validation = cases[way].validation
    assert "failed" == validation.status
    assert CAUGHT[way] in validation.reason


@pytest.mark.parametrize(("estimate_ns", "works"), [(LONG_NS, 5), (LONG_NS - 1, 0)])
def test_an_engine_that_works_only_when_it_is_watched_works_in_long_iterations(estimate_ns, works):
    plan, worked = Watches(), []
    canaries = HostCanaries(plan.locate_outputs, plan.run, HostStream(), None, (PLACE,), Random(0))
    canaries.choose(estimate_ns)
    for _ in range(5):
        canaries.before()
        worked.append(plan.run())
        canaries.after()
    assert (works, 5, 0) == (sum(worked), canaries.looked, canaries.untouched)


def test_within_a_pass_the_layers_before_run_before_every_iteration_on_canaries_or_not():
    stream, order = HostStream("pass", pass_bytes=1 << 20), []
    locate, runs_before = Watches().locate_outputs, stream.abilities.runs_before
    run = lambda: order.append("case")  # noqa: E731
    canaries = HostCanaries(locate, run, stream, runs_before, (PLACE,), Random(0))
    canaries.choose(1000)
    with stream.run_before(lambda: order.append("rest"), 0):
        for _ in range(100):
            canaries.before()
    assert ["rest", "case"] * (len(order) // 2) == order
    assert 50 < canaries.looked < 90


def test_an_engine_that_replaces_the_clock_is_timed_by_the_one_that_was_there(cases):
    assert cases["stops-the-clock"].summary["e2e_ns"].min > 2_000_000


def test_an_engine_that_knows_its_inputs_again_is_not_found_where_runs_take_microseconds(cases):
    """What the README says of its limits; where they take longer, `tests/exploits`."""
    assert "passed" == cases["remembers-by-content"].validation.status


def test_outputs_that_rightly_do_not_follow_the_inputs_pass():
    document = bench_run.run(
        [],
        op=["gen_index: dims=8x8 axis=1", "cmp_gt: dims=4x4"],
        engine=["numpy"],
        init=["constant:1"],
        rounds=1,
        iterations=2,
    )
    assert {"passed"} == {case.validation.status for case in document.cases}
