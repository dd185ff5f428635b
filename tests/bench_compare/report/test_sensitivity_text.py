import csv
import io

import pytest

from bench_compare.model import View
from bench_compare.report import FORMATS
from tests.bench_compare.report.shown import render


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"csv"}))
def test_every_format_says_what_could_have_been_seen(name, suite):
    text = " ".join(render(name, suite, View(plotlyjs="cdn")).split())
    assert "of 3 % would have been seen in 9 of 10 cases" in text


def test_csv_has_the_smallest_slow_down_of_each_metric(suite):
    text = render("csv", suite, View(filter="pointwise"))
    row = next(csv.DictReader(io.StringIO(text)))
    assert f"{1.01 / (1 - 0.004):.6f}" == f"{float(row['seen_from_ratio']):.6f}"
