"""Verdicts: what the numbers and the outcomes mean, in words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench_schema.units import change_words
from hypothesis import given
from hypothesis import strategies as st

from bench_compare.comparison.judging.moves import Move, exact_move, judge, words
from bench_compare.comparison.judging.reasons import Evidence, reason
from bench_compare.metrics import METRICS
from bench_compare.model import Verdict
from bench_compare.statistics.intervals import estimate

LIMIT = math.log1p(0.01)
POSITIVE = st.floats(0, 1e9)


def judged(shift, spread, q=0.001):
    base = np.array([[-spread, 0, spread]])
    return judge(estimate(base, base + shift), np.array([q]), np.array([LIMIT]), 0.05)[0]


@pytest.mark.parametrize(
    ("shift", "spread", "q", "expected"),
    [
        (0.05, 0.001, 0.001, Move.UP),
        (-0.05, 0.001, 0.001, Move.DOWN),
        (0.001, 0.001, 0.001, Move.SAME),
        (0.05, 0.001, 0.2, Move.UNCLEAR),
        (0.009, 0.001, 0.001, Move.UNCLEAR),
        (0.001, 0.1, 0.9, Move.UNCLEAR),
    ],
)
def test_a_move_needs_significance_and_size(shift, spread, q, expected):
    assert judged(shift, spread, q) == expected


def test_a_move_at_the_threshold_whose_interval_nearly_reaches_no_change_is_unclear():
    # −1.0 % ± 0.7 and −1.0 % ± 0.3: two identical runs may well show the first.
    assert (Move.UNCLEAR, Move.DOWN) == (judged(-0.01, 0.003), judged(-0.01, 0.0013))


@pytest.mark.long
@given(st.floats(-0.1, 0.1), st.floats(0, 0.1), st.floats(0, 1))
def test_swapping_the_sides_swaps_the_move(shift, spread, q):
    mirrored = {Move.UP: Move.DOWN, Move.DOWN: Move.UP}
    there = judged(shift, spread, q)
    assert judged(-shift, spread, q) == mirrored.get(there, there)


@given(POSITIVE, POSITIVE, st.floats(0.001, 0.9))
def test_exact_numbers_are_judged_alike_from_both_sides(base, other, threshold):
    assert exact_move(base, other, threshold) in (
        Move.SAME,
        -exact_move(other, base, threshold),
    )


def test_any_error_is_worse_than_none():
    assert exact_move(0.0, 1e-30, 0.5) == Move.UP


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("device_ns", Verdict.SLOWER),
        ("tflops", Verdict.FASTER),
        ("peak_bytes", Verdict.WORSE),
        ("max_error", Verdict.WORSE),
    ],
)
def test_more_is_good_or_bad_by_the_metric(metric, expected):
    assert words(METRICS[metric])[Move.UP] is expected


def evidence(move, **changes):
    values = {
        "move": move,
        "ratio": 1.05,
        "low": 1.04,
        "high": 1.06,
        "q": 0.001,
        "threshold_ratio": 0.01,
        "units": (5, 5),
        "lacks": "round",
        "needed": None,
    }
    return Evidence(**{**values, **changes})


@pytest.mark.parametrize(
    ("given_evidence", "words_in_it"),
    [
        (evidence(Move.UP), "beyond the threshold of 1 %"),
        (evidence(Move.SAME), "within the threshold"),
        (
            evidence(Move.UNCLEAR, q=0.07),
            "beyond 1 % alone, not significant after correction for many comparisons, q 0.07",
        ),
        (evidence(Move.UNCLEAR, low=0.99), "neither beyond nor within 1 %"),
        (evidence(Move.UNCLEAR, needed=4), "needs about 4 more rounds"),
        (evidence(Move.UNCLEAR, needed=1, lacks="document"), "1 more document"),
        (evidence(Move.UNCLEAR), "more rounds would hardly decide it"),
        (evidence(Move.UP, units=(1, 1)), "provisional, a single round"),
        (evidence(Move.UP, units=(2, 5)), "provisional, two rounds"),
        (evidence(Move.UP, units=(2, 2), unit="document"), "provisional, two documents a side"),
        (evidence(Move.UP, one_visit=True), "one run per side, run-to-run variation is not"),
        (
            evidence(Move.UNCLEAR, low=1e-3, high=1e6),
            "too noisy to tell: the 95 % interval reaches beyond ×2",
        ),
        (
            evidence(Move.UP, low=None, high=None, lacks="summary"),
            "+5 % (summary only, no samples: the raw ratio counts): beyond the threshold of 1 %",
        ),
        (evidence(Move.UNCLEAR, low=None, high=None), "too few samples to know their spread"),
    ],
)
def test_the_reason_is_a_sentence_that_says_it(given_evidence, words_in_it):
    assert words_in_it in reason(given_evidence)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.0, "+0 %"),
        (1.0512, "+5.1 %"),
        (0.98, "-2 %"),
        (1.31, "+31 %"),
        (2.4, "×2.4"),
        (1.308, "+30.8 %"),
        (0.4, "÷2.5"),
    ],
)
def test_ratios_read_as_changes(ratio, expected):
    assert change_words(ratio) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.04, 1.06, "95 % interval +4 % to +6 %"),
        (0.54, 1.31, "95 % interval ÷1.852 to ×1.31"),
        (1.305, 1.312, "95 % interval ×1.305 to ×1.312"),
    ],
)
def test_an_interval_beyond_a_quarter_is_told_as_factors(low, high, expected):
    assert expected in reason(evidence(Move.UP, low=low, high=high))
