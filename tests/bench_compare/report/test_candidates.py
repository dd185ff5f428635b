"""Candidates of a tuning on the page: which are shown together, and which none beats."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench_compare.report.html.candidates import candidate_groups


def one(variant, time, spread=0.0, error=0.1, workspace=10, energy=None, name="g", ok=True):
    summary = SimpleNamespace(
        median=time, median_ci_low=time - spread, median_ci_high=time + spread
    )
    case = SimpleNamespace(
        outcome=SimpleNamespace(status="completed" if ok else "failed"),
        summary={"device_ns": summary},
        validation=SimpleNamespace(outputs=[SimpleNamespace(relative_l2=error)]),
        memory=SimpleNamespace(workspace_bytes=workspace),
        rounds=[SimpleNamespace(energy_j_per_iteration=energy, series={})],
    )
    side = SimpleNamespace(cases=(case,))
    return SimpleNamespace(
        name=name, other_label="b", engine="e", variant=variant, base=None, other=side
    )


def fronts(*cases):
    (group,) = candidate_groups(cases)
    return {point[0]: point[7] for point in group["points"]}


def test_variants_of_a_graph_are_shown_together_fastest_first():
    (group,) = candidate_groups([one({}, 2.0), one({"plan": "a"}, 1.0)])
    assert ["e plan=a", "e"] == [point[0] for point in group["points"]]


def test_a_graph_without_variants_has_no_candidates():
    assert [] == candidate_groups([one({}, 2.0), one({}, 1.0, name="h")])


def test_one_that_failed_is_no_candidate():
    assert [] == candidate_groups([one({}, 2.0), one({"plan": "a"}, 1.0, ok=False)])


def test_what_is_slower_and_no_better_is_beaten():
    assert {"e": False, "e plan=a": True} == fronts(one({}, 2.0), one({"plan": "a"}, 1.0))


@pytest.mark.parametrize("better", [{"error": 0.05}, {"workspace": 5}])
def test_what_is_better_in_something_else_is_not_beaten(better):
    assert {"e": True, "e plan=a": True} == fronts(one({}, 2.0, **better), one({"plan": "a"}, 1.0))


def test_energy_counts_where_it_is_measured():
    found = fronts(one({}, 2.0, energy=1.0), one({"plan": "a"}, 1.0, energy=2.0))
    assert {"e": True, "e plan=a": True} == found


def test_times_whose_intervals_overlap_beat_nobody():
    found = fronts(one({}, 1.1, 0.2), one({"plan": "a"}, 1.0, 0.2))
    assert {"e": True, "e plan=a": True} == found


class Unread:
    """Rounds of a large document, which are made when somebody looks into them."""

    def __iter__(self):
        raise AssertionError("rounds were looked into")


def test_cases_without_variants_are_not_looked_into():
    cases = [one({}, 1.0, name=f"g{number}") for number in range(3)]
    for case in cases:
        case.other.cases[0].rounds = Unread()
    assert [] == candidate_groups(cases)
