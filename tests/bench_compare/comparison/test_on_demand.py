"""Results that are made when somebody asks for one."""

from __future__ import annotations

import pytest

from bench_compare.comparison.judging.on_demand import CaseMetrics, Results
from bench_compare.model import Verdict


@pytest.fixture
def made():
    return []


@pytest.fixture
def results(made):
    def make(row):
        made.append(row)
        return f"row {row}"

    def column(*held):
        return Results(held, held, [Verdict.SAME] * len(held), make, None)

    return {"device_ns": column(True, True), "e2e_ns": column(False, True)}


def test_a_case_has_the_metrics_that_a_side_of_it_has(results):
    assert [["device_ns"], ["device_ns", "e2e_ns"]] == [
        list(CaseMetrics(results, row)) for row in (0, 1)
    ]


def test_a_metric_that_a_case_has_not_is_none_of_its_metrics(results):
    found = CaseMetrics(results, 0)
    assert (None, False, 1) == (found.get("e2e_ns"), "e2e_ns" in found, len(found))


def test_nothing_is_made_before_it_is_asked_for(results, made):
    found = CaseMetrics(results, 1)
    assert "e2e_ns" in found
    assert made == []
    assert ("row 1", [1]) == (found["e2e_ns"], made)
