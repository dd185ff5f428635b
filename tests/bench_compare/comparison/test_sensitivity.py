import math
from dataclasses import replace

import numpy as np
import pytest

from bench_compare.comparison.compare import compare
from bench_compare.comparison.reasons import conclude
from bench_compare.model import Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, side
from tests.benchmarks.compare_documents import simulated


def sides(spread, factor=1.0, cases=12, rounds=5, seed=1, movers=None):
    """Base and other, whose rounds scatter by `spread` around the same times; the first `movers`
    cases (all) are moved by a factor."""
    random = np.random.default_rng(seed)
    movers = cases if movers is None else movers

    def one(scale):
        level = scale * 1e6 * np.exp(random.normal(0, spread, (rounds, 1)))
        noise = np.exp(random.normal(0, 0.003, (rounds, 20)))
        return np.rint(level * noise).astype(np.int64)

    made = [
        document(
            [case(f"g{n}", one(scale if n < movers else 1.0)) for n in range(cases)],
            run_id=str(scale) + label,
        )
        for label, scale in (("a", 1.0), ("b", factor))
    ]
    return side("base", made[0]), side("other", made[1])


def told(spread, **more):
    base, other = sides(spread, **more)
    found = compare(base, [other], Policy())
    return found, found.sensitivity[0]


def test_a_quiet_machine_sees_small_slow_downs():
    _, sensitivity = told(0.002)
    assert 1.01 < sensitivity.median_ratio < 1.035
    assert not sensitivity.blind


def test_silence_of_a_blind_comparison_is_no_answer():
    _, sensitivity = told(0.5)
    assert sensitivity.blind
    assert "a slow-down of 50 % could hide in 9 of 12 cases" == sensitivity.sentence


def test_what_was_found_is_an_answer_however_restless_the_machine():
    found, sensitivity = told(0.3, factor=20.0)
    assert found.counts[Verdict.SLOWER] > 0
    assert not sensitivity.blind


def test_a_case_without_an_interval_sees_nothing():
    found = compare(*rounds_of_one(), Policy())
    assert [None] * 3 == [one.gate_metric.seen_ratio for one in found.cases]


def rounds_of_one():
    """Sides with a single round of one sample."""
    made = [
        document([case(f"g{n}", [np.array([9000])]) for n in range(3)], run_id=label)
        for label in "ab"
    ]
    return side("base", made[0]), [side("other", made[1])]


def share_called(spread, cases, repeats):
    """How often a slow-down of the stated size of one case is called, in measurements of their
    own."""
    called = []
    for seed in range(0, 2 * repeats, 2):
        _, before = told(spread, cases=cases, seed=seed)
        more = {"factor": before.median_ratio, "movers": 1, "seed": seed + 1}
        found, _ = told(spread, cases=cases, **more)
        called.append(found.cases[0].verdict is Verdict.SLOWER)
    return np.mean(called)


@pytest.mark.long
def test_the_stated_slow_down_is_called():
    assert share_called(0.01, cases=6, repeats=40) >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.002, 0.01, 0.08])
@pytest.mark.parametrize("cases", [2, 12, 40])
def test_the_stated_slow_down_is_called_nine_times_in_ten(spread, cases):
    assert share_called(spread, cases, repeats=200) >= 0.85  # 0.9 less 2.4 standard errors


@pytest.mark.parametrize("spread", [0.002, 0.01, 0.03])
def test_a_slow_down_of_twice_the_stated_size_is_called(spread):
    _, before = told(spread, seed=3)
    factor = before.median_ratio**2
    found, _ = told(spread, factor=factor, seed=3)
    called = [one.verdict for one in found.cases].count(Verdict.SLOWER)
    assert called >= len(found.cases) / 2


@pytest.mark.slow
@pytest.mark.parametrize("effects", [(0, 0.01), (0.01, 0.01)])
@pytest.mark.parametrize("count", [2, 3])
def test_what_documents_could_have_shown_is_called_in_others_like_them(count, effects):
    """What all cases of a document share is known least, so least is promised of it: 57 % of the
    stated sizes were called with two documents a side and both effects."""
    random = np.random.default_rng(5)
    called = []
    for _ in range(150):
        still = np.zeros(40)
        before = compare(*drawn(random, count, effects, still), Policy()).cases[0].gate_metric
        moves = np.concatenate([[math.log(before.seen_ratio)], still[1:]])
        found = compare(*drawn(random, count, effects, moves), Policy()).cases[0]
        called.append(found.verdict is Verdict.SLOWER)
    assert np.mean(called) >= 0.8


def drawn(random, count, effects, moves):
    base, other = (simulated(random, count, effects, m) for m in (np.zeros(len(moves)), moves))
    return side("a", *base), [side("b", *other)]


def mixed(noisy, cases, factor=1.0):
    """A comparison of which `noisy` cases scatter by half around one time, the others hardly."""
    wild = sides(0.5, cases=noisy, seed=3)[0]  # the same samples on both sides
    calm = sides(0.001, factor, cases=cases - noisy, seed=4)
    both = []
    for part, label in zip(calm, ("base", "other"), strict=True):
        held = [
            replace(one, id=f"{name}{one.id}", graph=replace(one.graph, name=f"{name}{one.id}"))
            for name, each in (("wild", wild), ("calm", part))
            for one in each.sources[0].document.cases
        ]
        both.append(side(label, document(held, run_id=label)))
    found = compare(both[0], [both[1]], Policy(floor_sd=0.001))
    return found, conclude(found).word


def test_one_noisy_case_in_ten_leaves_the_answer():
    assert ("PASS", "UNDECIDED") == (mixed(1, 10)[1], mixed(2, 10)[1])


def test_decided_cases_do_not_make_a_blind_comparison_an_answer():
    found, word = mixed(4, 10, factor=0.5)
    assert (True, "UNDECIDED") == (found.sensitivity[0].blind, word)
