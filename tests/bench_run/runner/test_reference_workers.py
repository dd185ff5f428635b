"""References that are computed side by side are those that are computed one by one."""

from __future__ import annotations

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import bench_run
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.errors import OutputError, StoppedError, WorkerCrashedError
from bench_run.graph.make import make_graphs
from bench_run.graph.sources.load import load
from bench_run.options import Options, Validation, grouped
from bench_run.plan.cases import plan_graph
from bench_run.plan.engines import PlannedEngine
from bench_run.runner.parallel.gate import Room
from bench_run.runner.references import Expected, Helpers, ReferenceStore
from bench_run.tensors.data import Data
from bench_run.worker.messages import Evaluate
from tests.support import child_pids

NUMPY = PlannedEngine("numpy", EngineSpec("numpy", "numpy"), EngineOptions(), "none")


@pytest.fixture
def three():
    helpers = Helpers(60.0, cores=12)
    yield helpers
    helpers.close()


def tasks(folder, count, spec="add: dims=4x8"):
    graph = make_graphs(spec)[0]
    return [(NUMPY, Evaluate(graph, Data(seed), str(folder / str(seed)))) for seed in range(count)]


def evaluate(helpers, tasks):
    """What each of them raises, or None, computed side by side."""
    asked = [helpers.submit(lambda pool, task=task: pool.ask(*task)) for task in tasks]
    return [future.exception() for future in asked]


@pytest.mark.parametrize(("cores", "count"), [(1, 1), (7, 1), (8, 2), (16, 4), (128, 8)])
def test_there_is_a_helper_for_every_four_cores_up_to_eight(cores, count):
    helpers = Helpers(1.0, cores)
    assert count == helpers.count
    helpers.close()


def test_side_by_side_gives_what_one_by_one_gives(three, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "all").mkdir()
    one = [evaluate(three, [task]) for task in tasks(tmp_path / "one", 3)]
    assert [None] * 3 == evaluate(three, tasks(tmp_path / "all", 3)) == [p for [p] in one]
    for path in (tmp_path / "one").rglob("*.npy"):
        other = tmp_path / "all" / path.relative_to(tmp_path / "one")
        assert path.read_bytes() == other.read_bytes()


@pytest.mark.long
def test_a_helper_serves_again(fresh_workers, three, tmp_path):
    others = child_pids()
    evaluate(three, tasks(tmp_path, 3))
    helpers = child_pids() - others
    time.sleep(0.1)
    evaluate(three, tasks(tmp_path, 3))
    assert (3, helpers) == (len(helpers), child_pids() - others)


def test_what_goes_wrong_costs_its_own_task(three, tmp_path):
    good, bad = tasks(tmp_path, 2)
    (tmp_path / "1").write_text("in the way of the folder")
    found = evaluate(three, [good, bad])
    assert (None, True) == (found[0], isinstance(found[1], OutputError))


def test_closing_does_not_wait_for_what_they_do(three, tmp_path):
    long = tasks(tmp_path, 4, "matmul: m=8192 n=8192 k=8192")
    asked = [three.submit(lambda pool, task=task: pool.ask(*task)) for task in long]
    time.sleep(0.2)
    three.close()
    *begun, waiting = asked
    assert waiting.cancelled()
    assert all(isinstance(one.exception(timeout=60), WorkerCrashedError) for one in begun)


def store_of(graph_folder, **options):
    graphs = [plan_graph(loaded) for loaded in load([str(graph_folder)]).graphs]
    helpers = Helpers(60.0, cores=12)
    return graphs, ReferenceStore(
        grouped(Validation, Options(**options)), {"numpy": NUMPY}, helpers=helpers
    )


def test_what_does_not_fit_into_memory_together_is_computed_one_by_one(graph_folder, monkeypatch):
    graphs, store = store_of(graph_folder)
    inside, most = [], []

    def evaluate_alone(graph, _reference, _pool):
        inside.append(graph)
        time.sleep(0.02)
        most.append(len(inside))
        inside.remove(graph)
        return Expected(None, "nothing")

    monkeypatch.setattr(store, "_evaluate", evaluate_alone)
    monkeypatch.setattr(store, "_room", Room((1, 0)))
    store.announce((graph, "auto") for graph in graphs)
    store.validation_settings(graphs[0], "auto")
    assert [1, 1, 1] == most[:3]
    store.close()


def test_what_is_known_is_had_while_others_are_computed(graph_folder, monkeypatch):
    graphs, store = store_of(graph_folder)
    go_on = threading.Event()
    evaluate_now = store._evaluate

    def evaluate_later(graph, reference, pool):
        if graph is not graphs[0]:
            go_on.wait(60)
        return evaluate_now(graph, reference, pool)

    monkeypatch.setattr(store, "_evaluate", evaluate_later)
    store.announce((graph, "auto") for graph in graphs)
    store.compute_ahead()
    assert store.validation_settings(graphs[0], "auto").expected is not None
    assert store.early_settings(graphs[0], "auto").expected is not None
    assert store.early_settings(graphs[1], "auto").pending
    go_on.set()
    assert store.validation_settings(graphs[1], "auto").expected is not None
    store.close()


def test_who_waits_when_the_run_is_stopped_is_told(graph_folder, monkeypatch):
    graphs, store = store_of(graph_folder)
    stopping = threading.Event()
    monkeypatch.setattr(store, "_evaluate", lambda *_: stopping.wait(60) and Expected(None))
    monkeypatch.setattr(store._room, "stop", stopping.set)  # once no more is begun
    store.announce((graph, "auto") for graph in graphs)
    store.compute_ahead()
    with ThreadPoolExecutor() as threads:
        waiting = [threads.submit(store.validation_settings, g, "auto") for g in graphs]
        time.sleep(0.1)
        store.close()
        reasons = [one.exception(timeout=60) for one in waiting]
    assert any(isinstance(reason, StoppedError) for reason in reasons)
    with pytest.raises(StoppedError):
        store.validation_settings(graphs[-1], "numpy")  # what was not begun when it stopped


def test_what_goes_wrong_ahead_is_met_by_whoever_wants_it(graph_folder, monkeypatch):
    graphs, store = store_of(graph_folder)

    def fail(*_):
        raise OutputError("no room")

    monkeypatch.setattr(store, "_evaluate", fail)
    store.announce((graph, "auto") for graph in graphs)
    store.compute_ahead()
    for graph in graphs:
        with pytest.raises(OutputError, match="no room"):
            store.validation_settings(graph, "auto")
    store.close()


def test_what_is_asked_for_next_is_computed_along(graph_folder):
    graphs, store = store_of(graph_folder)
    store.announce((graph, "auto") for graph in graphs)
    first = Path(store.validation_settings(graphs[1], "auto").expected)
    ready = {folder: folder.stat().st_mtime_ns for folder in first.parent.iterdir()}
    asked = [Path(store.validation_settings(graph, "auto").expected) for graph in graphs[1:]]
    assert asked[0] == first
    assert ready == {folder: folder.stat().st_mtime_ns for folder in asked}
    shapes = [np.load(next(folder.glob("*.npy"))).shape for folder in asked]
    assert shapes == [graph.loaded.graph.outputs[0].dims for graph in graphs[1:]]
    store.close()


def test_outputs_whose_reference_made_room_for_others_are_checked_all_the_same(monkeypatch):
    asked = []
    settings = ReferenceStore.validation_settings

    def remove_the_first(store, *arguments):
        found = settings(store, *arguments)
        if not asked:
            shutil.rmtree(found.expected)
        asked.append(found)
        return found

    monkeypatch.setattr(ReferenceStore, "validation_settings", remove_the_first)
    op = ("add: dims=4x8",)
    document = bench_run.run((), op=op, engine=("numpy",), rounds=1, iterations=3, quiet=True)
    assert "passed" == document.cases[0].validation.status
    assert 2 == len(asked)
