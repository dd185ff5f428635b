"""What is said of a planted world: what chose, what is missing, what holds, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from bench_schema.document import Outcome
from bench_schema.summary import summarize

from bench_compare.errors import InputError
from tests.bench_compare.compose import worlds
from tests.bench_compare.compose.worlds import CHAIN, STATES, TWO, World, composed


def noisy(world, generator):
    """The same world with noise of each row and round."""
    document = worlds.parts(world)
    cases = []
    for case in document.cases:
        factors = np.exp(generator.normal(0, 0.05, len(case.rounds)))
        made = [
            replace(
                one, series={n: np.round(v * f).astype(np.int64) for n, v in one.series.items()}
            )
            for one, f in zip(case.rounds, factors, strict=True)
        ]
        cases.append(replace(case, rounds=tuple(made)))
    return replace(document, cases=tuple(cases))


@pytest.mark.long
def test_rounds_that_chose_do_not_predict(tmp_path):
    """Twelve equal plans and noise: the fastest of them is luck, and the prediction knows it."""
    plans = {"e": 10_000, **{f"e plan={n}": 10_000 for n in range(12)}}
    world = World({"a": plans})
    generator = np.random.default_rng(7)
    found = [composed(world, tmp_path, noisy(world, generator), choose="time") for _ in range(40)]
    mean = np.mean([one.chosen.time.value for one in found])
    assert mean == pytest.approx(10_000, rel=0.015)


def test_the_baseline_takes_as_long_whatever_is_chosen(tmp_path):
    world = World({"a": {"e": 10_000, "e plan=1": 9_000}, "b": {"e": 5_000}})
    made = noisy(world, np.random.default_rng(7))
    asked = composed(world, tmp_path, made)
    chosen = composed(world, tmp_path, made, choose="time")
    assert chosen.chosen.choices != asked.chosen.choices
    assert asked.baseline.time == chosen.baseline.time
    gain = chosen.baseline.time.value / chosen.chosen.time.value
    assert gain == pytest.approx(chosen.ratios.time.value, rel=1e-6)


def test_a_single_round_chooses_and_predicts_and_says_so(tmp_path):
    found = composed(replace(TWO, states=(1.0,)), tmp_path, choose="time")
    assert found.interval == "none"
    assert "there is a single round: the rows that chose predict as well" in found.remarks


def test_wrong_rows_are_not_chosen_and_the_reason_is_told(tmp_path):
    document = worlds.parts(TWO)
    bad = [
        replace(c, validation=replace(c.validation, status="failed"))
        if (c.graph.name, c.engine) == ("a", "f")
        else c
        for c in document.cases
    ]
    found = composed(TWO, tmp_path, replace(document, cases=tuple(bad)), choose="time")
    assert found.chosen.choices["a"] == "e"
    (reason,) = [o.excluded for o in found.layers[0].options if o.configuration == "f"]
    assert reason == "its outputs are wrong"


def test_a_limit_of_the_error_chooses_the_fastest_within_it(tmp_path):
    world = World(
        {"a": {"e": 1000, "f": 500}, "b": {"e": 1000, "f": 900}},
        errors={(n, c): 1e-4 if c == "e" else 1e-3 for n in "ab" for c in "ef"},
    )
    found = composed(world, tmp_path, choose="time", limits={"error": 1.1e-3})
    assert found.chosen.choices == {"a": "f", "b": "e"}
    assert found.chosen.error.root_of_squares == pytest.approx(math.hypot(1e-3, 1e-4))
    assert found.chosen.error.worst == pytest.approx(1.1e-3)


def test_a_limit_that_nothing_keeps_is_no_answer(tmp_path):
    found = composed(TWO, tmp_path, choose="time", limits={"error": 1e-9})
    assert found.problems == ("no choice of these rows that keeps error ≤ 1e-09 is there",)


FRUGAL = World(
    {"a": {"e": 1000, "e plan=slow": 3000, "e plan=even": 1500}, "b": {"e": 1000}},
    joules={
        ("a", "e"): 9e-3,
        ("a", "e plan=slow"): 2e-3,
        ("a", "e plan=even"): 3e-3,
        ("b", "e"): 1e-3,
    },
    seams={("a", "b", "e"): 200},
)


@pytest.mark.parametrize(("goal", "plan"), [("time", "e"), ("energy", "e plan=slow")])
def test_time_energy_and_their_product_choose_differently(goal, plan, tmp_path):
    assert composed(FRUGAL, tmp_path, choose=goal).chosen.choices["a"] == plan


def test_energy_is_joules_and_idle_power_over_the_gaps(tmp_path):
    """Idle at 50 W in a seam of 200 ns: 10 µJ."""
    found = composed(FRUGAL, tmp_path).chosen
    assert found.energy.value == pytest.approx(9e-3 + 1e-3 + 50 * 200e-9)


def test_an_energy_that_was_not_resolved_is_said(tmp_path):
    note = "--energy: not resolved by the counter: an iteration of 3 s"
    document = worlds.parts(FRUGAL)
    cases = tuple(
        replace(c, rounds=tuple(replace(r, notes=(note,)) for r in c.rounds))
        for c in document.cases
        if not c.graph.layers
    )
    found = composed(FRUGAL, tmp_path, replace(document, cases=cases))
    assert "the energy of 2 rows is not resolved by the device's counter" in found.remarks


def test_without_energy_there_is_none_and_no_answer_by_energy(tmp_path):
    assert composed(CHAIN, tmp_path).chosen.energy is None
    found = composed(CHAIN, tmp_path, choose="energy")
    assert (found.chosen, found.missing[0].kind) == (None, "energy")


def test_a_missing_layer_is_answered_with_the_line_that_measures_it(tmp_path):
    document = worlds.parts(CHAIN, command=("bench-run", "x", "--threads", "2", "-o", "y.json"))
    without = replace(document, cases=tuple(c for c in document.cases if c.graph.name != "b"))
    found = composed(CHAIN, tmp_path, without)
    (missing,) = found.missing
    assert (missing.kind, missing.blocks, found.chosen) == ("layer", True, None)
    line = f"bench-run {tmp_path / 'b.json'} -e e --threads 2 -o missing-1.json"
    assert missing.command == line


def test_missing_seams_are_told_and_count_nothing(tmp_path):
    document = worlds.parts(CHAIN)
    alone = replace(document, cases=tuple(c for c in document.cases if not c.graph.layers))
    found = composed(CHAIN, tmp_path, alone)
    assert found.chosen.time.value == pytest.approx(3500)
    assert "2 seams were not measured and count nothing" in found.remarks
    assert "--seams -e e" in next(m for m in found.missing if m.kind == "seam").command


def test_a_layer_that_failed_everywhere_says_why(tmp_path):
    document = worlds.parts(CHAIN)
    failed = Outcome("unsupported", "no such thing")
    cases = tuple(replace(c, outcome=failed) if c.graph.name == "b" else c for c in document.cases)
    found = composed(CHAIN, tmp_path, replace(document, cases=cases), choose="time")
    assert found.chosen is None


BOTH = {"hot": 1.0, "rotate": 1.2}


def test_hot_and_rotated_rows_give_the_bracket_and_its_name(tmp_path):
    documents = []
    for cache, factor in BOTH.items():
        world = replace(CHAIN, states=(factor,) * 6)
        documents.append(worlds.parts(world, settings={"cache": cache}))
    found = composed(CHAIN, tmp_path, *documents)
    assert found.interval == "bracket"
    assert (found.chosen.time.low, found.chosen.time.high) == (
        pytest.approx(3440),
        pytest.approx(1.2 * 3440, rel=1e-3),
    )


def test_documents_of_two_devices_are_refused(tmp_path):
    document = worlds.parts(CHAIN)
    engines = tuple(replace(e, device_kind="NVIDIA H100") for e in document.engines)
    with pytest.raises(InputError) as caught:
        composed(CHAIN, tmp_path, document, replace(document, engines=engines))
    expected = "doc1.json: engines.e.device_kind: NVIDIA H100, but doc0.json has cpu"
    assert str(caught.value) == expected


@pytest.mark.parametrize("change", [{"math": "tf32"}, {"replay": True}, {"timer": "events"}])
def test_documents_of_other_settings_are_refused_with_the_field(change, tmp_path):
    (name,) = change
    with pytest.raises(InputError, match=rf"doc1\.json: run\.settings\.{name}: "):
        composed(CHAIN, tmp_path, worlds.parts(CHAIN), worlds.parts(CHAIN, settings=change))


def test_a_measured_chain_of_another_device_is_refused(tmp_path):
    chain = worlds.chain(CHAIN, "e")
    other = replace(chain, engines=tuple(replace(e, device="GPU-2") for e in chain.engines))
    with pytest.raises(InputError, match=r"chain0\.json: engines\.e\.device"):
        composed(CHAIN, tmp_path, against=(other,))


def test_a_measured_chain_that_agrees_holds(tmp_path):
    world = replace(CHAIN, states=STATES)
    found = composed(world, tmp_path, against=(worlds.chain(world, "e", factor=1.01),))
    (check,) = found.checks
    assert (check.holds, check.log_error) == (True, pytest.approx(math.log(1.01), abs=1e-3))


def test_a_measured_chain_outside_of_the_interval_does_not_hold(tmp_path):
    found = composed(CHAIN, tmp_path, against=(worlds.chain(CHAIN, "e", factor=1.1),))
    assert (found.holds, found.checks[0].holds) == (False, False)


@pytest.mark.parametrize(
    ("states", "factor", "holds"),
    [((1.0,), 1.1, None), ((1.0,), 1.0, True), ((0.01, 1.0, 30.0), 1.1, None)],
)
def test_a_measurement_that_has_no_interval_refutes_nothing(states, factor, holds, tmp_path):
    whole = worlds.chain(replace(CHAIN, states=states), "e", factor=factor)
    found = composed(CHAIN, tmp_path, worlds.parts(CHAIN), against=(whole,))
    assert [holds] == [one.holds for one in found.checks]


def test_pairs_that_take_less_than_nothing_are_no_answer(tmp_path):
    seams = {("a", "b", "e"): -190, ("b", "c", "e"): -190}
    found = composed(World({name: {"e": 100} for name in "abc"}, seams=seams), tmp_path)
    assert (found.chosen, "the sum is not a time" in found.problems[0]) == (None, True)


def on_a_device(document, host_ns):
    """With times of the device, and so much more of the host around them."""
    cases = []
    for case in document.cases:
        times = [one.series["e2e_ns"] for one in case.rounds]
        both = {"device_ns": times, "e2e_ns": [each + host_ns for each in times]}
        made = [
            replace(one, series={name: each[place] for name, each in both.items()})
            for place, one in enumerate(case.rounds)
        ]
        whole = {name: summarize(each, [0] * len(each)) for name, each in both.items()}
        cases.append(replace(case, rounds=tuple(made), summary=whole))
    return replace(document, cases=tuple(cases))


def test_rows_behind_a_gate_and_without_one_refute_no_chain(tmp_path):
    """Without a gate each row has microseconds more: the sum has not."""
    document = on_a_device(worlds.parts(CHAIN), 10)
    cases = [
        replace(
            case,
            rounds=tuple(
                replace(one, device_timing="events" if number % 2 else "gated events")
                for one in case.rounds
            ),
        )
        for number, case in enumerate(document.cases)
    ]
    chain = on_a_device(worlds.chain(CHAIN, "e", factor=1.2), 10)
    found = composed(CHAIN, tmp_path, replace(document, cases=tuple(cases)), against=(chain,))
    assert [None] == [one.holds for one in found.checks]
    assert any("behind a gate and some without" in one for one in found.remarks)


@pytest.mark.parametrize(
    ("host_ns", "replay", "told"), [(1500, False, 2), (1500, True, 0), (10, False, 0)]
)
def test_layers_that_take_longer_to_launch_than_to_run_are_told(host_ns, replay, told, tmp_path):
    document = on_a_device(worlds.parts(CHAIN), host_ns)
    run = replace(document.run, settings=replace(document.run.settings, replay=replay))
    found = composed(CHAIN, tmp_path, replace(document, run=run))
    remarks = [one for one in found.remarks if "of the host that launches" in one]
    assert ([f"{told} of 3 layers"] if told else []) == [
        one.partition(" take")[0] for one in remarks
    ]


def test_a_measurement_of_something_else_is_no_answer(tmp_path):
    other = World({"p": {"e": 10}, "q": {"e": 20}})
    found = composed(CHAIN, tmp_path, against=(worlds.chain(other, "e"),))
    assert found.problems == (
        "--against: no chain of this pipeline that can be predicted was found",
    )


@pytest.mark.parametrize("states", [(1.0,), (1.0, 2.0)])
def test_a_bracket_whose_ends_are_not_known_is_no_interval(states, tmp_path):
    """Else a measurement just outside of two single values would not hold."""
    world = replace(CHAIN, states=states)
    rotated = worlds.parts(world)
    run = replace(rotated.run, settings=replace(rotated.run.settings, cache="rotate"))
    table = (worlds.parts(world), replace(rotated, run=run))
    found = composed(world, tmp_path, *table, against=(worlds.chain(world, "e", 1.1),))
    assert ("none", None, [None]) == (
        found.interval,
        found.chosen.time.low,
        [check.holds for check in found.checks],
    )
