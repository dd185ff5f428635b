"""Operators of the table on a GPU."""

from __future__ import annotations

import bench_run


def test_operators_are_right_and_one_that_waits_leaves_the_gate_to_the_others():
    names = "asscalar,inverse,softmax,lstm_fwd_bwd,take,sort,exp: shapes=small"
    document = bench_run.run((), op=(names,), engine=["torch:cuda"], rounds=2, iterations=10)
    assert {"passed"} == {case.validation.status for case in document.cases}
    timing = {
        case.graph.family: {each.device_timing for each in case.rounds} for case in document.cases
    }
    waiting = {"asscalar", "inverse"}
    assert {"gated events"} == set().union(*(v for k, v in timing.items() if k not in waiting))
