"""A run that did not reach its end answers for less than its suite: every format says so."""

import csv
import io
import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from bench_compare.model import View
from tests.bench_compare.report.shown import render


@pytest.fixture
def unfinished(suite):
    [after] = suite.others
    [source] = after.sources
    document = replace(source.document, run=replace(source.document.run, complete=False))
    return replace(suite, others=(replace(after, sources=(replace(source, document=document),)),))


def test_json_says_which_document(unfinished):
    record = json.loads(render("json", unfinished, View()))
    assert [True, False] == [
        side["documents"][0]["complete"] for side in (record["base"], *record["others"])
    ]


def test_csv_says_which_side(unfinished, suite):
    for comparison, expected in ((unfinished, {"other"}), (suite, {""})):
        rows = csv.DictReader(io.StringIO(render("csv", comparison, View())))
        assert expected == {row["unfinished"] for row in rows}


def test_junit_has_a_skipped_test_for_the_document(unfinished, suite):
    for comparison, expected in ((unfinished, ["after.json"]), (suite, [])):
        root = ET.fromstring(render("junit", comparison, View()))
        tests = root.iterfind(".//testcase[@classname='documents']")
        assert expected == [test.get("name") for test in tests if test.find("skipped") is not None]
