"""Lanes share one queue: each round of a case has another process, and no lane ends early."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from bench_run.runner.parallel.gate import CaseRun
from bench_run.runner.parallel.lanes import GroupQueue


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


def worked_off(work, count, seconds):
    """Lanes on a clock of their own: by lane, what each of its processes did. `seconds`: of a
    case_run, by case and round."""
    lanes = [{"at": 0.0, "did": [[]]} for _ in range(count)]
    while work:
        lane = min(lanes, key=lambda each: each["at"])
        group = work.take({v.case.id for v in lane["did"][-1]})
        if group is None:
            lane["did"].append([])
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
    work = GroupQueue(rounds_of(graphs, rounds, engines))
    done = worked_off(work, lanes, lambda v: 1 + hash((v.case.id, v.index, seed)) % 7)
    processes = [did for lane in done for did in lane["did"]]
    made = Counter((v.case.id, v.index) for did in processes for v in did)
    assert set(made.values()) == {1}
    assert len(made) == graphs * rounds * len(engines)
    for did in processes:
        assert len({v.case.id for v in did}) == len(did)


def test_no_lane_ends_long_before_the_others():
    done = worked_off(GroupQueue(rounds_of(8, 2)), 4, lambda v: 5.0 if v.index else 1.0)
    ends = [lane["at"] for lane in done]
    assert max(ends) - min(ends) <= 5.0
    assert sum(ends) == 8 * 5.0 + 8 * 1.0


def test_engines_of_a_graph_stay_together():
    work = GroupQueue(rounds_of(3, 1, ("numpy", "torch")))
    assert [2, 2, 2] == [len(work.take(set())) for _ in range(3)]
