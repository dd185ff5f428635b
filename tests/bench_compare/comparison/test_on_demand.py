"""Results that are made when somebody asks for one."""

from __future__ import annotations

import numpy as np
import pytest

from bench_compare.comparison.judging.results import (
    CaseMetrics,
    ResultColumns,
    Results,
    every_comparison,
    seen_of,
    verdict_of,
)
from bench_compare.model import MetricComparison, Verdict


@pytest.fixture
def made():
    return []


@pytest.fixture
def results(made):
    def column(*held):
        def make():
            made.append(held)
            standings = [(5, 5, "round", False, None)] * len(held)
            return ResultColumns(
                np.full((7, len(held)), 7.0),
                standings,
                ["round"] * len(held),
                np.array([0.5, 0.1]),
            )

        seen, verdicts = [1.02, None], [Verdict.SAME] * len(held)
        return Results(
            "e2e_ns", held, held, verdicts, seen, held, make, lambda _, row: f"row {row}"
        )

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
    assert (Verdict.SAME, None) == (verdict_of(found, "e2e_ns"), seen_of(found, "e2e_ns"))
    assert made == []
    assert ("row 1", 0.1) == (found["e2e_ns"].reason, found["e2e_ns"].p)
    assert made == [(False, True)]


def test_neighbours_are_told_what_each_is_told(results):
    for one in results.values():
        one.columns.values[2:5, 0] = np.nan
    cases = [CaseMetrics(results, row) for row in (0, 1)]
    asked = [cases[0], cases[1], {"e2e_ns": results["e2e_ns"][1]}, cases[0]]

    def told(metrics):
        names = [name for name in MetricComparison.__struct_fields__ if name != "make_reason"]
        return {k: [*(getattr(m, n) for n in names), m.reason] for k, m in metrics.items()}

    assert [*map(told, asked)] == [*map(told, every_comparison(asked))]
