"""Knobs: their names, what an engine takes, and refusals that name it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench_run.engines.cudnn.plans import checked, knob_name, knob_text, knobs_of, knobs_taken
from bench_run.errors import UnsupportedGraphError, UsageError


def knob(name, low, high, stride=1):
    """With the members of the frontend's own."""
    kind = SimpleNamespace(name=name)
    return SimpleNamespace(type=kind, min_value=low, max_value=high, stride=stride)


OFFERED = [knob("TILE_SIZE", 0, 8), knob("STAGES", 1, 7, 2), knob("NOT_SET", 0, 3)]


def test_an_unknown_knob_names_the_known_ones():
    with pytest.raises(UsageError, match=r"--knob k999: .* k2 \(TILE_SIZE\)"):
        knob_name("k999")


@pytest.mark.parametrize(
    ("key", "name"), [("k2", "TILE_SIZE"), ("stages", "STAGES"), ("k5", "k5"), ("k", None)]
)
def test_a_knob_goes_by_its_number_or_its_name(key, name):
    if name is None:
        with pytest.raises(UsageError, match="no such knob"):
            knob_name(key)
    else:
        assert name == knob_name(key)


def test_the_knobs_of_a_plan_are_read_from_its_name():
    assert {"TILE_SIZE": 0, "k5": 3, "STAGES": 4} == knobs_of("eng45_k2=0_k5=3_k14=4")
    assert {} == knobs_of("eng6")


def test_knobs_are_told_by_their_names():
    assert "TILE_SIZE=0 TILEK=1 k3=5" == knob_text("eng62_k2=0_k13=1_k3=5")
    assert "none" == knob_text("eng6")


def test_what_the_engine_takes_is_taken():
    assert checked({"TILE_SIZE": 8, "STAGES": 3}, OFFERED, "conv: engine 62") is None


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"SWIZZLE": 1}, "it takes no SWIZZLE; it takes TILE_SIZE 0 to 8, STAGES 1 to 7 by 2"),
        ({"TILE_SIZE": 9}, "TILE_SIZE=9: it takes TILE_SIZE 0 to 8"),
        ({"STAGES": 2}, "STAGES=2: it takes STAGES 1 to 7 by 2"),
        ({"k5": 1}, "k5 cannot be set, only found"),
    ],
)
def test_what_it_does_not_take_is_one_line_with_what_it_does(wanted, words):
    with pytest.raises(UnsupportedGraphError) as caught:
        checked(wanted, OFFERED, "conv: engine 62")
    assert str(caught.value).startswith(f"cudnn: conv: engine 62: {words}")
    assert "\n" not in str(caught.value)


def test_an_engine_without_knobs_says_so():
    with pytest.raises(UnsupportedGraphError, match="it takes no STAGES; it takes no knob"):
        checked({"STAGES": 1}, [], "conv: engine 0")


def test_a_listing_tells_what_the_engine_takes():
    graph = SimpleNamespace(get_knobs_for_engine=lambda engine: OFFERED)
    taken = "TILE_SIZE 0 to 8, STAGES 1 to 7 by 2"
    assert {"engine": "62", "takes": taken} == knobs_taken(graph, 62)


def test_a_listing_of_an_engine_that_does_not_fit_says_why():
    def refuse(engine):
        raise RuntimeError("Reason: !is_NHWC")

    row = knobs_taken(SimpleNamespace(get_knobs_for_engine=refuse), 62)
    assert {"engine": "62", "does not fit:": "!is_NHWC"} == row
