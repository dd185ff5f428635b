"""Units of hardware as rounds tell them, and what recurs in every document."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_compare.comparison.compare import compare
from bench_compare.comparison.reasons import conclude
from bench_compare.model import Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, engine, round_, side, steady
from tests.support import examples

CASES = 12


def measured(random, units, factor=1.0, shifts=None):
    """A document of rounds on these devices; the second device is 15 % slower."""
    made = []
    for n in range(CASES):
        rounds = []
        for index, unit in enumerate(units):
            move = 0.0 if shifts is None else shifts[index, n]
            level = 1e6 * factor * (1.15 if unit == "GPU-2" else 1.0)
            level *= np.exp(move + random.normal(0, 0.002))
            times = np.rint(level * np.exp(random.normal(0, 0.002, 12))).astype(np.int64)
            rounds.append(replace(round_(index, {"e2e_ns": times}), host="box", device_uuid=unit))
        made.append(case(f"g{n}", rounds))
    return document(made, run_id=str(random.integers(1 << 62)))


QUIET = Policy(floor_sd=0.001)
"""Of documents that differ by as little as those of a device."""


def compared(base, other):
    return compare(side("base", *base), [side("other", *other)], QUIET)


def test_sides_are_compared_within_the_units_that_their_rounds_ran_on():
    random = np.random.default_rng(1)
    base = measured(random, ["GPU-1"] * 4 + ["GPU-2"] * 2)
    other = measured(random, ["GPU-1"] * 2 + ["GPU-2"] * 4)
    found = compared([base], [other])
    assert [Verdict.SAME] * CASES == [one.verdict for one in found.cases]
    assert not any(one.gate_metric.provisional for one in found.cases)


def test_several_documents_of_several_units_are_compared_within_units():
    random = np.random.default_rng(2)
    base = [measured(random, ["GPU-1", "GPU-1", "GPU-2"]) for _ in range(3)]
    other = [measured(random, ["GPU-1", "GPU-2", "GPU-2"], 1.05) for _ in range(3)]
    found = compared(base, other)
    assert all(1.04 < one.gate_metric.ratio < 1.06 for one in found.cases)
    assert [Verdict.SLOWER] * CASES == [one.verdict for one in found.cases]


def test_rounds_on_another_unit_are_provisional():
    random = np.random.default_rng(3)
    found = compared([measured(random, ["GPU-1"] * 5)], [measured(random, ["GPU-2"] * 5)])
    assert all(one.gate_metric.provisional for one in found.cases)
    assert any("another unit of hardware" in text for text in found.warnings)


def at_clock(times, clock_mhz):
    return [round_(n, {"e2e_ns": row}, clock_mhz=clock_mhz) for n, row in enumerate(times)]


def on_units(label, *places, clock_mhz=None):
    """A document for each unit of hardware, whose cases take so long."""
    random = np.random.default_rng(len(label))
    made = [
        document(
            [case(f"g{n}", at_clock(steady(random, level), clock_mhz)) for n in range(CASES)],
            run_id=f"{label}{number}",
            engines=[engine(device=unit, device_kind="NVIDIA H200")],
        )
        for number, (unit, level) in enumerate(places)
    ]
    return side(label, *made)


def test_a_document_of_a_unit_that_base_lacks_is_held_against_the_slowest_of_base():
    old = on_units("old", *[("GPU-1", 1e6)] * 3)
    new = on_units("new", ("GPU-1", 1e6), *[("GPU-2", 1.15e6)] * 2)
    found = compare(old, [new], Policy())
    assert any(text.startswith("new: 2 of 3 documents ran on no unit") for text in found.warnings)
    case_ = found.cases[0]
    assert (Verdict.SLOWER, True) == (case_.verdict, case_.gate_metric.provisional)
    assert "on a unit of hardware that base lacks, against the slowest" in case_.reason
    assert 2 == conclude(found).exit_code


def test_a_unit_that_base_lacks_is_no_news_where_it_is_not_slower_than_all_of_base():
    old = on_units("old", ("GPU-1", 1e6), ("GPU-2", 1.2e6))
    new = on_units("new", ("GPU-1", 1e6), ("GPU-3", 1.1e6))
    assert 0 == conclude(compare(old, [new], QUIET)).exit_code


def test_a_unit_that_other_lacks_does_not_count_and_that_is_said():
    old = on_units("old", ("GPU-1", 1e6), ("GPU-2", 1.2e6))
    found = compare(old, [on_units("new", ("GPU-1", 1e6))], QUIET)
    assert "old: 1 of 2 documents ran on no unit of hardware of new and does not count" in (
        found.warnings
    )
    assert 0 == conclude(found).exit_code


def only_summary(level):
    return replace(case("g", [np.full(40, level)] * 5, summaries=True), rounds=())


def sampled(level, seed=0):
    return case("g", steady(np.random.default_rng(seed), level))


def side_of(label, *cases):
    return side(label, *(document([one], run_id=f"{label}{n}") for n, one in enumerate(cases)))


@pytest.mark.parametrize(
    ("base", "other", "verdict", "code"),
    [
        ([only_summary(1e6)], [only_summary(1e7)], Verdict.SLOWER, 2),
        ([only_summary(1e6)], [only_summary(1.005e6)], Verdict.SAME, 0),
        ([only_summary(1e6)], [only_summary(5e5)], Verdict.FASTER, 0),
        ([sampled(1e6)], [only_summary(1e7)], Verdict.SLOWER, 2),
        ([only_summary(1e6)], [sampled(1e7)], Verdict.SLOWER, 2),
        ([sampled(1e6)] * 2, [sampled(1e6, 1), only_summary(1e7)], Verdict.SLOWER, 2),
        ([sampled(1e6), only_summary(1e7)], [sampled(1e6, 1), only_summary(1e7)], Verdict.SAME, 0),
    ],
)
def test_a_summary_is_judged_by_the_scatter_that_it_states(base, other, verdict, code):
    found = compare(side_of("base", *base), [side_of("other", *other)], QUIET)
    assert (verdict, code) == (found.cases[0].verdict, conclude(found).exit_code)


def test_summaries_have_a_common_movement():
    def of(label, level):
        made = [replace(only_summary(level), graph=case(f"g{n}").graph) for n in range(CASES)]
        return side(label, document(made, run_id=label))

    found = compare(of("base", 1e6), [of("other", 1.1e6)], Policy(fail_on=frozenset()))
    assert "FAIL: median of all cases 1.1× slower, threshold 1 %" == conclude(found).line


def test_a_unit_that_is_slower_at_the_same_clock_is_no_matter_of_the_clock():
    old = on_units("old", ("GPU-1", 1e6), clock_mhz=1980.0)
    new = on_units("new", ("GPU-1", 1e6), ("GPU-2", 1.15e6), clock_mhz=1980.0)
    found = compare(old, [new], Policy())
    assert {Verdict.SLOWER} == {one.verdict for one in found.cases}


@settings(max_examples=examples(5), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3), st.integers(2, 4))
def test_suites_in_pieces_have_the_answers_of_the_whole(seed, base, other, pieces):
    random = np.random.default_rng(seed)
    spread = random.choice([0.0, 0.01])
    sides = []
    for count in (base, other):
        moves = random.normal(0, spread, (count, 1, CASES)) + np.zeros((count, 4, CASES))
        sides.append([measured(random, ["GPU-1"] * 4, shifts=one) for one in moves])
    whole = compared(*sides)
    split = []
    for documents in sides:
        parts = []
        for number, one in enumerate(documents):
            at = random.integers(0, pieces, CASES)
            for piece in set(at.tolist()):
                cases = tuple(c for c, here in zip(one.cases, at, strict=True) if here == piece)
                started = f"2026-01-{number + 1:02}T00:00:{piece:02}+00:00"
                run = replace(one.run, id=f"{one.run.id}-{piece}", started=started)
                parts.append(replace(one, cases=cases, run=run))
        random.shuffle(parts)
        split.append(parts)
    found = compared(*split)
    of_whole = {one.name: one for one in whole.cases}
    for mine in found.cases:
        theirs = of_whole[mine.name]
        assert mine.verdict is theirs.verdict
        for name in ("ratio", "ci_low", "ci_high", "p"):
            of_both = [getattr(one.gate_metric, name) for one in (mine, theirs)]
            assert of_both[0] == pytest.approx(of_both[1], rel=1e-9)
