"""A comparison that is shared by processes says what one process says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench_compare.comparison import compare as module
from bench_compare.comparison.compare import compare
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, side, steady
from tests.bench_compare.report.shown import render


def some(label, shift):
    random = np.random.default_rng(3)
    cases = [
        case(
            f"graph {number}",
            steady(random, 1e5 * shift ** (number % 3)),
            init={"plan_ns": np.arange(1, 6) * 1000, "search_ns": np.array([7, 1, 1, 1, 1])},
        )
        for number in range(12)
    ]
    return side(label, document(cases, label, label))


@pytest.mark.parametrize("processes", [1, 2])
def test_the_processes_do_not_show_in_what_is_said(monkeypatch, processes):
    base, other = some("a", 1.0), some("b", 1.1)
    policy = replace(Policy(), details=5)
    whole = compare(base, [other], policy)
    expected = render("json", whole)
    assert 5 == sum(case.detail is not None for case in whole.cases)
    monkeypatch.setattr(module, "LEAST_SHARED", 1)
    monkeypatch.setattr(module, "LEAST_DETAILS", 1)
    monkeypatch.setattr("bench_compare.parallel.process_count", lambda *_: processes)
    assert expected == render("json", compare(base, [other], policy))
