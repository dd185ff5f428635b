"""The core: sides and a policy in, verdicts out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from bench_schema.document import Memory, Work
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_compare.comparison.compare import compare
from bench_compare.comparison.reasons import conclude
from bench_compare.model import Verdict, swapped
from bench_compare.policy import Allowance, GraphRule, Policy
from bench_compare.report import words
from tests.bench_compare.build import (
    case,
    document,
    engine,
    fingerprint,
    on_device,
    round_,
    side,
    steady,
    validation,
)
from tests.support import examples

MS = 1e6


def quiet(level=MS, seed=0, **changes):
    return case("g", steady(np.random.default_rng(seed), level), **changes)


QUIET = Policy(floor_sd=0.001)
"""Of documents that differ by as little as those of a device."""


def held(base, other, policy=QUIET, **changes):
    """One document a side."""
    sides = side("a", document(base, run_id="a")), side("b", document(other, run_id="b", **changes))
    return compare(sides[0], [sides[1]], policy)


def only(comparison):
    (found,) = comparison.cases
    return found


def test_a_slower_case_is_slower_and_bad_news():
    found = held([quiet()], [quiet(1.05 * MS, seed=1)])
    assert (only(found).verdict, conclude(found).exit_code) == (Verdict.SLOWER, 2)
    assert found.bad_news[0].sentence == only(found).reason


def test_a_faster_case_is_good_news():
    found = held([quiet()], [quiet(0.9 * MS, seed=1)])
    assert (only(found).verdict, conclude(found).exit_code) == (Verdict.FASTER, 0)


def test_the_same_case_is_the_same():
    assert only(held([quiet()], [quiet(seed=1)])).verdict is Verdict.SAME


def test_values_and_ratio_belong_together():
    metric = only(held([quiet()], [quiet(1.05 * MS, seed=1)])).gate_metric
    assert metric.other / metric.base == pytest.approx(metric.ratio)
    assert metric.ci_low < metric.ratio < metric.ci_high


def test_device_time_decides_where_both_sides_have_it():
    def both(device, e2e):
        return case("g", [round_(n, {"device_ns": device, "e2e_ns": e2e}) for n in range(5)])

    level = np.full(20, 1000)
    found = only(held([both(level, level)], [both(level, 2 * level)]))
    assert (found.gate, found.verdict) == ("device_ns", Verdict.SAME)
    assert found.metrics["e2e_ns"].verdict is Verdict.SLOWER


def test_end_to_end_time_decides_where_one_side_has_no_device_time():
    level = np.full(20, 1000)
    base = case("g", [round_(n, {"device_ns": level, "e2e_ns": level}) for n in range(5)])
    found = only(held([base], [case("g", [level] * 5)]))
    assert found.gate == "e2e_ns"
    assert found.metrics["device_ns"].verdict is Verdict.UNMEASURED


def test_one_chosen_metric_decides_alone():
    base, other = (quiet(init={"plan_ns": np.full(5, ns)}) for ns in (1000, 5000))
    found = only(held([base], [other], Policy(metrics=("init_ns",))))
    assert (found.gate, found.verdict) == ("init_ns", Verdict.SLOWER)


def test_rates_move_against_time():
    work = Work(10**9, 10**6, 1000.0)
    found = only(held([quiet(work=work)], [quiet(1.1 * MS, seed=1, work=work)]))
    rate = found.metrics["tflops"]
    assert rate.base == pytest.approx(1e9 / found.metrics["e2e_ns"].base / 1000)
    assert (rate.verdict, rate.ratio) == (
        Verdict.SLOWER,
        pytest.approx(1 / found.gate_metric.ratio),
    )


def test_memory_is_judged_without_statistics():
    cases = [quiet(memory=Memory(peak, 0, 0)) for peak in (1000, 1200)]
    found = only(held([cases[0]], [cases[1]])).metrics
    assert found["peak_bytes"].verdict is Verdict.WORSE
    assert found["workspace_bytes"].verdict is Verdict.SAME


def test_an_error_that_grows_from_zero_is_worse_and_has_no_ratio():
    cases = [quiet(validation=validation(max_abs=error)) for error in (0.0, 1e-3)]
    metric = only(held([cases[0]], [cases[1]])).metrics["max_error"]
    assert (metric.verdict, metric.ratio) == (Verdict.WORSE, None)


def test_a_single_round_gives_a_provisional_verdict():
    random = np.random.default_rng(0)
    rounds = [random.normal(level, 500, (1, 200)) for level in (1e5, 1.2e5)]
    found = only(held([case("g", rounds[0])], [case("g", rounds[1])]))
    assert (found.verdict, found.gate_metric.provisional) == (Verdict.SLOWER, True)
    assert found.gate_metric.unit == "iteration"


def test_time_that_moved_with_the_clock_is_the_clocks():
    def at(clock_mhz, seed):
        samples = steady(np.random.default_rng(seed), 1e9 / clock_mhz)
        return case(
            "g", [round_(n, {"device_ns": s}, clock_mhz=clock_mhz) for n, s in enumerate(samples)]
        )

    found = only(held([at(2000, 0)], [at(1800, 1)]))
    assert found.verdict is Verdict.CLOCK
    assert "the clock did" in found.reason


def test_documents_are_the_unit_from_three_a_side():
    def repeats(label, factor):
        documents = [
            document([quiet(factor * MS * (1 + 0.01 * n), seed=n)], run_id=f"{label}{n}")
            for n in range(3)
        ]
        return side(label, *documents)

    metric = only(compare(repeats("a", 1), [repeats("b", 1.01)], Policy())).gate_metric
    assert (metric.unit, metric.base_rounds, metric.verdict) == ("document", 3, Verdict.UNCLEAR)


def suites(label, movement):
    """Three documents of forty cases; the documents of a side share a movement."""
    documents = []
    for number in range(3):
        random = np.random.default_rng(hash((label, number)) % 2**32)
        level = MS * (1 + movement) * (1 + 0.002 * number)
        cases = [case(f"g{n}", steady(random, level * (1 + n / 10))) for n in range(40)]
        documents.append(document(cases, run_id=f"{label}{number}"))
    return side(label, *documents)


def test_a_common_movement_is_part_of_every_ratio_and_a_row_of_its_own():
    found = compare(suites("a", 0.0), [suites("b", 0.05)], Policy())
    assert found.counts[Verdict.SLOWER] == 40
    (movement,) = found.movements
    assert (movement.verdict, movement.cases) == (Verdict.SLOWER, 40)
    assert found.cases[0].gate_metric.ratio == pytest.approx(1.05, abs=0.01)


def test_one_number_leads_and_a_common_movement_has_no_second_one():
    found = compare(suites("a", 0.0), [suites("b", 0.05)], Policy())
    assert ["Most cases moved together: environment, or a change of the whole build"] == (
        words.movement_texts(found)
    )
    still = compare(suites("a", 0.0), [suites("b", 0.0)], Policy())
    assert [] == words.movement_texts(still)


@pytest.mark.parametrize(
    ("ran", "told"),
    [
        ([5, 5], "5 rounds, "),
        ([2, 4], "2 to 4 of 5 rounds, "),
        ([3, 3], "3 of 5 rounds, "),
    ],
)
def test_a_side_tells_the_rounds_that_ran(ran, told):
    random = np.random.default_rng(3)
    cases = [case(f"g{n}", steady(random, MS)[:count]) for n, count in enumerate(ran)]
    facts = words.side_facts(side("a", document(cases, settings={"rounds": 5})))
    assert facts["sampling"].startswith(told)


@pytest.mark.parametrize("fail_on", [{"slower"}, {"broken"}, set()])
def test_a_common_movement_gates_whatever_the_list_names(fail_on):
    policy = Policy(fail_on=frozenset(fail_on), threshold_ratio=0.01)
    found = compare(suites("a", 0.0), [suites("b", 0.3)], policy)
    assert "suite" in [news.name for news in found.bad_news]
    assert conclude(found).exit_code == 2


def test_a_common_movement_can_be_allowed_by_its_name():
    policy = Policy(fail_on=frozenset(), allow=(Allowance("suite"),))
    assert conclude(compare(suites("a", 0.0), [suites("b", 0.3)], policy)).exit_code == 0


def test_no_verdict_contradicts_the_ratio_of_the_values_beside_it():
    found = compare(suites("a", 0.0), [suites("b", 0.05)], Policy())
    for one in found.cases:
        metric = one.gate_metric
        assert metric.ratio == pytest.approx(metric.other / metric.base)


def test_the_suite_number_is_told_by_family_and_engine():
    def cases(factor):
        return [
            quiet(factor * MS, seed=1, fingerprint="1", family="conv"),
            quiet(MS, seed=2, fingerprint="2", family="relu"),
        ]

    found = {(n.scope, n.name): n for n in held(cases(1), cases(1.1)).suite}
    assert found["family", "conv"].ratio == pytest.approx(1.1, rel=1e-3)
    assert found["family", "relu"].ratio == pytest.approx(1.0, rel=1e-3)
    assert found["all", "all"].ratio == pytest.approx(math.sqrt(1.1), rel=1e-3)
    assert found["engine", "numpy"].count == 2


def test_false_discoveries_are_controlled_over_all_other_sides():
    base = side("a", document([quiet()], run_id="a"))
    others = [side(f"b{n}", document([quiet(seed=n)], run_id=f"{n}")) for n in range(1, 9)]
    alone = only(compare(base, others[:1], Policy())).gate_metric
    among = compare(base, others, Policy()).cases[0].gate_metric
    assert among.p == alone.p
    assert among.q >= alone.q


@pytest.mark.parametrize(
    ("status", "expected"),
    [("failed", Verdict.BROKEN), ("unsupported", Verdict.NEWLY_UNSUPPORTED)],
)
def test_a_case_that_stopped_working_is_bad_news(status, expected):
    found = held([quiet()], [case("g", status=status)])
    assert (only(found).verdict, conclude(found).exit_code) == (expected, 2)


def test_a_removed_case_is_bad_news_though_others_are_fine():
    found = held([quiet(), quiet(fingerprint="x")], [quiet(seed=1)])
    assert conclude(found).exit_code == 2


def test_a_newly_wrong_case_is_still_timed():
    found = held([quiet(validation=validation())], [quiet(validation=validation("failed", 1))])
    assert (only(found).verdict, only(found).gate) == (Verdict.NEWLY_WRONG, "e2e_ns")
    assert "wrong" in {note.kind for note in only(found).notes}


@pytest.mark.parametrize("pattern", ["g", "g*", fingerprint("g")])
def test_bad_news_can_be_allowed_by_name(pattern):
    allowed = Policy(allow=(Allowance(pattern),))
    found = held([quiet()], [case("g", status="failed")], allowed)
    assert (found.bad_news[0].allowed, conclude(found).exit_code) == (True, 0)


@pytest.mark.parametrize("pattern", ["c0001", "c*"])
def test_bad_news_is_not_allowed_by_the_number_of_its_row(pattern):
    allowed = Policy(allow=(Allowance(pattern),))
    found = held([quiet()], [case("g", status="failed")], allowed)
    assert (found.bad_news[0].allowed, conclude(found).exit_code) == (False, 2)


def test_an_allowance_for_one_verdict_does_not_cover_another():
    allowed = Policy(allow=(Allowance("g", Verdict.SLOWER),))
    assert conclude(held([quiet()], [case("g", status="failed")], allowed)).exit_code == 2


def test_nothing_in_common_is_no_answer():
    found = held([quiet(fingerprint="1")], [case("h", fingerprint="2")])
    assert conclude(found).exit_code == 1
    assert "no case in common" in found.problems[0]


def test_a_device_time_that_is_lost_is_bad_news_and_what_is_measured_is_said():
    device = case("g", [round_(n, {"device_ns": [5] * 20}) for n in range(5)])
    found = held([device], [quiet()])
    assert conclude(found).exit_code == 2
    assert "base has device_ns, other has e2e_ns" in found.problems[0]


def test_cases_that_nobody_measured_are_no_answer():
    found = held([case("g", status="failed")], [case("g", status="failed")])
    assert conclude(found).exit_code == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 1),
        ({"allow": (Allowance("timer"),)}, 0),
        ({"allow": (Allowance("timer"),), "strict": True}, 1),
    ],
)
def test_settings_that_must_agree_and_differ_are_no_answer_unless_they_are_allowed(
    changes, expected
):
    policy = replace(QUIET, **changes)
    found = held([quiet()], [quiet(seed=1)], policy, settings={"timer": "cupti"})
    assert (found.differences[0].name, found.differences[0].must_agree) == ("timer", True)
    answer = conclude(found)
    assert answer.exit_code == expected
    assert ("timer differs" in answer.line) == bool(expected)


def test_a_slow_down_measured_in_another_way_is_still_bad_news():
    found = held([quiet()], [quiet(2 * MS, seed=1)], settings={"timer": "cupti"})
    assert conclude(found).exit_code == 2


def test_another_kind_of_device_is_a_difference_that_matters():
    found = held([quiet()], [quiet()], engines=[engine("numpy", device_kind="gpu")])
    assert [d.name for d in found.differences if d.must_agree] == ["device kind"]


def test_the_same_name_with_another_meaning_is_incomparable_and_loud():
    found = held([quiet(fingerprint="1")], [quiet(fingerprint="2")], Policy(strict=True))
    assert (only(found).verdict, conclude(found).exit_code) == (Verdict.INCOMPARABLE, 1)
    assert any("another meaning" in warning for warning in found.warnings)


def test_a_graph_may_have_a_threshold_of_its_own():
    policy = Policy(rules=(GraphRule("g*", 0.5),))
    assert only(held([quiet()], [quiet(1.05 * MS, seed=1)], policy)).verdict is Verdict.SAME


def test_a_metric_can_be_made_to_gate():
    memory = [quiet(memory=Memory(peak, None, None)) for peak in (100, 200)]
    policy = Policy(fail_on=frozenset({"peak_bytes"}))
    found = held([memory[0]], [memory[1]], policy)
    assert [(news.metric, news.verdict) for news in found.bad_news] == [
        ("peak_bytes", Verdict.WORSE)
    ]


def test_an_unfinished_run_is_said_first():
    assert "not finished" in held([quiet()], [quiet(seed=1)], complete=False).warnings[0]


def test_records_that_were_lost_to_damage_are_said():
    lost = "line 7 of the journal (412 bytes) is damaged and was left out"
    found = held([quiet()], [quiet(seed=1)], notes=(lost,))
    assert found.warnings[0].endswith(lost)


LEVELS = st.sampled_from([0.9, 0.99, 1.0, 1.005, 1.05, 2.0])
STATES = st.sampled_from(["completed"] * 5 + ["failed"])


@pytest.mark.long
@given(st.lists(st.tuples(LEVELS, STATES), min_size=1, max_size=6), st.integers(0, 9))
@settings(max_examples=examples(30), deadline=None)
def test_swapping_the_sides_swaps_every_verdict(cases, seed):
    random = np.random.default_rng(seed)
    base = [case(f"g{n}", steady(random, MS)) for n in range(len(cases))]
    other = [
        case(f"g{n}", steady(random, level * MS) if state == "completed" else (), status=state)
        for n, (level, state) in enumerate(cases)
    ]
    there, back = held(base, other), held(other, base)
    for one, two in zip(there.cases, back.cases, strict=True):
        assert swapped(one.verdict) is two.verdict
        if one.gate_metric is not None:
            assert one.gate_metric.ratio == pytest.approx(1 / two.gate_metric.ratio)


def test_a_few_cases_have_no_common_movement_that_gates():
    found = held([quiet()], [quiet(1.05 * MS, seed=1)], Policy(fail_on=frozenset()))
    assert (only(found).verdict, conclude(found).exit_code) == (Verdict.SLOWER, 0)


@pytest.mark.parametrize(
    ("base", "other"),
    [
        ([], []),
        ([quiet()], []),
        ([case("g")], [case("g")]),
        ([case("g", [[5]])], [case("g", [[6]])]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_too_little_to_judge_is_no_alarm_and_no_warning(base, other):
    found = held(base, other)
    assert found.counts[Verdict.SLOWER] == found.counts[Verdict.FASTER] == 0


def restless(label, levels, run_id):
    """Rounds on `levels`, as on a machine whose neighbours come and go."""
    random = np.random.default_rng(0)
    times = np.array(levels)[:, None] * MS * np.exp(random.normal(0, 0.001, (5, 20)))
    rounds = [round_(n, {"e2e_ns": row}) for n, row in enumerate(times.astype(np.int64))]
    return side(label, document([case("g", rounds)], run_id=run_id))


SLOW, FAST = (1.2, 1.3, 1.25, 1.15, 1.2), (1.1, 1.0, 1.05, 1.0, 1.1)


def test_sides_of_one_document_took_turns_and_are_told_apart():
    found = compare(restless("a", FAST, "1"), [restless("b", SLOW, "1")], Policy())
    assert only(found).verdict is Verdict.SLOWER


def test_what_does_not_decide_is_not_warned_of():
    def both(label):
        random = np.random.default_rng(3)
        quiet = random.normal(MS, MS / 1000, (5, 20)).astype(np.int64)
        rounds = [
            round_(n, {"device_ns": quiet[n], "e2e_ns": (level * quiet[n]).astype(np.int64)})
            for n, level in enumerate(SLOW)
        ]
        return side(label, document([case("g", rounds)], run_id=label))

    found = compare(both("a"), [both("b")], Policy())
    assert found.gate == "device_ns"
    assert found.warnings == ()


def test_events_that_were_corrected_in_another_way_are_not_held_against_each_other():
    """The level of a short kernel moved by the correction, not by the kernel."""

    def made(level_ns, bound_ns, seed):
        rounds = on_device(steady(np.random.default_rng(seed), level_ns))
        timed = {"device_timing": "gated events", "device_bound_ns": bound_ns}
        return case("g", [replace(one, **timed) for one in rounds])

    before, after = made(2_500, 700.0, 0), made(2_000, 200.0, 1)
    assert only(held([before], [after])).verdict is Verdict.UNCLEAR
    alike = made(2_500, 200.0, 0)
    assert only(held([alike], [after])).verdict is Verdict.FASTER
