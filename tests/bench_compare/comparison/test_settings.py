"""What both sides must share is said where they do not."""

from __future__ import annotations

from dataclasses import replace

from bench_compare.comparison.compare import compare
from bench_compare.input.sides import Grouping, group
from bench_compare.model import Source
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, engine, round_, side


def timed(*how, graph="g"):
    """A document with a case for each way in which device times are taken."""
    return document(
        [
            case(
                f"{graph}{place}", [replace(round_(0, {"device_ns": [10, 11]}), device_timing=one)]
            )
            for place, one in enumerate(how)
        ],
        run_id=f"{graph}{how}",
    )


def names(base, other):
    found = compare(side("a", *base), [side("b", *other)], Policy())
    return {one.name for one in found.differences}


def test_times_behind_a_gate_and_without_one_are_unlike():
    assert "device times" in names([timed("gated events")], [timed("events")])


def test_times_taken_alike_or_in_an_unknown_way_are_not_held_against_each_other():
    assert "device times" not in names([timed("gated events")], [timed("gated events")])
    assert "device times" not in names([timed("gated events")], [timed(None)])


def test_cases_whose_device_times_were_taken_alike_may_stand_in_other_shards():
    whole = timed("gated events", "events", "events")
    first, *rest = (replace(whole, cases=(one,)) for one in whole.cases)
    shards = [replace(one, run=replace(one.run, id=f"s{n}")) for n, one in enumerate(rest)]
    assert "device times" not in names([whole], [first, *shards])
    assert "device times" not in names([whole], shards)


# --- engines of one run: what their specs give is the question ---


def engines_compared(**knobs):
    """Differences between the engines of one run: keys, and the knobs that each had."""
    engines = [engine(key, knobs=had) for key, had in knobs.items()]
    cases = [case("g", [[10, 11]] * 3, engine=key) for key in knobs]
    run = document(cases, engines=engines)
    base, others = group([Source("run.json", run, "bench")], Grouping(by="engine"))
    return {
        found.name: (found.base, found.other)
        for found in compare(base, others, Policy()).differences
    }


def test_threads_in_the_specs_of_engines_of_one_run_are_the_question():
    assert {} == engines_compared(**{"numpy+threads=1": {}, "numpy": {}})


def test_a_knob_in_the_specs_of_engines_of_one_run_is_the_question():
    assert {} == engines_compared(**{"cudnn+knob:split=2": {"split": "2"}, "cudnn": {}})


def test_a_knob_that_no_spec_gives_is_listed():
    had = {"cudnn+knob:split=2": {"split": "2", "tile": "1"}, "cudnn": {"tile": "3"}}
    assert {"knobs": ("tile 1", "tile 3")} == engines_compared(**had)


def test_knobs_in_the_specs_of_different_runs_are_listed():
    key = "cudnn+knob:split=2"
    base, other = (
        document([], run_id=run, engines=[engine(key, knobs=had)])
        for run, had in (("one", {"split": "2"}), ("two", {}))
    )
    assert "knobs" in names([base], [other])
