"""Engines that took turns in blocks are compared block by block; buffers that moved count alike."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from bench_schema.estimate import change, round_logs

from bench_compare.comparison.compare import compare
from bench_compare.input.sides import Grouping, group
from bench_compare.model import Source, View
from bench_compare.policy import Policy
from tests.bench_compare import build
from tests.bench_compare.report.shown import render

SAMPLES, BLOCKS = 4, 40


def sides(factor, rounds=5, seed=1, drift=0.2, scatter=0.01, own=0.0):
    """Two engines of one graph. All blocks of a turn share what the machine does; each process
    differs by `own`."""
    random = np.random.default_rng(seed)
    base, other = [], []
    for index in range(rounds):
        turns = 1e6 * np.exp(random.normal(0, drift, BLOCKS).cumsum() / 4)
        for place, (made, scale) in enumerate(((base, 1.0), (other, factor))):
            level = turns[:, None] * scale * math.exp(random.normal(0, own))
            samples = level * np.exp(random.normal(0, scatter, (BLOCKS, SAMPLES)))
            one = build.round_(index, {"e2e_ns": np.rint(samples).astype(int).ravel()})
            begins = np.arange(BLOCKS) * SAMPLES
            made.append(replace(one, blocks={"e2e_ns": begins}, block_places=(place,) * BLOCKS))
    return base, other


def document(base, other):
    cases = [build.case("g", base, engine="numpy"), build.case("g", other, engine="torch:cpu")]
    return build.document(cases, "run", "run")


def compared(base, other):
    source = Source("run.json", document(base, other), "bench")
    return compare(*group([source], Grouping(by="engine")), Policy(threshold_ratio=0.01))


def ratio_and_verdict(base, other):
    (found,) = compared(base, other).cases
    metric = found.metrics["e2e_ns"]
    return metric.ratio, metric.verdict


@pytest.mark.parametrize("seed", range(5))
def test_a_step_of_two_percent_is_seen_under_a_drift_of_fifty(seed):
    ratio, verdict = ratio_and_verdict(*sides(1.02, seed=seed))
    assert (verdict, ratio) == ("slower", pytest.approx(1.02, abs=0.004))


@pytest.mark.parametrize("seed", range(5))
def test_no_step_is_the_same_under_a_drift_of_fifty(seed):
    assert ratio_and_verdict(*sides(1.0, seed=seed))[1] == "same"


@pytest.mark.long
def test_what_differs_by_process_is_no_change():
    """Pairs of processes, and not blocks, are what a verdict rests on."""
    verdicts = [ratio_and_verdict(*sides(1.0, seed=seed, own=0.03))[1] for seed in range(40)]
    assert sum(one in ("faster", "slower") for one in verdicts) <= 2


def test_swapping_the_sides_inverts_the_ratio():
    base, other = sides(1.07)
    one, two = ratio_and_verdict(base, other)[0], ratio_and_verdict(other, base)[0]
    assert one * two == pytest.approx(1, abs=1e-12)


def test_both_commands_tell_the_same_ratio():
    base, other = sides(1.07, own=0.01)
    cases = document(base, other).cases
    found = change(cases[0], cases[1], "e2e_ns")
    assert ratio_and_verdict(base, other)[0] == pytest.approx(math.exp(found.log), rel=1e-12)


def test_a_side_that_ended_early_is_compared_by_the_blocks_that_both_have():
    base, other = sides(1.07)
    short = [
        replace(
            one,
            series={"e2e_ns": one.series["e2e_ns"][: 10 * SAMPLES]},
            blocks={"e2e_ns": one.blocks["e2e_ns"][:10]},
        )
        for one in other
    ]
    assert ratio_and_verdict(base, short)[0] == pytest.approx(1.07, abs=0.01)


def test_a_side_that_was_measured_again_is_no_pair():
    """Blocks of one number are of one turn only if their places in it differ."""
    base, other = sides(1.07)
    alone = [replace(one, block_places=(0,) * BLOCKS) for one in other]
    visits = [
        np.mean(list(round_logs(case, "e2e_ns").values())) for case in document(base, alone).cases
    ]
    assert ratio_and_verdict(base, alone)[0] == pytest.approx(math.exp(visits[1] - visits[0]))


def test_the_times_next_to_a_change_are_those_that_it_is_made_of():
    base, other = sides(1.07)
    (found,) = compared(base, other).cases
    told = found.metrics["e2e_ns"]
    assert told.other / told.base == pytest.approx(told.ratio, rel=1e-12)
    cases = document(base, other).cases
    own = [np.mean(list(round_logs(case, "e2e_ns").values())) for case in cases]
    assert told.base * told.other == pytest.approx(math.exp(sum(own)), rel=1e-9)


def test_a_side_without_some_rounds_leaves_these_out_of_the_times_of_both():
    base, other = sides(1.07)
    (found,) = compared(base, other[:3]).cases
    told = found.metrics["e2e_ns"]
    assert told.other / told.base == pytest.approx(told.ratio, rel=1e-12)


def test_the_header_says_that_engines_took_turns():
    text = render("text", compared(*sides(1.02)), View(width=120))
    assert "5 rounds, engines in turns, block by block, 10 warm-up each" in text


def test_the_level_of_a_round_is_the_mean_over_the_places_of_its_buffers():
    samples = np.array([100] * 5 + [200] * 3 + [400] * 12)
    one = build.round_(0, {"e2e_ns": samples})
    moved = replace(one, placements={"e2e_ns": np.array([5, 8])})
    cases = build.case("g", [one]), build.case("g", [moved])
    stayed, found = (round_logs(case, "e2e_ns")[0] for case in cases)
    assert math.exp(stayed) == pytest.approx(400)
    assert math.exp(found) == pytest.approx(700 / 3)


def test_compare_tells_the_level_of_moved_buffers_alike():
    samples = np.array([100] * 5 + [200] * 3 + [400] * 12)
    rounds = [
        replace(build.round_(n, {"e2e_ns": samples}), placements={"e2e_ns": np.array([5, 8])})
        for n in range(5)
    ]
    (found,) = compared(rounds, rounds).cases
    assert found.metrics["e2e_ns"].base == pytest.approx(700 / 3)
