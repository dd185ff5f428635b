"""Order and share of the rounds, and when more of them are measured."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from bench_schema.estimate import Counted

import bench_run
from bench_run.engines.spec import parse_spec
from bench_run.graph.make import make_graphs
from bench_run.options import Options, Sampling, grouped
from bench_run.plan.engines import plan_engines
from bench_run.runner.rounds import budget, shuffle_cases
from bench_run.runner.stopping import CaseState, RoundSamples
from bench_run.worker.messages import Variants
from bench_run.worker.parent import pool
from bench_run.worker.parent.process import Worker
from tests.support import child_pids


def cases(graphs=6, engines=("a", "b")):
    return [
        SimpleNamespace(
            graph=SimpleNamespace(id=SimpleNamespace(path=f"g{g}"), turns_with=None),
            engine=SimpleNamespace(key=e),
        )
        for g in range(graphs)
        for e in engines
    ]


def order(seed, index):
    return [(c.graph.id.path, c.engine.key) for c in shuffle_cases(cases(), seed, index)]


def test_every_case_is_visited_once_in_a_round():
    assert Counter(order(1, 0)) == Counter((c.graph.id.path, c.engine.key) for c in cases())


def test_the_order_follows_from_the_seed():
    assert order(3, 1) == order(3, 1)
    assert order(3, 1) != order(4, 1)


def test_each_round_has_an_order_of_its_own():
    assert [g for g, _ in order(1, 0)] != [g for g, _ in order(1, 2)]


def test_engines_take_turns_on_a_graph_a_b_then_b_a():
    pairs = [[e for _, e in order(1, index)][:2] for index in range(4)]
    assert [["a", "b"], ["b", "a"], ["a", "b"], ["b", "a"]] == pairs


@pytest.mark.parametrize(("iterations", "rounds"), [(100, 5), (7, 3), (5, 5), (11, 4)])
def test_the_iterations_are_split_over_the_rounds(iterations, rounds):
    options = Options(iterations=iterations, rounds=rounds)
    shares = [budget(grouped(Sampling, options), index).iterations for index in range(rounds)]
    assert (iterations, True) == (sum(shares), max(shares) - min(shares) <= 1)


def test_the_time_limit_is_split_over_the_rounds():
    assert (
        2_000_000_000
        == budget(grouped(Sampling, Options(max_time_s=10.0, rounds=5)), 0).max_time_ns
    )


def state(medians):
    found = CaseState(case=None)
    for index, median in enumerate(medians):
        found.measured[index] = RoundSamples(Counted(np.full(20, median, np.int64)))
    return found


def test_precision_is_unknown_below_three_rounds():
    assert state([100, 101]).half_width_ratio() is None


def test_rounds_that_agree_are_precise():
    assert state([1000, 1000, 1000]).half_width_ratio() == pytest.approx(0.0)


def test_rounds_that_differ_are_not():
    assert state([1000, 1100, 1200]).half_width_ratio() > 0.1


@pytest.mark.slow
def test_a_precision_adds_rounds_and_the_document_says_which_rule_stopped(small_graph):
    document = bench_run.run(
        [str(small_graph)],
        engine=["numpy"],
        rounds=3,
        iterations=3,
        warmup=0,
        precision_ratio=1e-9,
        max_rounds=5,
    )
    case = document.cases[0]
    assert (5, "max rounds") == (len(case.rounds), case.stopped_by)


def test_a_case_that_is_precise_enough_gets_no_more_rounds(small_graph):
    document = bench_run.run(
        [str(small_graph)], engine=["numpy"], rounds=3, iterations=30, precision_ratio=0.99
    )
    assert "precision" == document.cases[0].stopped_by


def test_the_samples_of_every_round_are_in_the_document(small_graph):
    document = bench_run.run([str(small_graph)], engine=["numpy"], iterations=11, rounds=2)
    case = document.cases[0]
    assert [6, 5] == [len(each.series["e2e_ns"]) for each in case.rounds]
    assert [10, 10] == [len(each.warmup["e2e_ns"]) for each in case.rounds]
    assert (2, 11) == (len({each.pid for each in case.rounds}), case.summary["e2e_ns"].count)


def test_initialisation_is_split_into_phases(small_graph):
    document = bench_run.run([str(small_graph)], engine=["numpy"], iterations=2, rounds=2)
    init = document.cases[0].init
    names = {"load_ns", "import_ns", "build_ns", "plan_ns", "first_run_ns"}
    assert (names, True) == (set(init), all(len(v) == 2 and (v > 0).all() for v in init.values()))


def test_the_process_that_opened_the_engine_serves_the_first_round(small_graph, monkeypatch):
    started = []
    monkeypatch.setattr(
        pool, "Worker", lambda *a, **b: started.append(Worker(*a, **b)) or started[-1]
    )
    document = bench_run.run(
        [str(small_graph)], engine=["numpy"], rounds=2, iterations=2, reference="none"
    )
    processes = {each.pid for each in document.cases[0].rounds}
    assert (2, 2) == (len(started), len(processes))


@pytest.mark.long
def test_a_process_that_did_more_than_open_serves_no_round(fresh_workers):
    engine = plan_engines(Options(), [parse_spec("numpy")])[0]
    several, others = pool.WorkerPool(10.0), child_pids()
    several.facts(engine)
    assert 1 == len(child_pids() - others)
    several.ask(engine, Variants(make_graphs("add: dims=4x4")[0]))
    several.keep_fresh([engine])
    assert set() == child_pids() - others


@pytest.mark.long
def test_a_process_of_an_engine_with_other_options_serves_no_round(fresh_workers):
    engine = plan_engines(Options(), [parse_spec("numpy")])[0]
    several, others = pool.WorkerPool(10.0), child_pids()
    several.facts(engine)
    assert 1 == len(child_pids() - others)
    several.keep_fresh([replace(engine, options=replace(engine.options, device=1))])
    assert set() == child_pids() - others
