"""Errors keep what they know when they travel to another process."""

from __future__ import annotations

import pickle

import pytest

from bench_run import errors
from bench_run.errors import BenchRunError, EngineError, GraphError, WorkerTimeoutError

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, BenchRunError)
]


class OwnError(EngineError):
    """What some engine derives from ours."""

    def __init__(self, step, code):
        super().__init__(f"{step}: code {code}", detail=f"the library's text of {code}")
        self.handle = lambda: code  # nothing that could be pickled


def arrived(error):
    return pickle.loads(pickle.dumps(error))


def test_where_a_graph_is_wrong_survives_a_colon_in_the_path():
    error = arrived(GraphError("C: drive.json: tensors[2].dims", "negative: -1"))
    expected = ("C: drive.json: tensors[2].dims", "negative: -1")
    assert expected == (error.where, error.what)


def test_the_detail_arrives():
    assert "the full text" == arrived(EngineError("failed", detail="the full text")).detail


def test_the_status_of_a_lost_worker_arrives():
    error = arrived(WorkerTimeoutError("no answer", detail="its last line"))
    assert ("timed out", "its last line") == (error.status, error.detail)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_arrives_as_itself_with_its_message(kind):
    error = GraphError("file", "wrong") if kind is GraphError else kind("wrong")
    found = arrived(error)
    assert (kind, str(error)) == (type(found), str(found))


def test_an_engines_own_error_arrives_as_ours():
    found = arrived(OwnError("run", 7))
    expected = (EngineError, "run: code 7", "the library's text of 7")
    assert expected == (type(found), str(found), found.detail)
