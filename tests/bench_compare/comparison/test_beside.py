"""What became worse where another metric decides is told, and counts where it is asked to."""

from __future__ import annotations

import numpy as np
import pytest
from bench_schema.document import Memory

from bench_compare.comparison.compare import compare
from bench_compare.comparison.reasons import conclude
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, round_, side, steady


def held(policy=None, *, device=1.0, end_to_end=1.0, plan=1.0, memory=(100, 100)):
    random = np.random.default_rng(4)

    def of(name, *factors, memory=(100, 100)):
        times = [steady(random, 1e6 * factor) for factor in factors[:2]]
        series = zip(*times, strict=True)
        rounds = [round_(n, {"device_ns": d, "e2e_ns": e}) for n, (d, e) in enumerate(series)]
        init = {"plan_ns": np.full(5, int(1e8 * factors[2]))}
        one = case("g", rounds, init=init, memory=Memory(*memory))
        return side(name, document([one], run_id=name))

    changed = of("b", device, end_to_end, plan, memory=memory)
    return compare(of("a", 1, 1, 1), [changed], policy or Policy())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"end_to_end": 2}, "b: worse beside what decides: end-to-end time of g, "),
        ({"plan": 100}, "initialisation of g, 100× slower (--fail-on init_ns makes it count)"),
        ({"memory": (100, 200)}, "workspace of g, "),
    ],
)
def test_what_does_not_decide_is_told_where_it_is_worse(changes, told):
    assert [told in text for text in held(**changes).warnings] == [True]


def test_it_counts_where_it_is_asked_to_and_is_told_once():
    found = held(Policy(fail_on=frozenset({"e2e_ns"})), end_to_end=2)
    assert (conclude(found).exit_code, found.warnings) == (2, ())


@pytest.mark.parametrize("changes", [{}, {"end_to_end": 0.5}, {"device": 2, "end_to_end": 2}])
def test_what_is_better_or_told_by_the_verdict_needs_no_words(changes):
    assert held(**changes).warnings == ()


def test_a_peak_of_memory_that_scatters_unknown_needs_no_words_and_counts_where_asked_to():
    assert held(memory=(120, 100)).warnings == ()
    asked = held(Policy(fail_on=frozenset({"peak_bytes"})), memory=(120, 100))
    assert conclude(asked).exit_code == 2
