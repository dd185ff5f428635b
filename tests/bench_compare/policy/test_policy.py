"""Text to policy, and what a policy says."""

from __future__ import annotations

import pytest

from bench_compare.errors import UsageError
from bench_compare.model import Verdict
from bench_compare.policy import (
    DEFAULT_FAIL_ON,
    Allowance,
    GraphRule,
    Policy,
    fits,
    parse_allow,
    parse_fail_on,
    parse_policy,
    parse_ratio,
    parse_thresholds,
    parse_verdict,
    read_policy,
)


@pytest.mark.parametrize(("text", "expected"), [("1%", 0.01), ("0.5 %", 0.005), ("0.02", 0.02)])
def test_shares_are_written_with_or_without_a_percent_sign(text, expected):
    assert parse_ratio(text, "--threshold") == pytest.approx(expected)


def test_a_whole_number_may_be_percent_or_factor_and_is_asked_about():
    with pytest.raises(UsageError, match=r"--threshold: 5 of what\? Write 5% or 0.05"):
        parse_ratio("5", "--threshold")


@pytest.mark.parametrize("text", ["", "x", "100", "0", "-1%", "100%", "nan", "inf"])
def test_shares_that_are_none_are_refused_with_the_flag(text):
    with pytest.raises(UsageError, match="--threshold: "):
        parse_ratio(text, "--threshold")


def test_thresholds_are_general_or_of_a_metric():
    assert parse_thresholds(["2%", "init_ns=20%"], "x") == (0.02, {"init_ns": 0.2})


def test_an_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="no metric 'time'; choose from device_ns, "):
        parse_thresholds(["time=2%"], "--threshold")


def test_the_general_threshold_is_that_of_times_and_rates():
    policy = Policy(threshold_ratio=0.05)
    found = [policy.threshold(name) for name in ("e2e_ns", "tflops", "init_ns", "max_error")]
    assert found == [0.05, 0.05, 0.1, 0.5]


def test_a_later_rule_for_a_graph_wins():
    policy = Policy(rules=(GraphRule("conv*", 0.1), GraphRule("conv_1", 0.2, "e2e_ns")))
    assert policy.thresholds("e2e_ns", ["conv_1", "conv_2", "relu"]) == [0.2, 0.1, 0.01]
    assert policy.thresholds("device_ns", ["conv_1"]) == [0.1]


def test_a_name_with_brackets_fits_itself():
    assert fits("g[0]", "g[0]")
    assert not fits("g1", "g[0]")


@pytest.mark.parametrize("word", ["newly wrong", "newly-wrong", "newly_wrong"])
def test_verdicts_are_read_however_they_are_joined(word):
    assert parse_verdict(word, "x") is Verdict.NEWLY_WRONG


def test_fail_on_takes_verdicts_metrics_and_the_suite_beside_the_default():
    assert {*DEFAULT_FAIL_ON, "clock", "init_ns"} == parse_fail_on(["clock", "init_ns"], "x")
    assert Policy().fail_on == parse_fail_on([], "x")


def test_fail_on_adds_to_what_a_file_says():
    assert {"slower", "init_ns"} == parse_fail_on(["init_ns"], "x", frozenset({"slower"}))


@pytest.mark.parametrize("words", [["only:clock", "init_ns"], ["init_ns", "only:clock"]])
def test_fail_on_only_replaces_the_default(words):
    assert {"clock", "init_ns"} == parse_fail_on(words, "x")


def test_fail_on_none_leaves_nothing_but_what_is_always_bad():
    assert frozenset() == parse_fail_on(["none"], "x")


def test_an_unknown_verdict_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="no verdict 'slow'; choose from faster, slower"):
        parse_fail_on(["slow"], "--fail-on")


def test_an_allowance_may_name_a_verdict_and_a_name_may_hold_an_equals_sign():
    assert parse_allow("g=slower", "x") == Allowance("g", Verdict.SLOWER)
    assert parse_allow("k=1", "x") == Allowance("k=1")


PRINT = "c0ffee" + 58 * "0"


@pytest.mark.parametrize("pattern", ["conv_1", "conv*", "*", PRINT, PRINT[:12]])
def test_a_graph_is_allowed_by_its_name_a_glob_of_it_or_its_fingerprint(pattern):
    policy = Policy(allow=(Allowance(pattern),))
    assert policy.allows(["conv_1"], [PRINT], Verdict.SLOWER)


@pytest.mark.parametrize("pattern", ["c*", "c0001", PRINT[:11], f"{PRINT[:12]}*", "relu"])
def test_a_graph_is_not_allowed_by_what_is_not_its_name(pattern):
    policy = Policy(allow=(Allowance(pattern),))
    assert not policy.allows(["matmul"], [PRINT], Verdict.SLOWER)


def test_no_glob_means_the_suite():
    policy = Policy(allow=(Allowance("s*"),))
    assert not policy.allows_word("suite", Verdict.SLOWER)
    assert Policy(allow=(Allowance("suite"),)).allows_word("suite", Verdict.SLOWER)


def test_a_file_says_all_that_flags_say(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(
        """
        threshold = "2%"
        fail-on = ["only:slower", "suite"]
        allow = ["old*"]
        noise-floor = "0.5%"
        [thresholds]
        init_ns = "20%"
        [[graph]]
        name = "conv_*"
        threshold = "3%"
        metric = "device_ns"
        """,
        encoding="utf-8",
    )
    assert read_policy(path) == Policy(
        threshold_ratio=0.02,
        metric_thresholds={"init_ns": 0.2},
        rules=(GraphRule("conv_*", 0.03, "device_ns"),),
        fail_on=frozenset({"slower", "suite"}),
        allow=(Allowance("old*"),),
        floor_sd=0.005,
    )


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"treshold": "1%"}, "no key 'treshold'; choose from threshold"),
        ({"graph": [{"name": "g"}]}, "graph 1: threshold is missing"),
        ({"graph": [{"name": "g", "threshold": "1%", "x": 1}]}, "graph 1: no key 'x'"),
        ({"fail-on": "slower"}, "fail-on: a list of texts is expected"),
        ({"thresholds": {"e2e": "1%"}}, "thresholds: no metric 'e2e'"),
        ({"graph": "conv"}, "graph: a list of tables is expected"),
        ({"thresholds": "1%"}, "thresholds: a table is expected"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(table, sentence):
    with pytest.raises(UsageError, match=r"p\.toml") as error:
        parse_policy(table, "--policy: p.toml")
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a = ", "not TOML"),
        (b"a = " + b"[" * 5000, "not TOML"),
        (b"\xff\xfe", "not TOML"),
        (None, "No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, content, sentence):
    path = tmp_path / "p.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        read_policy(path)
