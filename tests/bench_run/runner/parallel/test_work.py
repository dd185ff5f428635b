"""Lanes share what is left: each round of a case is of other processes, and none ends early."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from bench_run.runner.parallel.baton import CaseRun
from bench_run.runner.parallel.lanes import LaneWork


def case_run(graph, index, engine="numpy", position=0):
    identity = SimpleNamespace(path=f"{graph}.json")
    case = SimpleNamespace(
        id=f"{graph} on {engine}",
        graph=SimpleNamespace(turns_with=None, id=identity),
        engine=SimpleNamespace(key=engine),
    )
    return CaseRun(case, index, position)


def rounds_of(graphs, rounds, engines=("numpy",)):
    return [[case_run(g, r, e) for g in range(graphs) for e in engines] for r in range(rounds)]


def worked_off(work, seconds):
    """Lanes on a clock of their own: by lane, what each of its processes did. `seconds`: of a
    case_run, by case and round."""
    lanes = [{"at": 0.0, "did": [], "round": None} for _ in range(work.lanes)]
    open_lanes = list(lanes)
    while open_lanes:
        lane = min(open_lanes, key=lambda each: each["at"])
        if lane["round"] is None:
            begun = work.begin()
            if begun is None:
                open_lanes.remove(lane)
                continue
            lane["round"] = iter(begun)
            lane["did"].append([])
        group = next(lane["round"], None)
        if group is None:
            lane["round"] = None
            continue
        lane["did"][-1] += group
        lane["at"] += max(seconds(each) for each in group)
    return lanes


@given(
    graphs=st.integers(1, 9),
    rounds=st.integers(1, 6),
    lanes=st.integers(1, 14),
    engines=st.sampled_from([("numpy",), ("numpy", "torch")]),
    seed=st.integers(0, 99),
)
def test_every_visit_is_made_once_and_no_process_has_a_case_twice(
    graphs, rounds, lanes, engines, seed
):
    work = LaneWork(rounds_of(graphs, rounds, engines), lanes)
    done = worked_off(work, lambda v: 1 + hash((v.case.id, v.index, seed)) % 7)
    processes = [did for lane in done for did in lane["did"]]
    made = Counter((v.case.id, v.index) for did in processes for v in did)
    assert set(made.values()) == {1}
    assert len(made) == graphs * rounds * len(engines)
    for did in processes:
        assert len({v.case.id for v in did}) == len(did)


def test_a_lane_that_is_done_helps_with_other_rounds():
    work = LaneWork(rounds_of(8, 2), 4)
    done = worked_off(work, lambda v: 5.0 if v.index else 1.0)
    ends = [lane["at"] for lane in done]
    assert max(ends) - min(ends) <= 5.0
    assert sum(ends) == 8 * 5.0 + 8 * 1.0
    assert any(len({v.index for v in did}) > 1 for lane in done for did in lane["did"])


def test_a_lane_begins_with_the_groups_of_its_own_round_in_their_order():
    work = LaneWork(rounds_of(4, 3), 3)
    first = [next(iter(work.begin())) for _ in range(3)]
    assert [(0, "0 on numpy"), (1, "0 on numpy"), (2, "0 on numpy")] == [
        (group[0].index, group[0].case.id) for group in first
    ]


def test_engines_of_a_graph_stay_together():
    work = LaneWork(rounds_of(3, 1, ("numpy", "torch")), 1)
    assert [2, 2, 2] == [len(group) for group in work.begin()]


def test_a_round_that_is_void_is_measured_again_by_processes_that_have_not_had_the_case():
    work = LaneWork(rounds_of(1, 1), 1)
    (group,) = work.begin()
    work.also([case_run(0, 0)])
    again = work.begin()
    assert [["0 on numpy"], 1] == [[v.case.id for v in group], len(list(again))]
    assert work.begin() is None
