"""References that are computed side by side are those that are computed one by one."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.errors import OutputError, WorkerCrashedError
from bench_run.graph.load import load
from bench_run.graph.make import make_graphs
from bench_run.options import Options
from bench_run.plan.cases import PlannedEngine, plan_graph
from bench_run.runner.reference_workers import Helpers, take_fitting
from bench_run.runner.references import ReferenceStore
from bench_run.tensors.data import Data
from bench_run.worker.messages import Evaluate
from tests.support import child_pids

NUMPY = PlannedEngine("numpy", EngineSpec("numpy", "numpy"), EngineOptions(), "none")


@pytest.fixture
def three():
    helpers = Helpers(60.0, cores=6)
    yield helpers
    helpers.close()


def tasks(folder, count, spec="add: dims=4x8"):
    graph = make_graphs(spec)[0]
    return [(NUMPY, Evaluate(graph, Data(seed), str(folder / str(seed)))) for seed in range(count)]


@pytest.mark.parametrize(("cores", "count"), [(1, 1), (3, 1), (4, 2), (16, 8), (128, 8)])
def test_there_is_a_helper_for_every_two_cores_up_to_eight(cores, count):
    helpers = Helpers(1.0, cores)
    assert count == helpers.count
    helpers.close()


def test_side_by_side_gives_what_one_by_one_gives(three, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "all").mkdir()
    one = [three.evaluate([task]) for task in tasks(tmp_path / "one", 3)]
    assert [None] * 3 == three.evaluate(tasks(tmp_path / "all", 3)) == [p for [p] in one]
    for path in (tmp_path / "one").rglob("*.npy"):
        other = tmp_path / "all" / path.relative_to(tmp_path / "one")
        assert path.read_bytes() == other.read_bytes()


def test_a_helper_serves_again(three, tmp_path):
    others = child_pids()
    three.evaluate(tasks(tmp_path, 3))
    helpers = child_pids() - others
    time.sleep(0.1)
    three.evaluate(tasks(tmp_path, 3))
    assert (3, helpers) == (len(helpers), child_pids() - others)


def test_what_goes_wrong_costs_its_own_task(three, tmp_path):
    good, bad = tasks(tmp_path, 2)
    (tmp_path / "1").write_text("in the way of the folder")
    found = three.evaluate([good, bad])
    assert (None, True) == (found[0], isinstance(found[1], OutputError))


def test_closing_does_not_wait_for_what_they_do(three, tmp_path):
    long = tasks(tmp_path, 3, "matmul: m=8192 n=8192 k=8192")
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(three.evaluate, long)
        time.sleep(0.2)
        three.close()
        reasons = asked.result(timeout=60)
    assert all(isinstance(reason, WorkerCrashedError) for reason in reasons)


def test_the_first_graph_always_fits_and_others_while_there_is_memory():
    small, huge = make_graphs("add: dims=4x8")[0], make_graphs("add: dims=1048576x1048576")[0]
    assert [huge] == list(take_fitting([huge, small]))
    assert [small, small] == list(take_fitting([small, small, huge, small]))


def test_what_is_asked_for_next_is_computed_along(graph_folder):
    graphs = [plan_graph(loaded) for loaded in load([str(graph_folder)]).graphs]
    store = ReferenceStore(Options(), {"numpy": NUMPY}, helpers=Helpers(60.0, cores=6))
    store.announce((graph, "auto") for graph in graphs)
    first = Path(store.validation_settings(graphs[1], "auto").expected)
    ready = {folder: folder.stat().st_mtime_ns for folder in first.parent.iterdir()}
    asked = [Path(store.validation_settings(graph, "auto").expected) for graph in graphs[1:]]
    assert asked[0] == first
    assert ready == {folder: folder.stat().st_mtime_ns for folder in asked}
    shapes = [np.load(next(folder.glob("*.npy"))).shape for folder in asked]
    assert shapes == [graph.loaded.graph.outputs[0].dims for graph in graphs[1:]]
    store.close()
