"""`--shard I/N`: a partition that follows from the graphs, balanced, stable as N changes."""

from __future__ import annotations

import json
import random
import time

import pytest
from bench_schema.document import Work
from hypothesis import given
from hypothesis import strategies as st

from bench_run.engines.spec import parse_spec
from bench_run.errors import UsageError
from bench_run.options import Options
from bench_run.options.read import read_shard
from bench_run.plan.engines import plan_engines
from bench_run.plan.shard import SLACK, estimate_us, needs_processor, shards_of
from bench_run.runner.planning import outline_run, plan_closed
from tests.support import graph_json

COSTS = st.dictionaries(st.text(min_size=1), st.integers(1, 1000), max_size=60)


@given(COSTS, st.integers(1, 20))
def test_each_graph_is_in_exactly_one_shard(costs, count):
    chosen = shards_of(costs, count)
    assert (set(costs), True) == (set(chosen), all(0 <= s < count for s in chosen.values()))


@given(COSTS, st.integers(1, 20), st.randoms())
def test_the_order_of_the_graphs_does_not_matter(costs, count, chance):
    keys = list(costs)
    chance.shuffle(keys)
    assert shards_of(costs, count) == shards_of({key: costs[key] for key in keys}, count)


@given(COSTS, st.integers(1, 20))
def test_no_shard_carries_more_than_its_share_and_one_graph(costs, count):
    chosen = shards_of(costs, count)
    loads = [sum(costs[key] for key in costs if chosen[key] == shard) for shard in range(count)]
    most = SLACK * sum(costs.values()) / count + max(costs.values(), default=0)
    assert max(loads) <= most


def many(count=10_000, seed=1):
    chance = random.Random(seed)
    return {f"graph {i}": int(1e6 * chance.paretovariate(3)) for i in range(count)}


@pytest.mark.long
def test_ten_thousand_graphs_are_balanced_within_the_slack_in_seconds():
    costs = many()
    begin = time.perf_counter()
    chosen = shards_of(costs, 64)
    took_s = time.perf_counter() - begin
    loads = [0] * 64
    for key, shard in chosen.items():
        loads[shard] += costs[key]
    assert (True, True) == (max(loads) <= SLACK * sum(loads) / 64, took_s < 5)


def test_most_graphs_stay_where_they_were_when_a_shard_is_added():
    costs = many(2000)
    before, after = shards_of(costs, 8), shards_of(costs, 9)
    moved = sum(before[key] != after[key] for key in costs)
    assert moved / len(costs) < 0.25  # 1/9 have to


def test_a_large_graph_costs_more_than_a_small_one():
    large, small = Work(10**12, 10**9, 1.0), Work(10**6, 10**4, 1.0)
    costs = [estimate_us(work, on_processor=True) for work in (large, small)]
    assert costs[0] > 5 * costs[1]


def test_where_only_a_gpu_computes_a_large_graph_costs_as_much_as_a_few_small_ones():
    ops = ("matmul: m=7168 n=7168 k=7168", *(f"relu: n={n} c=4 h=8 w=8" for n in range(1, 14)))
    given = {"op": ops, "engine": ("cudnn",), "reference": "none", "graphs": ()}
    counts = [len(outline_run(Options(**given, shard=shard)).graphs) for shard in ("1/2", "2/2")]
    assert [4, 10] == sorted(counts)


def test_references_are_computed_by_a_processor_whatever_the_engine():
    engines = [
        plan_engines(Options(reference=how), [parse_spec(text)])[0]
        for text, how in (("cudnn", "auto"), ("cudnn", "none"), ("numpy", "none"))
    ]
    assert [True, False, True] == [needs_processor(engine) for engine in engines]


def test_unknown_work_costs_a_visit():
    costs = [estimate_us(work, on_processor=True) for work in (Work(), Work(0, 0, None))]
    assert costs[0] == costs[1] > 0


def options(root, **changes):
    given = {"graphs": ("suite:smoke",), "engine": ("numpy",), **changes}
    return Options(**given)


def ids(options):
    return [case.id for case in plan_closed(options).cases]


def test_the_shards_of_a_run_have_all_its_cases_once(root):
    parts = [ids(options(root, shard=f"{index}/3")) for index in (1, 2, 3)]
    assert sorted(ids(options(root))) == sorted(name for part in parts for name in part)


def test_a_case_is_called_the_same_in_its_shard_though_its_namesake_is_in_another(tmp_path, root):
    for index in range(6):
        folder = tmp_path / str(index)
        folder.mkdir()
        (folder / "same.json").write_text(json.dumps(graph_json("same", (4, 8 + index))))
    given = {"graphs": (str(tmp_path),), "engine": ("numpy",)}
    parts = [ids(Options(**given, shard=f"{index}/2")) for index in (1, 2)]
    assert (sorted(ids(Options(**given))), True) == (sorted(parts[0] + parts[1]), all(parts))


def test_the_order_of_arguments_changes_no_shard(root):
    names = [f"relu: n={n} c=4 h=4 w=4" for n in range(1, 9)]
    outlines = [
        outline_run(Options(op=tuple(order), engine=("numpy",), shard="1/3"))
        for order in (names, names[::-1])
    ]
    found = [({g.id.name for g in o.graphs}, o.whole) for o in outlines]
    assert found[0] == found[1]


def test_all_engines_of_a_graph_are_in_its_shard(root):
    planned = plan_closed(options(root, engine=("numpy", "torch"), shard="2/3"))
    graphs = {case.graph.id.fingerprint for case in planned.cases}
    assert len(planned.cases) == 2 * len(graphs)


def test_a_broken_file_fails_in_one_shard_only(tmp_path, small_graph):
    (tmp_path / "broken.json").write_text("{")
    outlines = [
        outline_run(Options(graphs=(str(tmp_path),), engine=("numpy",), shard=f"{index}/4"))
        for index in (1, 2, 3, 4)
    ]
    assert 1 == sum(len(outline.gathered.failures) for outline in outlines)


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/", "/4", "-1/4", "1/4/2", "1/99999"])
def test_a_share_that_does_not_exist_is_refused(text):
    with pytest.raises(UsageError, match="--shard"):
        read_shard("--shard", text)


def test_leading_zeros_of_an_array_job_mean_nothing():
    assert "2/8" == read_shard("--shard", "02/08")
