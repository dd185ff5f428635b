"""`bench_compare.compare`: what a notebook shows, and the values behind it."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from bench_schema import files

import bench_compare
from bench_compare.errors import BenchCompareError
from tests.bench_compare.build import case, document, engine, on_device

NAME = "<script>alert(1)</script> | `x`"


def made(factor, run_id):
    levels = ((NAME, 1000 * factor), ("steady", 1000))
    cases = [
        case(name, on_device([[round(1e3 * level) + n % 3 for n in range(20)] for _ in range(5)]))
        for name, level in levels
    ]
    return document(cases, run_id=run_id, engines=[engine("numpy")])


@pytest.fixture
def result():
    return bench_compare.compare(made(1, "a"), made(1.3, "b"))


def test_documents_in_memory_are_compared(result):
    assert result.word == "FAIL"
    assert {row["case"]: row["verdict"] for row in result.rows()} == {
        NAME: "slower",
        "steady": "same",
    }


def test_files_and_documents_are_the_same(result, tmp_path):
    for name, factor in (("a", 1), ("b", 1.3)):
        files.save(tmp_path / f"{name}.json", made(factor, name))
    again = bench_compare.compare(tmp_path / "a.json", [tmp_path / "b.json"], threshold="1%")
    assert again.rows() == result.rows()


def test_a_frame_has_a_row_a_case(result):
    pytest.importorskip("pandas")
    frame = result.to_frame()
    assert list(frame["verdict"]) == ["slower", "same"]
    assert frame["ratio"][0] == pytest.approx(1.3, rel=1e-3)
    assert frame["ci_low"][0] < 1.3 < frame["ci_high"][0] * 1.001


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def test_a_notebook_shows_a_table_and_runs_no_name(result):
    found = Tags()
    found.feed(result._repr_html_())
    assert "table" in found.tags
    assert "script" not in found.tags
    assert "alert(1)" in found.text
    assert "FAIL: 1 of 2 slower" in found.text


def test_text_and_page_are_those_of_the_command(result, tmp_path):
    assert "FAIL: 1 of 2 slower" in str(result)
    result.html(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 1_000_000


def test_a_threshold_is_a_share_or_words():
    for threshold in (0.5, "50%"):
        found = bench_compare.compare(made(1, "a"), made(1.3, "b"), threshold=threshold)
        assert found.word == "PASS"


def test_a_document_against_itself_is_refused():
    with pytest.raises(BenchCompareError, match="compared with itself"):
        bench_compare.compare(made(1, "a"), made(1, "a"))
