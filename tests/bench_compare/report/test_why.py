from dataclasses import replace

import pytest
from bench_schema.document import Kernel, Launch, Telemetry

from bench_compare.model import SettingDifference, Verdict
from bench_compare.report.why import case_changes, kinds
from bench_compare.report.words import launch_texts


@pytest.fixture
def moved(make):
    return make.row(1, "g", Verdict.SLOWER, 1.5)


def with_other(case, **changes):
    return replace(
        case, other=replace(case.other, cases=(replace(case.other.cases[0], **changes),))
    )


def test_two_sides_alike_have_nothing_to_tell(moved):
    assert () == case_changes(with_other(moved, kernels=moved.base.cases[0].kernels))


def test_a_plan_that_differs_names_the_key_and_both_values(moved):
    [change] = case_changes(with_other(moved, plan={"engine id": "57", "math": "fp32"}))
    assert ("plan", "plan, engine id", "8", "57") == change


def test_other_kernels_are_named(moved):
    [change] = case_changes(with_other(moved, kernels=(Kernel("splitk", 2, 1.0),)))
    assert ("kernels", "splitk") == (change.kind, change.other)


def test_a_side_that_was_not_traced_has_no_other_kernels(moved):
    assert [] == kinds(case_changes(with_other(moved, kernels=())))


def at_clock(case, mhz):
    one = case.other.cases[0]
    rounds = [replace(r, telemetry_before=None, telemetry_after=Telemetry(mhz)) for r in one.rounds]
    return with_other(case, rounds=tuple(rounds))


@pytest.mark.parametrize(("mhz", "expected"), [(1965.0, []), (1900.0, ["clock"])])
def test_a_clock_counts_from_one_percent_on(moved, mhz, expected):
    assert expected == kinds(case_changes(at_clock(moved, mhz)))


def test_a_side_that_is_absent_is_not_held_against_anything(make):
    assert () == case_changes(make.row(1, "g", Verdict.REMOVED))


def launched(name, registers, spilled):
    launch = Launch((1, 1, 1), (64, 1, 1), (0, 0, 0), registers, 0, 0, spilled)
    return (Kernel(name, 1, 1.0, launch=launch),)


@pytest.mark.parametrize("name", ["k", "k<96>(float*)"])
def test_registers_and_spills_that_moved_are_named(moved, name):
    base = replace(moved.base.cases[0], kernels=launched("k", 168, 0))
    case = replace(moved, base=replace(moved.base, cases=(base,)))
    changes = case_changes(with_other(case, kernels=launched(name, 255, 96)))
    told = [change for change in changes if change.kind == "launch"]
    assert [("launch", "registers", "168", "255"), ("launch", "spills", "0", "96 B")] == told


def test_launches_of_kernels_that_have_nothing_in_common_are_not_compared(moved):
    base = replace(moved.base.cases[0], kernels=launched("void cudnn::f<1>", 168, 0))
    case = replace(moved, base=replace(moved.base, cases=(base,)))
    changes = case_changes(with_other(case, kernels=launched("void at::g<1>", 255, 96)))
    assert ["kernels"] == kinds(changes)


def test_a_text_says_what_moved_in_a_case_that_did(moved, make):
    base = replace(moved.base.cases[0], kernels=launched("k", 168, 0))
    case = replace(moved, base=replace(moved.base, cases=(base,)))
    case = with_other(case, kernels=launched("k", 255, 96))
    assert ["g: registers 168 → 255, spills 0 → 96 B"] == launch_texts(make.comparison([case]))


def test_a_case_that_moved_with_the_same_code_is_told_to_suspect_the_machine(moved, make):
    base = replace(moved.base.cases[0], kernels=launched("k", 168, 0))
    case = replace(moved, base=replace(moved.base, cases=(base,)))
    case = with_other(case, kernels=launched("k", 168, 0))
    expected = (
        "1 changed case has the same libraries, kernels and launches on both sides: suspect the "
        "machine or the settings."
    )
    comparison = replace(make.comparison([case]), differences=())
    assert [expected] == launch_texts(comparison)
    other = SettingDifference("libraries", "a 1", "a 2", case.other_label, must_agree=False)
    assert [] == launch_texts(replace(comparison, differences=(other,)))


def test_nothing_is_said_of_the_code_where_kernels_were_not_recorded(moved, make):
    comparison = replace(make.comparison([moved]), differences=())
    assert [] == launch_texts(comparison)
