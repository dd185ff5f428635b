"""The gain of the whole, from graphs with rounds of their own number."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from bench_run.tune.choosing import Suite, total_gain


def suite(rows):
    """`rows`: of each graph its repeat count, and logarithms of rounds of default and winner."""
    raced, logs = [], {}
    for number, (repeat, *sides) in enumerate(rows):
        options = [SimpleNamespace(case=SimpleNamespace(id=f"{number} {i}")) for i in range(2)]
        loaded = SimpleNamespace(repeat=repeat)
        raced.append(SimpleNamespace(options=options, graph=SimpleNamespace(loaded=loaded)))
        logs |= {f"{number} {i}": np.asarray(side) for i, side in enumerate(sides)}
    return Suite(raced, logs)


def rounds(draw, time, count):
    return math.log(time) + 0.01 * draw.standard_normal(count)


def test_totals_weigh_each_graph_by_how_often_it_occurs():
    found = total_gain(
        suite([(3, [0.0] * 5, [0.0] * 5), (1, [math.log(2)] * 5, [0.0] * 9)]), {0: 1, 1: 1}, 1
    )
    assert (5, 4, 1.25) == pytest.approx((found.default_ns, found.tuned_ns, found.ratio.estimate))


def test_the_interval_holds_the_true_gain_as_often_as_it_says():
    held, truth = 0, (2 * 3 + 5 * 1.1) / (2 * 2 + 5)
    for seed in range(400):
        draw = np.random.default_rng(seed)
        rows = [
            (2, rounds(draw, 3, 5), rounds(draw, 2, 5)),
            (5, rounds(draw, 1.1, 9), rounds(draw, 1, 20)),
        ]
        gain = total_gain(suite(rows), {0: 1, 1: 1}, 1).ratio
        held += gain.low <= truth <= gain.high
    assert 0.92 <= held / 400 <= 0.98


def test_graphs_that_keep_their_default_add_no_gain():
    found = total_gain(suite([(1, [0.0, 0.1], [0.0, 0.2])]), {0: 0}, 1)
    assert (1.0, 1.0, 1.0) == (found.ratio.estimate, found.ratio.low, found.ratio.high)


def test_without_a_graph_that_has_times_there_is_no_gain():
    assert total_gain(suite([]), {}, 1) is None
