"""Columns of neighbouring cases say the same as the result of each case."""

import numpy as np
import pytest

from bench_compare.comparison.compare import compare
from bench_compare.comparison.judging.results import known, neighbours
from bench_compare.model import Side, Source
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, steady


def side(label, factor, *, seed, documents=1, rounds=5, names=6):
    random = np.random.default_rng(seed)
    sources = []
    for number in range(documents):
        levels = [1e6 * (factor if index % 2 else 1.0) for index in range(names)]
        cases = [
            case(f"g{index}", steady(random, level, rounds=rounds))
            for index, level in enumerate(levels)
        ]
        one = document(cases, label, run_id=f"{label} {number}")
        sources.append(Source(f"{label}_{number}.json", one, "bench"))
    return Side(label, tuple(sources), ("numpy",))


COMPARED = {
    "rounds": ({}, {}),
    "documents": ({"documents": 3}, {"documents": 3}),
    "few rounds": ({"rounds": 1}, {"rounds": 2}),
    "cases of one side": ({"names": 4}, {"names": 6}),
}


def by_case(comparison, name):
    """Numbers and standing of each case, as its own result has them."""
    found = [one.metrics.get(name) for one in comparison.cases]
    return [
        None
        if m is None
        else (
            (m.base, m.other, m.ratio, m.ci_low, m.ci_high, m.q, m.threshold_ratio),
            (m.base_rounds, m.other_rounds, m.unit, m.provisional, m.rounds_needed),
        )
        for m in found
    ]


@pytest.mark.parametrize("kind", COMPARED)
def test_columns_say_what_each_result_says(kind):
    first, second = COMPARED[kind]
    one = compare(side("a", 1.0, seed=1, **first), [side("b", 1.2, seed=2, **second)], Policy())
    results, rows = neighbours([case.metrics for case in one.cases])
    for name in one.metrics:
        told = results[name].columns.part(rows)
        pairs = zip(zip(*map(known, told.values), strict=True), told.standings, strict=True)
        held = results[name].held[rows]
        assert by_case(one, name) == [
            pair if has else None for pair, has in zip(pairs, held, strict=True)
        ]


def test_cases_against_several_sides_are_no_neighbours():
    others = [side("b", 1.2, seed=2), side("c", 1.0, seed=3)]
    one = compare(side("a", 1.0, seed=1), others, Policy())
    assert neighbours([case.metrics for case in one.cases]) is None
