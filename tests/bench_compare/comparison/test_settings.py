"""What both sides must share is said where they do not."""

from __future__ import annotations

from dataclasses import replace

from bench_compare.comparison.circumstances.settings import differences
from tests.bench_compare.build import case, document, round_, side


def timed(how):
    one = replace(round_(0, {"device_ns": [10, 11]}), device_timing=how)
    return document([case("g", [one])])


def names(base, other):
    return {found.name for found in differences(side("a", base), side("b", other))}


def test_times_behind_a_gate_and_without_one_are_unlike():
    assert "device times" in names(timed("gated events"), timed("events"))


def test_times_taken_alike_or_in_an_unknown_way_are_not_held_against_each_other():
    assert "device times" not in names(timed("gated events"), timed("gated events"))
    assert "device times" not in names(timed("gated events"), timed(None))
