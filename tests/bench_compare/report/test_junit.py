import xml.etree.ElementTree as ET
from dataclasses import replace

from bench_compare.model import BadNews, Invocation, Verdict
from tests.bench_compare.report.shown import render


def results(comparison):
    """What became of each test, by its name."""
    root = ET.fromstring(render("junit", comparison))
    found = {}
    for test in root.iter("testcase"):
        tags = [child.tag for child in test if child.tag in ("failure", "error", "skipped")]
        found[test.get("name")] = tags[0] if tags else "passed"
    return found


def test_what_fails_the_command_fails_its_test(suite):
    found = results(suite)
    bad = {name for name, result in found.items() if result in ("failure", "error")}
    assert {news.name for news in suite.bad_news if not news.allowed} == bad


def test_a_broken_case_is_an_error_and_an_unclear_one_is_skipped(suite):
    found = results(suite)
    assert ("error", "skipped") == (found["sdpa_b4_h32_s2048_d128"], found["matmul_m4096_n4096"])


def test_allowed_bad_news_passes_and_is_told(suite):
    assert "passed" == results(suite)["layernorm_t8192_h4096"]
    assert "allowed: layernorm_t8192_h4096" in render("junit", suite)


def test_the_counts_are_those_of_the_tests(suite):
    root = ET.fromstring(render("junit", suite))[0]
    assert ["10", "3", "1", "1"] == [
        root.get(k) for k in ("tests", "failures", "errors", "skipped")
    ]


def test_the_suite_as_a_whole_is_a_test(make):
    news = BadNews(None, "suite", "device_ns", Verdict.SLOWER, "all cases 2 % slower", False)
    assert {"suite": "failure"} == results(make.comparison([], bad_news=(news,)))


def test_a_question_without_answer_is_an_error(make):
    found = results(make.comparison([], problems=("nothing compared",)))
    assert {"problem 1": "error"} == found


def test_a_question_that_may_stay_without_answer_is_skipped(make):
    comparison = make.comparison([], problems=("nothing compared",))
    allowed = replace(comparison, invocation=Invocation(allow_no_answer=True))
    assert {"problem 1": "skipped"} == results(allowed)


def test_hostile_names_stay_inside_their_attributes(hostile_suite):
    assert 8 == len(results(hostile_suite))
