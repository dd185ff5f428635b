"""More evidence never weakens an answer, except by what it shows itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_compare.comparison.judging.moves import Move, judge
from bench_compare.statistics.columns import Columns
from bench_compare.statistics.discovery import false_discovery
from bench_compare.statistics.intervals import DOCUMENT, ROUND, estimate
from tests.support import examples

CASES, ROUNDS = 19, 5
LIMIT = np.full(CASES, np.log(1.01))
GROUPINGS = [(1, 1), (2, 1), (2, 2), (3, 3), (5, 5)]


def places(first, count, rounds=ROUNDS):
    document = np.repeat(np.arange(first, first + count), rounds)
    return Columns(document, np.tile(np.arange(rounds), count), np.zeros_like(document))


def drawn(random, count, spread, common=0.0, own=0.0):
    """Documents of cases whose rounds spread unlike each other, moved as a whole and by case."""
    cases = len(spread)
    moved = random.normal(0, 1, (1, count, 1)) * common + random.normal(0, own, (cases, count, 1))
    noise = random.normal(0, 1, (cases, count, ROUNDS)) * spread[:, None, None]
    return (np.linspace(9, 14, cases)[:, None, None] + moved + noise).reshape(cases, -1)


def spreads(random, cases=CASES):
    return 0.006 * np.exp(random.normal(0, 0.8, cases))


def moves(found):
    return judge(found, false_discovery(found.p), LIMIT, 0.01)


def by_grouping(groupings, shift, repeats=20, common=0.0, own=0.0):
    """Share of cases called slower, mean half width, share of intervals that hold the truth."""
    table = []
    for base, other in groupings:
        random = np.random.default_rng(11)
        called, widths, held = [], [], []
        for _ in range(repeats):
            spread = spreads(random)
            sides = [drawn(random, count, spread, common, own) for count in (base, other)]
            found = estimate(sides[0], sides[1] + shift, (places(0, base), places(50, other)))
            called.append(moves(found) == Move.UP)
            widths.append(found.high - found.low)
            held.append((found.low <= shift) & (shift <= found.high))
        table.append((np.mean(called), np.mean(widths) / 2, np.mean(held)))
    return np.array(table)


@pytest.mark.long
@pytest.mark.parametrize("shift", [0.02, 0.04])
def test_power_grows_with_every_document_of_either_side(shift):
    for groupings in (GROUPINGS, [(b, a) for a, b in GROUPINGS]):
        called, width, _ = by_grouping(groupings, shift).T
        assert (np.diff(called) > -0.03).all(), called
        assert (np.diff(width) < 0).all(), width


@pytest.mark.long
def test_intervals_hold_for_every_grouping_of_documents_that_do_not_differ():
    held = by_grouping(GROUPINGS, 0.0)[:, 2]
    assert ((held > 0.93) & (held < 0.98)).all(), held


@pytest.mark.long
@pytest.mark.parametrize("effects", [(0.01, 0.0), (0.0, 0.01), (0.01, 0.01)])
def test_documents_that_differ_widen_the_intervals_by_as_much(effects):
    common, own = effects
    held = by_grouping([(2, 2), (3, 3), (5, 5)], 0.0, 40, common, own)[:, 2]
    assert (held > 0.85).all(), held


def test_documents_that_agree_are_rounds_and_those_that_do_not_are_documents():
    random = np.random.default_rng(3)
    spread = np.full(CASES, 0.003)
    for effect, unit in ((0.0, ROUND), (0.02, DOCUMENT)):
        sides = [drawn(random, 3, spread, own=effect) for _ in range(2)]
        found = estimate(*sides, (places(0, 3), places(50, 3)))
        assert set(found.unit.tolist()) == {unit}


def test_one_case_whose_documents_differ_is_wide_and_the_others_are_not():
    random = np.random.default_rng(4)
    spread = np.full(CASES, 0.003)
    base, other = (drawn(random, 3, spread) for _ in range(2))
    plain = estimate(base, other, (places(0, 3), places(50, 3)))
    base[0] += np.repeat([0.0, 0.05, -0.05], ROUNDS)
    found = estimate(base, other, (places(0, 3), places(50, 3)))
    width, before = found.high - found.low, plain.high - plain.low
    assert width[0] > 5 * before[0]
    assert np.median(width[1:] / before[1:]) == pytest.approx(1, abs=0.2)


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_a_suite_split_over_documents_has_the_estimates_of_the_whole(seed, pieces):
    random = np.random.default_rng(seed)
    spread = spreads(random)
    sides = [drawn(random, 1, spread) for _ in range(2)]
    whole = estimate(*sides, (places(0, 1), places(50, 1)))
    piece = random.integers(0, pieces, CASES)
    split = []
    for side in sides:
        parts = [np.where((piece == one)[:, None], side, np.nan) for one in range(pieces)]
        split.append(np.concatenate(parts, axis=1))
    found = estimate(*split, (places(0, pieces), places(50, pieces)))
    for name in ("shift", "low", "high", "p", "common"):
        assert getattr(found, name) == pytest.approx(getattr(whole, name), rel=1e-9, abs=1e-12)
    assert (moves(found) == moves(whole)).all()


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_the_rounds_changes_nothing(seed):
    random = np.random.default_rng(seed)
    spread = spreads(random)
    base, other = (drawn(random, 1, spread) for _ in range(2))
    place = places(0, 1), places(50, 1)
    plain = estimate(base, other, place)
    mixed = estimate(base[:, random.permutation(ROUNDS)], other, place)
    for name in ("shift", "low", "high", "p", "common"):
        assert getattr(mixed, name) == pytest.approx(getattr(plain, name), rel=1e-9, abs=1e-12)


@pytest.mark.long
def test_pairs_of_more_documents_decide_more():
    widths = []
    for count in (1, 2, 3, 5):
        random = np.random.default_rng(12)
        some = []
        for _ in range(40):
            drift = drawn(random, count, np.full(CASES, 0.03))
            base, other = (
                drift + random.normal(0, 0.004, (CASES, count * ROUNDS)) for _ in range(2)
            )
            found = estimate(base, other, (places(0, count), places(0, count)))
            some.append(np.mean(found.high - found.low))
        widths.append(np.mean(some))
    assert (np.diff(widths) < 0).all(), widths


def test_only_single_documents_are_one_run_a_side():
    random = np.random.default_rng(13)
    spread = np.full(CASES, 0.003)
    for base, other, one_run in ((1, 1, True), (2, 1, False), (3, 3, False)):
        sides = [drawn(random, count, spread) for count in (base, other)]
        found = estimate(*sides, (places(0, base), places(50, other)))
        assert set(found.one_run.tolist()) == {one_run}
