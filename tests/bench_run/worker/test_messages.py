"""Every request has its handler, and a refusal is raised where it was asked."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.errors import EngineError, GraphError, UnsupportedGraphError, UsageError
from bench_run.graph.make import make_graphs
from bench_run.tensors.data import Data
from bench_run.worker.main import HANDLERS, EngineServer, answer
from bench_run.worker.messages import Attempt, Choices, Evaluate, Open, Request, Variants
from bench_run.worker.parent.process import Worker
from bench_run.worker.parent.start import WORKER, start_module

GRAPH = make_graphs("add: dims=4x8")[0]
NUMPY = Open(EngineSpec("numpy", "numpy"), EngineOptions())


@pytest.fixture
def worker():
    worker = Worker(partial(start_module, WORKER, {}))
    worker.ask(NUMPY, 60.0)
    yield worker
    worker.close()


def test_every_request_has_one_handler():
    assert set(Request.__subclasses__()) == set(HANDLERS)


@pytest.mark.long
def test_the_answer_is_the_value_itself(worker):
    assert ({},) == worker.ask(Variants(GRAPH), 60.0)


@pytest.mark.long
def test_an_engine_without_choices_lists_its_variants(worker):
    assert ({},) == worker.ask(Choices(GRAPH), 60.0)


@pytest.mark.long
def test_a_request_with_nothing_to_say_answers_nothing(worker):
    assert worker.ask(Attempt(GRAPH, Data(0)), 60.0) is None


@pytest.mark.long
def test_a_refused_graph_raises_the_engines_error(worker):
    unknown = replace(GRAPH, nodes=(replace(GRAPH.nodes[0], type="NoSuchAttributes"),))
    with pytest.raises(UnsupportedGraphError, match="no formula for this node type"):
        worker.ask(Attempt(unknown), 60.0)


@pytest.mark.long
def test_a_refusal_keeps_its_fields(worker, tmp_path):
    golden = tmp_path / "a: b"
    golden.mkdir()
    with pytest.raises(GraphError) as caught:
        worker.ask(Evaluate(GRAPH, Data(0, golden=str(golden), graph_path="x: y"), "out"), 60.0)
    assert "x: y" == caught.value.where


@pytest.mark.long
def test_a_worker_answers_again_after_a_refusal(worker):
    with pytest.raises(UsageError):
        worker.ask(Open(EngineSpec("numpy:x", "numpy", "x"), EngineOptions()), 60.0)
    assert ({},) == worker.ask(Variants(GRAPH), 60.0)


def test_no_memory_on_the_host_is_an_error_of_the_engine():
    class Full(EngineServer):
        @property
        def engine(self):
            raise MemoryError("3 GiB")

    refused = answer(Full(None), Variants(GRAPH))
    expected = (EngineError, "out of memory on the host: 3 GiB")
    assert expected == (type(refused.error), str(refused.error))
