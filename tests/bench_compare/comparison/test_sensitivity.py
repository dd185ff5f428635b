import math

import numpy as np
import pytest
from msgspec.structs import replace

from bench_compare.comparison.compare import compare
from bench_compare.comparison.sensitivity import seen_from
from bench_compare.model import Verdict
from bench_compare.policy.values import Policy
from tests.bench_compare.build import case, document, side


def sides(spread, factor=1.0, cases=12, rounds=5, seed=1):
    """Base and other, whose rounds scatter by `spread` around the same times, moved by a factor."""
    random = np.random.default_rng(seed)

    def one(scale):
        level = scale * 1e6 * np.exp(random.normal(0, spread, (rounds, 1)))
        noise = np.exp(random.normal(0, 0.003, (rounds, 20)))
        return np.rint(level * noise).astype(np.int64)

    made = [
        document([case(f"g{n}", one(scale)) for n in range(cases)], run_id=str(scale) + label)
        for label, scale in (("a", 1.0), ("b", factor))
    ]
    return side("base", made[0]), side("other", made[1])


def told(spread, **more):
    base, other = sides(spread, **more)
    found = compare(base, [other], Policy())
    return found, found.sensitivity[0]


def test_a_quiet_machine_sees_small_slow_downs():
    _, sensitivity = told(0.002)
    assert 1.01 < sensitivity.median_ratio < 1.03
    assert not sensitivity.blind


def test_silence_of_a_blind_comparison_is_no_answer():
    _, sensitivity = told(0.5)
    assert sensitivity.blind
    assert sensitivity.sentence.startswith(
        "No answer on this machine: half of the cases exclude slow-downs above × "
    )


def test_what_was_found_is_an_answer_however_restless_the_machine():
    found, sensitivity = told(0.3, factor=20.0)
    assert found.counts[Verdict.SLOWER] > 0
    assert not sensitivity.blind


def test_a_slow_down_is_seen_from_where_the_interval_leaves_the_threshold():
    found, _ = told(0.002)
    metric = replace(found.cases[0].gate_metric, ratio=1.0, ci_low=0.5, threshold_ratio=0.1)
    assert math.isclose(2.2, seen_from(metric))


@pytest.mark.parametrize("low", [None, 0.0])
def test_a_case_without_an_interval_sees_nothing(low):
    found, _ = told(0.002)
    assert math.inf == seen_from(replace(found.cases[0].gate_metric, ci_low=low))


@pytest.mark.parametrize("spread", [0.002, 0.01, 0.03])
def test_a_slow_down_of_twice_the_stated_size_is_called(spread):
    _, before = told(spread, seed=3)
    factor = before.median_ratio**2
    found, _ = told(spread, factor=factor, seed=3)
    called = [one.verdict for one in found.cases].count(Verdict.SLOWER)
    assert called >= len(found.cases) / 2
