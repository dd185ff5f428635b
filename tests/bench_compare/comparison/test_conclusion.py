"""The answer in one line and its exit code, from the comparison alone."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from bench_compare.comparison.compare import compare
from bench_compare.comparison.reasons import USUAL_RATIO, conclude, run_again
from bench_compare.model import Invocation, Verdict
from bench_compare.policy import Allowance, Policy, UnclearLimit
from bench_run.options import Options
from tests.bench_compare.build import case, document, side, steady, validation
from tests.bench_compare.report.shown import render


def cases(seed, factor=1.0, count=4, **changes):
    random = np.random.default_rng(seed)
    return [case(f"g{n}", steady(random, factor * 1e6), **changes) for n in range(count)]


def noisy(seed, factor=1.0, count=4):
    random = np.random.default_rng(seed)
    levels = np.rint(factor * 1e6 * random.lognormal(0, 0.5, (count, 5, 1))).astype(int)
    return [case(f"g{n}", list(some.repeat(20, axis=1))) for n, some in enumerate(levels)]


QUIET = Policy(floor_sd=0.001)
"""Of documents that differ by as little as those of a device."""


def held(base, other, policy=None, **changes):
    return compare(
        side("before", document(base, run_id="a", **changes)),
        [side("after", document(other, run_id="b", **changes))],
        policy or QUIET,
    )


def invoked(comparison, **changes):
    return replace(comparison, invocation=Invocation(**changes))


def test_a_pass_says_what_could_have_been_seen():
    found = conclude(held(cases(1), cases(2)))
    assert (found.word, found.exit_code, found.hint) == ("PASS", 0, None)
    assert found.sentence == "4 cases, none slower by more than 1 %"


def test_a_pass_says_what_is_open_and_how_much_that_can_hide():
    base, other = cases(1, count=12), cases(2, 1.004, count=12)
    found = conclude(held(base, other, replace(QUIET, floor_sd=0.002)))
    assert found.word == "PASS"
    shown = re.match(
        r"(\d+) of 12 cases are not slower by more than 1 %; (\d+) open", found.sentence
    )
    assert 12 == int(shown[1]) + int(shown[2])
    assert "(none can be slower by more than 1." in found.sentence


def test_a_failure_counts_and_names_the_worst():
    other = [*cases(2, 1.1, 2), *cases(3, 1.3)[2:3], *cases(4)[3:]]
    found = conclude(held(cases(1), other))
    assert (found.word, found.exit_code) == ("FAIL", 2)
    assert found.sentence == "3 of 4 slower (worst 1.3×, g2), threshold 1 %"


def test_each_kind_of_bad_news_is_counted_worst_first():
    good = cases(1)
    other = [
        case("g0", status="failed"),
        replace(cases(2)[1], validation=validation("failed", 3)),
        cases(2, 1.2)[2],
    ]
    checked = [good[0], replace(good[1], validation=validation()), *good[2:]]
    assert conclude(held(checked, other)).sentence == (
        "1 broken (g0), 1 newly wrong (g1), 1 removed (g3), 1 of 4 slower (1.2×, g2), threshold 1 %"
    )


def test_a_common_movement_is_named():
    found = conclude(held(cases(1, count=12), cases(2, 1.1, 12)))
    assert "12 of 12 slower" in found.sentence
    assert "median of all cases 1.1× slower" in found.sentence


def test_two_engines_are_compared_and_no_build_is_blamed():
    other = [replace(one, engine="torch") for one in cases(2, 1.2, 12)]
    (movement, *_) = held(cases(1, count=12), other).movements
    assert movement.reason.endswith(": a comparison of engines, torch against numpy")
    (movement, *_) = held(cases(1, count=12), cases(2, 1.2, 12)).movements
    assert movement.reason.endswith(": environment, or a change of the whole build")


def test_what_is_allowed_passes_and_is_said():
    policy = replace(QUIET, allow=(Allowance("g1"),))
    base, other = cases(1), [cases(2)[0], cases(2, 1.2)[1], *cases(2)[2:]]
    assert conclude(held(base, other, policy)).line == (
        "PASS: 3 of 4 cases are not slower by more than 1 %; 1 slower (allowed)"
    )


def test_what_the_policy_does_not_count_is_said():
    found = conclude(held(cases(1), cases(2, 1.2), replace(QUIET, fail_on=frozenset())))
    assert found.line == (
        "PASS: 0 of 4 cases are not slower by more than 1 %; 4 slower (not counted)"
    )


def test_all_unclear_is_no_answer():
    found = conclude(held(noisy(1), noisy(2)))
    assert (found.word, found.exit_code) == ("UNDECIDED", 1)
    assert "all 4 measured cases are unclear at 1 % (none can be slower by more " in (
        found.sentence
    )


def test_the_rows_are_shown_where_all_are_unclear_and_hidden_where_some_are_not():
    unclear, same = held(noisy(1), noisy(2)), held(cases(1), cases(2))
    texts = [render("text", comparison) for comparison in (unclear, same)]
    assert [4, 0] == [sum(f" g{n} " in text for n in range(4)) for text in texts]


def test_no_answer_may_be_allowed_and_stays_undecided():
    found = conclude(invoked(held(noisy(1), noisy(2)), allow_no_answer=True))
    assert (found.word, found.exit_code) == ("UNDECIDED", 0)


def test_a_failure_is_not_allowed_with_it():
    found = conclude(invoked(held(cases(1), cases(2, 1.2)), allow_no_answer=True))
    assert (found.word, found.exit_code) == ("FAIL", 2)


def test_some_unclear_among_decided_ones_pass_and_are_counted():
    base = [*cases(1, count=12), *noisy(1, count=1)]
    other = [*cases(2, count=12), *noisy(2, count=1)]
    base[-1], other[-1] = (
        replace(one, graph=replace(one.graph, name="n", fingerprint="n"))
        for one in (base[-1], other[-1])
    )
    comparison = held(base, other)
    assert comparison.counts[Verdict.UNCLEAR] == 1
    assert "; 1 open (none can be slower by more than " in conclude(comparison).line
    strict = held(base, other, replace(QUIET, max_unclear=UnclearLimit(0)))
    assert conclude(strict).line.startswith("UNDECIDED: --max-unclear 0: 1 of 13 measured cases")


def test_a_file_that_was_passed_over_is_no_answer_but_hides_no_failure():
    text = "results/x.json: passed over, it holds no results"
    undecided = conclude(invoked(held(cases(1), cases(2)), passed_over=(text, "y")))
    assert undecided.line == f"UNDECIDED: {text} (and 1 more)"
    failed = conclude(invoked(held(cases(1), cases(2, 1.2)), passed_over=(text,)))
    assert failed.word == "FAIL"


def test_nothing_in_common_is_undecided_not_removed():
    found = conclude(held(cases(1), [case("other", fingerprint="o")]))
    assert found.line.startswith("UNDECIDED: nothing compared")


def test_what_is_gone_fails_though_no_other_case_is_measured():
    crashed = [case("g0", status="crashed")]
    found = conclude(held([*crashed, case("g1")], crashed))
    assert found.line == "FAIL: 1 removed (g1)"


def test_lost_times_are_bad_news_and_cannot_be_allowed_as_no_answer():
    found = conclude(invoked(held(cases(1), [case("g0")]), allow_no_answer=True))
    assert found.exit_code == 2


@pytest.mark.parametrize("word", ["slower", "none"])
def test_a_crash_fails_whatever_is_asked(word):
    policy = Policy(fail_on=frozenset({word} - {"none"}))
    found = conclude(held(cases(1), [case("g0", status="crashed"), *cases(2)[1:]], policy))
    assert found.word == "FAIL"


COMMAND = ("bench-run", "graphs/", "--label", "after", "-o", "after.json")


PAIRS = "--a numpy --b numpy --until decided"


def test_the_hint_measures_both_sides_in_pairs_until_they_are_decided():
    assert conclude(held(noisy(1), noisy(2), command=COMMAND)).hint == (
        f"bench-run --rerun-from after0.json {PAIRS} -o after0-pairs.json "
        "&& bench-compare after0-pairs.json --group-by engine"
    )


def test_the_hint_has_the_threshold_of_the_comparison():
    found = held(noisy(1), noisy(2), Policy(threshold_ratio=0.05), command=COMMAND)
    assert f"{PAIRS} --threshold 5% -o" in conclude(found).hint


def on_host(name, cases, run_id, libraries=None, **changes):
    one = document(cases, run_id=run_id, command=COMMAND, **changes)
    engines = tuple(replace(engine, **(libraries or {})) for engine in one.engines)
    return replace(one, machine=replace(one.machine, host=name), engines=engines)


def test_a_build_that_was_replaced_is_measured_from_a_place_of_its_own():
    old, new = ({"libraries": {"numpy": version}} for version in ("1", "2"))
    base = side("a", on_host("h", noisy(1), "a", old))
    other = side("b", on_host("h", noisy(2), "b", new))
    found = conclude(compare(base, [other], Policy()))
    assert "--a numpy+python=OLD/bin/python --b numpy --until decided" in found.hint


def test_documents_of_several_engines_are_repeated_on_both_sides():
    both = [
        [*noisy(seed), *(replace(one, engine="torch") for one in noisy(seed + 9))]
        for seed in (1, 2)
    ]
    sides = [side(n, on_host("h", cases, n)) for n, cases in zip("ab", both, strict=True)]
    assert conclude(compare(sides[0], [sides[1]], Policy())).hint == (
        "for n in 1 2 3; do bench-run --rerun-from a0.json -o a0-more-$n.json; "
        "bench-run --rerun-from b0.json -o b0-more-$n.json; done; "
        "bench-compare --a a0.json --a 'a0-more-*.json' --b b0.json --b 'b0-more-*.json'"
    )


def test_further_repeats_go_on_counting():
    sides = []
    for name, seed in (("a", 1), ("b", 2)):
        documents = []
        for n in range(seed, seed + 60, 20):
            cases = [*noisy(n), *(replace(one, engine="torch") for one in noisy(n + 9))]
            documents.append(on_host("h", cases, f"{name}{n}"))
        made = side(name, *documents)
        names = [f"{name}.json.zst", f"{name}-more-1.json", f"{name}-more-2.json"]
        sources = [replace(one, path=path) for one, path in zip(made.sources, names, strict=True)]
        sides.append(replace(made, sources=tuple(sources)))
    hint = conclude(compare(sides[0], [sides[1]], Policy())).hint
    assert hint.startswith("for n in 3 4 5; do bench-run --rerun-from a-more-2.json -o a-more-$n")
    assert hint.endswith("--a a.json.zst --a 'a-more-*.json' --b b.json.zst --b 'b-more-*.json'")


def test_documents_of_two_hosts_are_repeated_where_the_newer_one_was_made():
    base, other = (side(n, on_host(n, noisy(s), n)) for n, s in (("a", 1), ("b", 2)))
    found = conclude(compare(base, [other], Policy())).hint
    assert found == "bench-run --rerun-from b0.json -o b0-again.json"


@pytest.mark.parametrize(
    ("name", "next_one"),
    [("b", "b-again"), ("b-again", "b-again-2"), ("b-again-2", "b-again-3"), ("b-3", "b-3-again")],
)
def test_a_repeat_of_a_repeat_has_a_number(name, next_one):
    found = run_again(COMMAND, f"x/{name}.json.gz")
    assert found == f"bench-run --rerun-from x/{name}.json.gz -o x/{next_one}.json"


@pytest.mark.parametrize("word", ["tune", "judge"])
def test_a_document_of_another_command_has_none_that_measures_it_again(word):
    found = held(noisy(1), noisy(2), command=("bench-run", word, "graphs/"))
    assert conclude(found).hint is None


def test_both_commands_have_one_usual_threshold():
    """So the hint names only another one."""
    assert Options.threshold_ratio == USUAL_RATIO


def test_the_hint_uses_the_record_that_was_written():
    found = invoked(held(noisy(1), noisy(2), command=COMMAND), record="diff.json")
    assert conclude(found).hint == (
        f"bench-run --rerun-from diff.json {PAIRS} -o after0-pairs.json "
        "&& bench-compare after0-pairs.json --group-by engine"
    )


def test_two_engines_are_measured_in_turn_until_decided():
    base = side("a", document(noisy(1), run_id="a", command=COMMAND))
    other = [replace(one, engine="torch") for one in noisy(2)]
    compared = compare(base, [side("b", document(other, run_id="b", command=COMMAND))], Policy())
    assert conclude(compared).hint == (
        "bench-run --rerun-from b0.json --a numpy --b torch --until decided -o b0-pairs.json "
        "&& bench-compare b0-pairs.json --group-by engine"
    )


def test_a_line_is_one_line_and_short_numbers():
    for comparison in (held(noisy(1), noisy(2, 50.0)), held(cases(1), cases(2, 12345.0))):
        assert "e+" not in conclude(comparison).line
        assert "\n" not in conclude(comparison).line


@pytest.mark.parametrize("complete", [True, False])
def test_cases_of_a_run_that_has_not_ended_are_not_removed(complete):
    before = side("before", document(cases(1), run_id="a"))
    after = side("after", document(cases(2)[:2], run_id="b", complete=complete))
    found = compare(before, [after], Policy())
    verdicts = [case.verdict for case in found.cases if case.other is None]
    assert [Verdict.REMOVED if complete else Verdict.UNMEASURED] * 2 == verdicts
    told = conclude(found)
    assert ("FAIL" if complete else "UNDECIDED") == told.word
    assert complete == ("2 removed (g2 and 1 more)" in told.sentence)
    assert complete != ("2 of 4 cases not measured yet: " in told.sentence)


def test_a_second_run_that_has_not_ended_leaves_its_cases_open():
    before = side("before", document(cases(1), run_id="a"), document(cases(3), run_id="b"))
    whole, begun = (
        document(cases(2), run_id="c"),
        document(cases(4)[:2], run_id="d", complete=False),
    )
    found = compare(before, [side("after", whole, begun)], Policy())
    assert {Verdict.SAME, Verdict.UNCLEAR} >= {case.verdict for case in found.cases}
    told = conclude(found)
    assert told.exit_code == 1
    assert "2 of 4 cases not measured yet: " in told.sentence
