"""What a coarse clock tells apart, and what not."""

from __future__ import annotations

import numpy as np
import pytest

from bench_compare.comparison.compare import compare
from bench_compare.model import Verdict
from bench_compare.policy import Policy
from bench_compare.statistics.clock_resolution import tick_ns
from tests.bench_compare.build import case, document, round_, side


def test_a_tick_is_the_step_between_values_that_occur_again_and_again():
    assert tick_ns(np.array([1632] * 40 + [1664] * 9 + [1600] * 11)) == 32


def test_values_that_conversions_moved_by_a_nanosecond_are_one():
    assert tick_ns(np.array([1631, 1632, 1633, 1664, 1665] * 9)) == 31


@pytest.mark.parametrize("values", [(10_000, 14_000), (10_000, 13_000, 17_000)])
def test_a_kernel_with_a_few_exact_values_has_no_tick(values):
    assert tick_ns(np.repeat(values, 30)) == 0


def test_a_tick_is_what_all_steps_have_in_common():
    assert tick_ns(np.repeat([1600, 1664, 1760], 20)) == 32
    assert tick_ns(np.repeat([1600, 1663, 1761], 20)) in (31, 32, 33, 34, 35)


def test_values_that_do_not_repeat_show_no_tick():
    assert tick_ns(np.arange(1000, 2000, 10)) == 0


def test_one_value_shows_no_tick():
    assert tick_ns(np.array([1632] * 50)) == 0


def spread(label, level_ns):
    """Samples on the level and, now and then, a step of 32 ns above."""
    one = np.where(np.arange(20) % 10 == 9, level_ns + 32, level_ns)
    rounds = [round_(n, {"device_ns": one}) for n in range(5)]
    return side(label, document([case("g", rounds)], run_id=label))


def judged(base_ns, other_ns):
    (found,) = compare(spread("a", base_ns), [spread("b", other_ns)], Policy()).cases
    return found


@pytest.mark.parametrize(("base_ns", "other_ns"), [(1632, 1664), (1664, 1632)])
def test_one_step_of_the_clock_is_no_verdict(base_ns, other_ns):
    found = judged(base_ns, other_ns)
    assert found.verdict is Verdict.UNCLEAR
    assert "the clock's own step" in found.reason


def test_two_steps_of_the_clock_are():
    assert judged(1632, 1696).verdict is Verdict.SLOWER


def test_long_times_are_judged_by_the_threshold_alone():
    assert judged(100_000, 102_000).verdict is Verdict.SLOWER
