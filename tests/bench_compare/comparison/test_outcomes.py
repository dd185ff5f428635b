"""What became of a case, counted over the documents of both sides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench_schema.document import Checks

from bench_compare.comparison.outcomes import changes
from bench_compare.model import CaseSide, Verdict
from tests.bench_compare.build import case, round_, validation


def one_side(**changes):
    return CaseSide("g", "numpy", (case("g", **changes),), (0,))


OK = one_side()
FAILED = one_side(status="failed", reason="no memory")
UNSUPPORTED = one_side(status="unsupported", reason="no such mode")
RIGHT = one_side(validation=validation())
WRONG = one_side(validation=validation("failed", 3))
UNCHECKED = one_side(validation=validation("not checked"))


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        (None, OK, Verdict.ADDED),
        (OK, None, Verdict.REMOVED),
        (OK, FAILED, Verdict.BROKEN),
        (OK, one_side(status="crashed"), Verdict.BROKEN),
        (OK, one_side(status="timed out"), Verdict.BROKEN),
        (OK, UNSUPPORTED, Verdict.NEWLY_UNSUPPORTED),
        (FAILED, OK, Verdict.FIXED),
        (UNSUPPORTED, OK, Verdict.FIXED),
        (FAILED, UNSUPPORTED, Verdict.UNMEASURED),
        (UNSUPPORTED, FAILED, Verdict.BROKEN),
        (one_side(status="skipped"), one_side(status="crashed"), Verdict.BROKEN),
        (UNSUPPORTED, one_side(status="skipped"), Verdict.UNMEASURED),
        (None, WRONG, Verdict.WRONG),
        (None, one_side(implausible="too fast"), Verdict.WRONG),
        (WRONG, None, Verdict.REMOVED),
        (RIGHT, WRONG, Verdict.NEWLY_WRONG),
        (UNCHECKED, WRONG, Verdict.NEWLY_WRONG),
        (WRONG, RIGHT, Verdict.FIXED),
        (WRONG, WRONG, Verdict.WRONG),
        (WRONG, UNCHECKED, Verdict.LOST),
        (RIGHT, UNCHECKED, Verdict.LOST),
    ],
)
def test_what_became_of_a_case_is_news(base, other, expected):
    assert changes(base, other)[0].verdict is expected


@pytest.mark.parametrize(("base", "other"), [(OK, OK), (RIGHT, RIGHT), (UNCHECKED, UNCHECKED)])
def test_equal_outcomes_are_no_news(base, other):
    assert changes(base, other) == ()


def test_the_reason_of_a_broken_case_is_the_librarys():
    assert changes(OK, FAILED)[0].reason == "other failed: no memory"


def test_a_case_that_failed_in_one_of_its_documents_is_not_completed():
    flaky = CaseSide("g", "numpy", (case("g"), case("g", status="crashed")), (0, 1))
    assert changes(OK, flaky)[0].verdict is Verdict.BROKEN


CRASHED = case("g", status="crashed")
FINE = case("g")
BAD = case("g", validation=validation("failed", 3))
GOOD = case("g", validation=validation())


def several(*cases, missing=0):
    return CaseSide("g", "numpy", cases, tuple(range(len(cases))), missing)


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        (several(FINE, FINE, FINE), several(FINE, missing=2), [Verdict.REMOVED]),
        (several(FINE, missing=2), several(FINE, missing=2), []),
        (several(FINE, missing=2), several(FINE, FINE, FINE), [Verdict.ADDED]),
        (several(CRASHED, FINE, FINE), several(CRASHED, CRASHED, CRASHED), [Verdict.BROKEN]),
        (several(CRASHED, FINE, FINE), several(CRASHED, FINE, FINE), []),
        (several(CRASHED, FINE, FINE), several(FINE, FINE, FINE), [Verdict.FIXED]),
        (several(BAD, GOOD, GOOD), several(BAD, BAD, BAD), [Verdict.NEWLY_WRONG]),
        (several(BAD, GOOD, GOOD), several(BAD, GOOD, GOOD), [Verdict.WRONG]),
        (
            several(GOOD, GOOD, GOOD),
            several(BAD, CRASHED, missing=1),
            [Verdict.BROKEN, Verdict.NEWLY_WRONG, Verdict.REMOVED],
        ),
        (several(CRASHED, GOOD), several(BAD, GOOD), [Verdict.NEWLY_WRONG, Verdict.FIXED]),
    ],
)
def test_every_kind_of_trouble_is_a_share_of_documents(base, other, expected):
    assert expected == [change.verdict for change in changes(base, other)]


def test_a_share_is_told_with_its_counts():
    (change,) = changes(several(CRASHED, FINE, FINE), several(CRASHED, CRASHED, CRASHED))
    assert "in 3 of 3 documents of other, 1 of 3 of base" in change.reason


def determined(answer):
    return one_side(validation=replace(validation(), deterministic=answer))


def erring(error):
    return one_side(validation=validation(max_abs=error))


def timed(*series):
    rounds = [round_(n, dict.fromkeys(series, [5] * 20)) for n in range(3)]
    return CaseSide("g", "numpy", (case("g", rounds),), (0,))


@pytest.mark.parametrize(
    ("base", "other", "word"),
    [
        (RIGHT, UNCHECKED, "no longer checked"),
        (RIGHT, OK, "no longer checked"),
        (determined(True), determined(False), "different bytes"),
        (erring(1e-9), erring(2e-6), "the error of y grew"),
        (timed("device_ns", "e2e_ns"), timed("e2e_ns"), "device time is no longer measured"),
    ],
)
def test_what_base_had_and_other_has_not_is_lost(base, other, word):
    (change,) = changes(base, other)
    assert change.verdict is Verdict.LOST
    assert word in change.reason
    assert changes(other, base) == ()


def test_an_error_far_below_its_tolerance_may_grow():
    assert changes(erring(0.0), erring(1e-9)) == ()


def test_a_time_that_no_machine_reaches_is_wrong_however_right_the_outputs():
    base = one_side(validation=validation("passed"))
    other = one_side(validation=validation("passed"), implausible="450 ns would be 597 TFLOP/s")
    found = changes(base, other)[0]
    assert (Verdict.NEWLY_WRONG, True) == (found.verdict, "597 TFLOP/s" in found.reason)


NEW = "only in other: "


@pytest.mark.parametrize(
    ("other", "verdict", "word"),
    [
        (FAILED, Verdict.BROKEN, "failed: no memory"),
        (one_side(status="crashed"), Verdict.BROKEN, "crashed: it went wrong"),
        (one_side(status="timed out"), Verdict.BROKEN, "timed out: it went wrong"),
        (WRONG, Verdict.WRONG, "outputs are outside of the tolerance"),
    ],
)
def test_a_new_graph_that_is_broken_or_wrong_is_bad_news(other, verdict, word):
    first, last = changes(None, other)
    assert (verdict, NEW + word, Verdict.ADDED) == (first.verdict, first.reason, last.verdict)


@pytest.mark.parametrize("status", ["unsupported", "skipped"])
def test_a_new_graph_that_is_refused_is_no_bad_news(status):
    assert [Verdict.ADDED] == [one.verdict for one in changes(None, one_side(status=status))]


def checked(**changes):
    one = validation()
    sizes = {name: changes.pop(name) for name in ("elements", "mismatched") if name in changes}
    outputs = tuple(replace(output, **sizes) for output in one.outputs)
    return case("g", validation=replace(one, outputs=outputs, **changes))


@pytest.mark.parametrize(
    "contradiction", [{"iterations_mismatched": 1}, {"mismatched": 3}, {"inputs_unchanged": False}]
)
def test_outputs_that_passed_beside_a_mismatch_are_wrong(contradiction):
    (change,) = changes(RIGHT, several(checked(**contradiction)))
    assert Verdict.NEWLY_WRONG is change.verdict


def test_outputs_that_passed_beside_a_round_with_mismatches_are_wrong():
    checks = Checks((0, 1), (0, 2), (0.0, 1.0), ("a", "b"))
    rounds = (replace(round_(0, {"e2e_ns": [5, 5]}), checks=checks),)
    (change,) = changes(RIGHT, several(replace(GOOD, rounds=rounds)))
    assert Verdict.NEWLY_WRONG is change.verdict
    assert "said to have passed" in change.reason


@pytest.mark.parametrize(
    ("base", "other"),
    [
        ([{"iterations_checked": 100}], [{"iterations_checked": 0}]),
        ([{"iterations_checked": 100}], [{"iterations_checked": 50}]),
        ([{"iterations_checked": 9}] * 2, [{"iterations_checked": 9}, {"iterations_checked": 0}]),
        ([{"elements": 10}], [{"elements": 9}]),
        ([{"elements": 10}] * 2, [{"elements": 10}, {"elements": 1}]),
    ],
)
def test_fewer_checks_are_lost(base, other):
    sides = [several(*(checked(**one) for one in side)) for side in (base, other)]
    assert [Verdict.LOST] == [change.verdict for change in changes(*sides)]
    assert () == changes(*reversed(sides))


@pytest.mark.parametrize(("base", "other"), [(100, 51), (0, 0), (1, 1), (0, 5)])
def test_as_many_checks_as_time_allows_are_no_news(base, other):
    sides = [several(checked(iterations_checked=number)) for number in (base, other)]
    assert () == changes(*sides)


def test_a_run_of_fewer_iterations_checks_fewer():
    sides = [
        several(replace(checked(iterations_checked=number), rounds=(round_(0, {"e2e_ns": times}),)))
        for number, times in ((100, [5] * 100), (20, [5] * 20))
    ]
    assert () == changes(*sides)


@pytest.mark.parametrize(("base", "other"), [(None, OK), (OK, None), (WRONG, None)])
def test_a_case_that_a_run_may_still_measure_is_not_gone(base, other):
    (change,) = changes(base, other, awaited=True)
    assert change.verdict is Verdict.UNMEASURED
    assert "not measured yet, the run has not ended" in change.reason
