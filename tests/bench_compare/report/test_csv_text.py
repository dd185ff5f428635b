import csv
import io
from dataclasses import replace

import pytest
from bench_schema.packing import FORMULA_STARTS

from bench_compare.model import Verdict, View
from tests.bench_compare.comparison.compositions import composed
from tests.bench_compare.report.shown import render


def rows(comparison, view=None):
    return list(csv.DictReader(io.StringIO(render("csv", comparison, view))))


def test_one_row_for_each_case_and_metric(suite):
    metrics = sum(max(len(case.metrics), 1) for case in suite.cases)
    assert metrics == len(rows(suite))


def test_numbers_come_back_as_they_were(suite):
    slower = suite.cases[1]
    row = next(r for r in rows(suite) if r["id"] == slower.id and r["metric"] == "device_ns")
    assert slower.metrics["device_ns"].ratio == float(row["ratio"])


def test_a_filter_chooses_rows(suite):
    found = rows(suite, View(filter="broken"))
    assert {"sdpa_b4_h32_s2048_d128"} == {row["name"] for row in found}


def test_what_is_unknown_is_empty(make):
    row = rows(make.comparison([make.row(1, "g", Verdict.REMOVED)]))[0]
    assert ("", "") == (row["ratio"], row["base"])


def test_thousands_of_problems_are_counted_and_not_repeated_in_each_row(suite):
    many = replace(suite, problems=tuple(f"g{n}: another data type" for n in range(5000)))
    text = rows(many)[0]["comparison_warnings"]
    assert "g49: another" in text
    assert "g50: another" not in text
    assert "more, which --json tells" in text


def test_no_name_becomes_a_formula(hostile_suite):
    cells = [row["name"] for row in rows(hostile_suite)]
    assert not any(cell.startswith(FORMULA_STARTS) for cell in cells)


@pytest.mark.long
def test_rows_from_columns_are_those_of_each_metric():
    for seed in range(12):
        _, comparison = composed(seed)
        alone = [replace(case, metrics=dict(case.metrics)) for case in comparison.cases]
        assert render("csv", comparison) == render("csv", replace(comparison, cases=alone))
