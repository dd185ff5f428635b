"""Worlds whose truth is known: seams, conversions, branches, rounds that choose."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench_compare.errors import InputError, UsageError
from tests.bench_compare.compose import worlds
from tests.bench_compare.compose.worlds import CHAIN, LAYOUTS, STATES, TWO, World, composed
from tests.support import examples


def test_layers_and_planted_seams_add_up_to_the_whole(tmp_path):
    found = composed(CHAIN, tmp_path)
    assert found.chosen.time.value == pytest.approx(1000 + 2000 + 500 + 70 - 130)


def test_each_planted_seam_is_found_as_it_was_planted(tmp_path):
    found = composed(CHAIN, tmp_path)
    seams = {part.name: part.time_ns for part in found.chosen.parts if part.kind == "seam"}
    assert seams == {"a → b": pytest.approx(70), "b → c": pytest.approx(-130)}


def test_the_parts_add_up_to_the_time(tmp_path):
    found = composed(CHAIN, tmp_path).chosen
    assert found.time.value == pytest.approx(math.fsum(part.time_ns for part in found.parts))


def test_a_layer_that_repeats_counts_each_time_with_its_seam(tmp_path):
    world = replace(CHAIN, repeats={"b": 3})
    assert composed(world, tmp_path).chosen.time.value == pytest.approx(
        1000 + 6000 + 500 + 210 - 130
    )


def test_a_layer_of_two_writers_has_one_seam_that_of_the_layer_right_before_it(tmp_path):
    world = World(
        {name: {"e": 1000} for name in "abc"},
        writers={"c": ("a", "b")},
        seams={("a", "b", "e"): 10, ("a", "c", "e"): 500, ("b", "c", "e"): 20},
    )
    assert composed(world, tmp_path).chosen.time.value == pytest.approx(3030)


COLDER = replace(CHAIN, alone={"a": {"e": 1500}, "b": {"e": 2600}, "c": {"e": 900}})


def in_pass(world, size=4096):
    document = worlds.parts(world)
    settings = replace(document.run.settings, cache="pass", pass_bytes=size)
    return replace(document, run=replace(document.run, settings=settings))


def test_a_chain_is_predicted_by_rows_that_were_measured_as_in_a_pass(tmp_path):
    both = (worlds.parts(CHAIN), in_pass(COLDER))
    found = composed(CHAIN, tmp_path, *both, against=(worlds.chain(COLDER, "e"),))
    (check,) = found.checks
    assert (found.surroundings.cache, check.log_error) == ("pass", pytest.approx(0, abs=1e-3))


def test_hot_conversions_stand_for_those_of_a_pass(tmp_path):
    """No pipeline has them as layers, so that none can be measured as in its pass."""
    hot, colder = worlds.parts(LAYOUTS), in_pass(replace(LAYOUTS, convert={}))
    found = composed(
        LAYOUTS,
        tmp_path,
        hot,
        colder,
        choose="time",
        cache="pass",
        fixes=(("a", "e layout=nhwc"), ("b", "e")),
    )
    first = next(part for part in found.chosen.parts if part.kind == "conversion")
    assert (pytest.approx(100), "measured with hot caches") == (first.time_ns, first.note)


def test_where_not_all_layers_were_measured_as_in_a_pass_hot_rows_predict_the_chain(tmp_path):
    few = in_pass(COLDER)
    few = replace(few, cases=tuple(c for c in few.cases if c.graph.name != "b"))
    found = composed(CHAIN, tmp_path, worlds.parts(CHAIN), few, against=(worlds.chain(CHAIN, "e"),))
    (check,) = found.checks
    assert (found.surroundings.cache, check.log_error) == ("hot", pytest.approx(0, abs=1e-3))


def test_the_chain_of_a_pass_is_a_hot_one(tmp_path):
    whole, rows = worlds.chain(COLDER, "e"), in_pass(COLDER)
    whole = replace(whole, run=replace(whole.run, settings=rows.run.settings))
    found = composed(CHAIN, tmp_path, rows, against=(whole,))
    assert [("hot", True)] == [(one.cache, one.holds) for one in found.checks]


def test_rows_as_in_passes_of_two_sizes_make_no_table(tmp_path):
    with pytest.raises(InputError, match=r"pass_bytes: 8192, but doc0\.json has 4096"):
        composed(CHAIN, tmp_path, in_pass(CHAIN), in_pass(CHAIN, 8192))


def test_between_hot_rows_and_those_of_a_pass_is_a_bracket(tmp_path):
    found = composed(CHAIN, tmp_path, worlds.parts(CHAIN), in_pass(COLDER))
    time = found.chosen.time
    assert (found.interval, time.low, time.value) == (
        "bracket",
        pytest.approx(worlds.truth(CHAIN, "e")),
        pytest.approx(worlds.truth(COLDER, "e")),
    )


def test_choices_are_made_where_most_rows_are(tmp_path):
    tuned = replace(CHAIN, alone={**CHAIN.alone, "b": {"e": 2000, "e plan=x": 1500}})
    found = composed(tuned, tmp_path, worlds.parts(tuned), in_pass(COLDER), choose="time")
    assert (found.surroundings.cache, found.chosen.choices["b"]) == ("hot", "e plan=x")


def test_equal_pairs_were_measured_once_and_count_at_each_place(tmp_path):
    world = World(
        {"a": {"e": 100}, "b": {"e": 200}, "c": {"e": 100}, "d": {"e": 200}},
        same={"c": "a", "d": "b"},
        seams={("a", "b", "e"): 7, ("b", "c", "e"): 11, ("c", "d", "e"): 7},
    )
    assert composed(world, tmp_path).chosen.time.value == pytest.approx(600 + 25)


def test_what_all_layers_of_a_round_share_is_in_the_interval_of_the_sum(tmp_path):
    world = replace(CHAIN, states=STATES)
    found = composed(world, tmp_path).chosen.time
    half = 2.5706 * np.log(STATES).std(ddof=1) / math.sqrt(6)
    assert found.high / found.value == pytest.approx(math.exp(half), rel=1e-3)


def test_rounds_of_different_documents_are_not_one_state(tmp_path):
    """Independent documents: variances add, and the sum is surer than were all in one state."""
    world = replace(CHAIN, states=STATES)
    whole = worlds.parts(world)
    alone = replace(whole, cases=tuple(c for c in whole.cases if not c.graph.layers))
    halves = [
        replace(alone, cases=tuple(c for c in alone.cases if (c.graph.name == "b") is pick))
        for pick in (True, False)
    ]
    together, apart = composed(world, tmp_path, alone), composed(world, tmp_path, *halves)
    assert apart.chosen.time.value == pytest.approx(together.chosen.time.value, rel=1e-3)
    assert apart.chosen.time.high < together.chosen.time.high


def test_the_best_engine_of_each_layer_is_chosen(tmp_path):
    found = composed(TWO, tmp_path, choose="time")
    assert (found.chosen.choices, found.optimal) == ({"a": "f", "b": "e", "c": "f"}, True)
    assert found.ratios.time.value == pytest.approx(3010 / 2710)


def test_between_engines_the_larger_of_their_seams_counts_and_never_a_gain(tmp_path):
    world = replace(TWO, seams={("a", "b", "f"): 60, ("b", "c", "e"): -40, ("b", "c", "f"): -20})
    found = composed(world, tmp_path, choose="time").chosen
    seams = {part.name: part.time_ns for part in found.parts if part.kind == "seam"}
    assert set(found.choices.values()) == {"e", "f"}
    assert seams == {"a → b": pytest.approx(60), "b → c": 0.0}


def test_a_layer_that_runs_after_another_without_reading_it_has_a_seam_with_it(tmp_path):
    world = World(
        {name: {"e": 1000} for name in "abc"},
        writers={"b": ("a",), "c": ("a",)},
        seams={("a", "b", "e"): 10, ("a", "c", "e"): 500, ("b", "c", "e"): 20},
    )
    assert composed(world, tmp_path).chosen.time.value == pytest.approx(3030)


def test_where_only_linked_pairs_were_measured_the_last_layer_that_is_read_stands_for_it(tmp_path):
    world = World(
        {name: {"e": 1000} for name in "abc"},
        writers={"b": ("a",), "c": ("a",)},
        seams={("a", "b", "e"): 10, ("a", "c", "e"): 500, ("b", "c", "e"): 20},
    )
    document = worlds.parts(world)
    linked = tuple(c for c in document.cases if c.graph.name != "net:b+c")
    found = composed(world, tmp_path, replace(document, cases=linked))
    assert found.chosen.time.value == pytest.approx(3510)


def test_a_seam_can_outweigh_the_layer_that_is_fastest_alone(tmp_path):
    world = replace(TWO, seams={("a", "b", "e"): 400, ("b", "c", "f"): 5})
    assert composed(world, tmp_path, choose="time").chosen.choices["b"] == "f"


def test_no_layer_is_chosen_for_a_seam_below_zero_however_often_it_repeats(tmp_path):
    world = World(
        {"a": {"e": 1000, "f": 1000}, "b": {"e": 100, "f": 300}},
        seams={("a", "b", "f"): -290},
        repeats={"b": 3},
    )
    found = composed(world, tmp_path, choose="time")
    assert ("e", True) == (found.chosen.choices["b"], found.optimal)


def test_a_seam_below_zero_saves_no_energy_in_the_choice(tmp_path):
    world = World(
        {"a": {"e": 1000, "f": 1000}, "b": {"e": 1000, "f": 1000}},
        seams={("a", "b", "f"): -900},
        joules={("a", "e"): 1e-5, ("a", "f"): 1e-5, ("b", "e"): 1e-5, ("b", "f"): 3e-5},
    )
    assert "e" == composed(world, tmp_path, choose="energy").chosen.choices["b"]


def test_the_baseline_is_named_and_can_be_chosen(tmp_path):
    assert composed(TWO, tmp_path).baseline_name == "e"
    found = composed(TWO, tmp_path, baseline="f")
    assert (found.baseline_name, found.baseline.time.value) == ("f", pytest.approx(2790))


def test_a_baseline_that_nobody_has_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match="--baseline g: no row has this name; engines are e, f"):
        composed(TWO, tmp_path, baseline="g")


def test_fix_holds_a_layer_and_leaves_the_others_to_the_choice(tmp_path):
    found = composed(TWO, tmp_path, choose="time", fixes=(("a", "e"),))
    assert found.chosen.choices == {"a": "e", "b": "e", "c": "f"}


def test_fix_of_a_layer_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="--fix z=e: no layer 'z'; there are a, b, c"):
        composed(TWO, tmp_path, fixes=(("z", "e"),))


def test_fix_names_a_plan_in_the_words_of_an_engine(tmp_path):
    world = World({"a": {"e": 100, "e plan=eng6_k2=1": 90}, "b": {"e": 100}})
    found = composed(world, tmp_path, fixes=(("a", "e:plan=eng6_k2=1"),))
    assert found.chosen.choices == {"a": "e plan=eng6_k2=1", "b": "e"}


def test_a_layout_is_not_worth_conversions_that_cost_more(tmp_path):
    world = replace(LAYOUTS, convert={"e": (300, 300)})
    assert composed(world, tmp_path, choose="time").chosen.time.value == pytest.approx(3000)


def test_conversions_are_parts_of_the_pass_with_their_measured_time(tmp_path):
    found = composed(LAYOUTS, tmp_path, choose="time").chosen
    costs = [part.time_ns for part in found.parts if part.kind == "conversion"]
    assert found.time.value == pytest.approx(700 + 1150 + 700 + 220)
    assert sorted(costs) == [pytest.approx(100), pytest.approx(120)]


def test_a_conversion_that_was_not_measured_is_never_free(tmp_path):
    world = replace(LAYOUTS, convert={})
    found = composed(world, tmp_path, choose="time")
    assert found.chosen.choices == dict.fromkeys("abc", "e")
    (line,) = [one.command for one in found.missing if one.kind == "conversion"]
    assert "--op 'convert: n=2 c=8 h=4 w=4 dtype=float to=float layout=nchw to_layout=nhwc'" in line


def test_readers_of_one_form_share_a_conversion(tmp_path):
    """Both readers of a want its output in nhwc: it is converted once."""
    nhwc = {"e": 1000, "e layout=nhwc": 500}
    world = World(
        {"a": {"e": 1000}, "b": nhwc, "c": nhwc, "d": {"e": 100, "e layout=nhwc": 100}},
        writers={"b": ("a",), "c": ("a",), "d": ("b", "c")},
        convert={"e": (300, 50)},
    )
    found = composed(world, tmp_path, choose="time").chosen
    assert found.time.value == pytest.approx(1000 + 300 + 500 + 500 + 100 + 50)


def test_weights_are_converted_once_and_not_in_the_pass(tmp_path):
    world = World({"a": {"e": 1000, "e layout=nhwc": 100}}, convert={"e": (10, 10)})
    found = composed(world, tmp_path, choose="time").chosen
    assert [part.layer for part in found.once] == ["a"]
    assert found.time.value == pytest.approx(100 + 20)


def test_an_output_comes_in_the_form_that_the_pipeline_has(tmp_path):
    world = World({"a": {"e": 1000, "e layout=nhwc": 500}}, convert={"e": (10, 600)})
    assert composed(world, tmp_path, choose="time").chosen.choices == {"a": "e"}


@st.composite
def random_worlds(draw):
    """Up to five layers with residual links, two engines, one of them with a layout."""
    names = "abcde"[: draw(st.integers(2, 5))]
    writers = {}
    for place, name in enumerate(names[1:], 1):
        near = names[place - 1]
        far = draw(st.sampled_from(names[:place]))
        writers[name] = (near,) if far == near else (near, far)
    number = st.integers(100, 999)
    alone = {
        n: {"e": draw(number), "f": draw(number), "e layout=nhwc": draw(number)} for n in names
    }
    pairs = [(w, r) for r, ws in writers.items() for w in ws]
    seams = {(w, r, engine): draw(st.integers(-90, 90)) for w, r in pairs for engine in "ef"}
    convert = {"e": (draw(st.integers(2, 300)), draw(st.integers(2, 300)))}  # 1 ns is no time
    return World(alone, writers=writers, seams=seams, convert=convert)


def by_hand(world, choice, least_seam=0):
    """The pass of a choice, from the planted numbers alone; as it is predicted with seams of any
    sign, as it is chosen with none below zero."""
    total = 0.0
    there, back = world.convert["e"]
    form = {name: "layout" in choice[name] for name in world.order}
    wanted = {(None, form[world.order[0]])}
    for name in world.order:
        total += world.alone[name][choice[name]]
        wanted |= {(writer, form[name]) for writer in world.reads(name)}
        if world.reads(name):
            near = world.reads(name)[0]
            engines = {choice[near].split()[0], choice[name].split()[0]}
            seams = [world.seams[near, name, engine] for engine in engines]
            total += max(*seams, least_seam if len(seams) == 1 else 0)
    wanted.add((world.order[-1], False))
    for writer, is_last in wanted:
        if is_last != (writer is not None and form[writer]):
            total += there if is_last else back
    return total


@given(world=random_worlds())
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_choice_of_a_planted_world_is_faster_than_the_one_that_is_found(world, tmp_path):
    found = composed(world, tmp_path, choose="time")
    options = [list(world.alone[name]) for name in world.order]
    best = min(
        by_hand(world, dict(zip(world.order, one, strict=True)))
        for one in itertools.product(*options)
    )
    assert found.optimal
    predicted = by_hand(world, found.chosen.choices, least_seam=-math.inf)
    assert found.chosen.time.value == pytest.approx(predicted)
    assert by_hand(world, found.chosen.choices) == pytest.approx(best)
