"""Parts of a case become the case: rounds joined, the worst kept."""

from dataclasses import replace

import numpy as np
import pytest
from bench_schema import codec
from bench_schema.document import (
    Checks,
    Kernel,
    Launch,
    Memory,
    Outcome,
    OutputValidation,
    Validation,
    Work,
)
from bench_schema.merge import (
    find_device,
    merge_cases,
    merge_validations,
    summaries,
    with_shortfall,
)


def ints(*values):
    return np.array(values, dtype=np.int64)


@pytest.fixture
def part(stored):
    """Makes a part with one round of one series."""
    case = stored.cases[1]

    def make(index=0, samples=(10, 11, 12), **fields):
        round_ = replace(case.rounds[0], index=index, series={"e2e_ns": ints(*samples)})
        init = {"load_ns": ints(100 + index)}
        usual = {"rounds": (round_,), "init": init, "validation": None, "summary": {}}
        return replace(case, **{**usual, **fields})

    return make


OUTPUT = OutputValidation(1, "y", "half", 10, 0, 0.5, 0.25, 0.125, 1e-3, 1e-5, "table", ())
PASSED = Validation("passed", "numpy", None, (OUTPUT,), 5, 0, True)
FAILED = replace(PASSED, status="failed", reason="y is wrong", iterations_mismatched=2)
UNCHECKED = Validation("not checked", "none", "no reference", (), 0, 0, None)


def test_rounds_and_initialisation_are_joined_in_order(part):
    merged = merge_cases([part(0), part(1), part(2)])
    assert [round_.index for round_ in merged.rounds] == [0, 1, 2]
    assert merged.init["load_ns"].tolist() == [100, 101, 102]


def timed(part, *timings):
    """A part with a round for each way in which device times were taken."""
    rounds = tuple(
        replace(part.rounds[0], index=index, series={"device_ns": ints(10)}, device_timing=how)
        for index, how in enumerate(timings)
    )
    return replace(part, rounds=rounds, init={"load_ns": ints(*range(len(timings)))})


@pytest.mark.parametrize(
    "timings",
    [
        [["gated events"], ["gated events"], ["events"]],
        [["gated events", "gated events", "events"]],
    ],
)
def test_rounds_behind_a_gate_are_void_where_the_case_had_to_do_without(part, timings):
    merged = merge_cases([timed(part(), *one) for one in timings])
    assert ["events"] == [round_.device_timing for round_ in merged.rounds]
    assert (1, 1) == (merged.summary["device_ns"].count, len(merged.init["load_ns"]))


def test_what_was_paid_once_is_kept_of_a_void_round(part):
    first, second = (timed(part(), how) for how in ("gated events", "events"))
    first, second = (replace(p, init={"search_ns": ints(n)}) for p, n in ((first, 40), (second, 2)))
    assert [40, 2] == merge_cases([first, second]).init["search_ns"].tolist()


@pytest.mark.parametrize("how", ["gated events", "events", "kernel records", None])
def test_rounds_that_were_timed_alike_are_all_kept(part, how):
    assert 2 == len(merge_cases([timed(part(), how), timed(part(), how)]).rounds)


def test_a_phase_that_a_part_lacks_is_left_out_of_its_array(part):
    merged = merge_cases([part(0), part(1, init={}), part(2, init={"plan_ns": ints(7)})])
    assert {name: values.tolist() for name, values in merged.init.items()} == {
        "load_ns": [100],
        "plan_ns": [7],
    }


def test_summaries_are_of_all_rounds_whatever_the_parts_say(part, stored):
    merged = merge_cases([part(0, (1, 2, 3)), part(1, (4, 5), summary=stored.cases[0].summary)])
    assert merged.summary == summaries(merged.rounds)
    assert (merged.summary["e2e_ns"].count, merged.summary["e2e_ns"].median) == (5, 3)


def test_a_part_without_rounds_gives_no_summary(part):
    assert merge_cases([part(rounds=())]).summary == {}


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["completed", "completed"], 1),
        (["completed", "crashed", "completed"], 1),
        (["failed", "skipped"], 0),
        (["failed", "crashed", "timed out"], 1),
        (["failed", "failed"], 1),
    ],
)
def test_the_outcome_is_the_worst_of_equals_the_last(part, statuses, expected):
    outcomes = [Outcome(status, f"reason {i}") for i, status in enumerate(statuses)]
    merged = merge_cases([part(i, outcome=outcome) for i, outcome in enumerate(outcomes)])
    assert merged.outcome == outcomes[expected]
    assert len(merged.rounds) == len(statuses)


def test_one_failed_visit_makes_the_validation_failed(part):
    visits = [part(0, validation=PASSED), part(1, validation=FAILED), part(2, validation=PASSED)]
    merged = merge_cases(visits).validation
    assert (merged.status, merged.reason) == ("failed", "y is wrong")
    assert (merged.iterations_checked, merged.iterations_mismatched) == (15, 2)


def test_a_visit_that_was_not_checked_does_not_spoil_the_others():
    assert merge_validations([UNCHECKED, PASSED, None], ()).status == "passed"
    assert merge_validations([UNCHECKED, None], ()) == UNCHECKED
    assert merge_validations([None], ()) is None


def test_every_measure_of_an_output_is_its_worst():
    worse = replace(OUTPUT, max_abs="Infinity", max_rel=0.125, mismatched=3)
    unknown = replace(OUTPUT, max_abs=1.0, relative_l2="NaN")
    parts = [replace(PASSED, outputs=(output,)) for output in (OUTPUT, worse, unknown)]
    (merged,) = merge_validations(parts, ()).outputs
    expected = replace(OUTPUT, mismatched=3, max_abs="Infinity", max_rel=0.25, relative_l2="NaN")
    assert merged == expected


def test_outputs_are_kept_apart_by_tensor():
    other = replace(OUTPUT, uid=2)
    merged = merge_validations([replace(PASSED, outputs=(OUTPUT, other))] * 2, ())
    assert merged.outputs == (OUTPUT, other)


@pytest.mark.parametrize(
    ("sums", "expected"),
    [(["a", "a"], True), (["a", "b"], False), (["a"], None), ([], None)],
)
def test_results_that_differ_between_rounds_are_not_deterministic(part, sums, expected):
    undecided = replace(PASSED, deterministic=None)
    visits = [
        replace(part(index), rounds=(replace(part(index).rounds[0], checks=checks),))
        for index, checks in enumerate(Checks((0,), (0,), (0.0,), (text,)) for text in sums)
    ] or [part()]
    visits = [replace(visit, validation=undecided) for visit in visits]
    assert merge_cases(visits).validation.deterministic is expected


def test_what_is_known_last_stays_and_memory_is_the_most(part):
    visits = [
        part(0, plan={"plan": "a", "math": "tf32"}, memory=Memory(10, None, 5), stopped_by=None),
        part(1, plan={"plan": "b"}, memory=Memory(7, 3, 5), stopped_by="precision", notes=("x",)),
        part(2, memory=None, stopped_by=None, plan={}, notes=("y", "x")),
    ]
    merged = merge_cases(visits)
    assert merged.plan == {"plan": "b", "math": "tf32"}
    assert merged.memory == Memory(10, 3, 5)
    assert merged.stopped_by == "precision"
    assert merged.notes == ("x", "y")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["iterations", "max time", "iterations"], "max time"),
        (["most samples", "max time"], "max time"),
        (["iterations", "min time"], "min time"),
        (["iterations", "iterations"], "iterations"),
    ],
)
def test_a_round_that_a_limit_ended_early_outweighs_others(part, rules, expected):
    visits = [part(index, stopped_by=rule) for index, rule in enumerate(rules)]
    assert merge_cases(visits).stopped_by == expected
    rule = replace(part(), rounds=(), stopped_by="precision")
    assert merge_cases([*visits, rule]).stopped_by == "precision"


def test_a_case_with_fewer_iterations_than_asked_for_says_so_once(part, stored):
    settings = replace(stored.run.settings, iterations=10, rounds=3)
    visits = [part(0, (1, 2, 3, 4)), part(1, (1, 2), stopped_by="max time"), part(2, (1, 2, 3))]
    merged = with_shortfall(with_shortfall(merge_cases(visits), settings), settings)
    assert merged.notes[-1] == "iterations: 9 of 10 (max time)"
    assert sum(note.startswith("iterations: ") for note in merged.notes) == 1
    whole = merge_cases([*visits[:1], part(1), visits[2]])
    assert whole.notes == with_shortfall(whole, settings).notes


def test_work_is_what_any_visit_knew(part):
    visits = [part(0, work=Work(None, None, None)), part(1, work=Work(8, 4, 2.0))]
    assert merge_cases(visits).work == Work(8, 4, 2.0)


def test_merging_a_merged_case_changes_nothing(stored):
    for case in stored.cases:
        once = merge_cases([case])
        assert codec.encode(merge_cases([once])) == codec.encode(once)


def test_a_device_is_found_by_uuid_or_index(stored):
    first, second = stored.machine.devices
    assert find_device(stored.machine, first.uuid) == first
    assert find_device(stored.machine, "1") == second
    assert find_device(stored.machine, "cpu") is None


def test_a_pass_that_counts_keeps_the_launches_of_the_pass_that_timed(part):
    launch = Launch((1, 1, 1), (32, 1, 1), (0, 0, 0), 16, 0, 0)
    timed = (Kernel("f", 1, 5.0, launch=launch), Kernel("g", 1, 5.0, launch=launch))
    counted = (Kernel("f", 1, 6.0, {"bytes": 3.0}), Kernel("h", 1, 6.0))
    merged = merge_cases([part(0, kernels=timed), part(1, kernels=counted)])
    assert [("f", 6.0, launch), ("h", 6.0, None)] == [
        (kernel.name, kernel.median_ns, kernel.launch) for kernel in merged.kernels
    ]
