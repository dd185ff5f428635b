import pytest
from bench_schema.report.markdown import ROOM, code, prose

from bench_compare.model import Verdict
from tests.bench_compare.report.shown import render


@pytest.mark.long
def test_a_comment_of_ten_thousand_cases_still_fits(make):
    row = make.row(1, "conv_fwd_" + "n" * 80, Verdict.SLOWER, 1.2)
    text = render("markdown", make.comparison([row] * 10_000))
    assert len(text) < ROOM + 1_000
    assert "more" in text


def test_good_news_and_no_news_are_folded(suite):
    text = render("markdown", suite)
    assert text.index("pointwise_add_n4096") < text.index("<details>")
    assert text.index("<details>") < text.index("conv_fwd_n8_c64_h56_w56_k64_r3_s3")


def test_details_are_closed_as_often_as_opened(suite):
    text = render("markdown", suite)
    assert text.count("<details>") == text.count("</details>") == 3


def test_settings_that_must_agree_are_not_folded(suite):
    text = render("markdown", suite)
    assert text.index("**must agree:** cache") < text.index("<details>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a|b", "`a\\|b`"), ("`tick`", "`` `tick` ``"), ("a\nb", "`a\\nb`")],
)
def test_a_name_in_a_table_is_one_code_span(text, expected):
    assert expected == code(text, cell=True)


def test_a_sentence_mentions_nobody_and_opens_no_element():
    assert "@&#8203;someone \\*\\*bold\\*\\* &lt;b&gt;" == prose("@someone **bold** <b>")


def test_hostile_names_open_no_element_outside_code(hostile_suite):
    outside = render("markdown", hostile_suite).split("`")[::2]
    assert not any("<script" in part or "<img" in part for part in outside)
