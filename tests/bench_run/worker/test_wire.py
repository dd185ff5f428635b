"""Messages arrive as they were sent, or not at all."""

from __future__ import annotations

import os
import pickle
import socket
from dataclasses import replace

import numpy as np
import pytest
from bench_schema.document import Validation
from hypothesis import given
from hypothesis import strategies as st

from bench_run.engines.base import EngineFacts, EngineOptions, EngineSpec
from bench_run.errors import EngineError, GraphError, UsageError
from bench_run.graph.make import make_graphs
from bench_run.measure.ceilings import Ceilings
from bench_run.plan.load import load
from bench_run.tensors.data import Data
from bench_run.worker import wire
from bench_run.worker.messages import (
    Answered,
    Attempt,
    Close,
    EngineOpened,
    Granted,
    MeasureCeilings,
    Open,
    PhaseStarted,
    Refusal,
    Repeat,
    Variants,
)

GRAPH = make_graphs("conv_fwd: n=1 c=2 h=5 w=5 k=3 r=3 s=3 pad=1")[0]
FACTS = EngineFacts("1", {"numpy": "2"}, "cpu", "a processor", knobs={"A": "1"}, device_index=2)
REQUESTS = [
    Open(EngineSpec("x+a", "x", options=("a",), device=1), EngineOptions(knobs={"K": "v"})),
    Attempt(GRAPH, Data(3, ("x=ones",))),
    Variants(GRAPH),
    Granted(),
    Close(),
]
ODD = os.fsdecode(b"caf\xe9.json")
REQUESTS.append(Attempt(replace(GRAPH, name="naïve 神"), Data(0, graph_path=ODD)))
REPLIES = [
    (Variants(GRAPH), ({"plan": "1"}, {})),
    (REQUESTS[0], EngineOpened(FACTS, "host", 5, 3, ("a note",))),
    (MeasureCeilings(), Ceilings(1.5, {"half": 2.0})),
    (Repeat("x"), Validation("passed", "numpy", deterministic=True)),
    (Attempt(GRAPH), None),
]
ERRORS = [UsageError("no"), GraphError("f: x", "what"), EngineError("bad", detail="more")]


@pytest.mark.parametrize("request_", REQUESTS, ids=range(len(REQUESTS)))
def test_a_request_arrives_as_it_was(request_):
    assert (7, request_) == wire.decode_request(wire.encode_request(7, request_))


@pytest.mark.parametrize(("request_", "value"), REPLIES)
def test_an_answer_arrives_as_it_was(request_, value):
    message = wire.decode_outgoing(wire.encode_reply(7, Answered(value, worn=True)))
    assert (7, Answered(value, worn=True)) == (message.number, wire.read_reply(message, request_))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_arrives_with_its_class_and_its_fields(error):
    message = wire.decode_outgoing(wire.encode_reply(7, Refusal(error)))
    found = wire.read_reply(message, Variants(GRAPH)).error
    assert (type(error), str(error), vars(error)) == (type(found), str(found), vars(found))
    again = pickle.loads(pickle.dumps(error))
    assert (type(error), str(error)) == (type(again), str(again))


def test_every_graph_of_ours_arrives_as_it_was(root):
    graphs = [each.graph for each in load([str(root / "graphs")]).graphs]
    assert len(graphs) > 20
    for graph in graphs:
        _, found = wire.decode_request(wire.encode_request(0, Attempt(graph)))
        assert graph == found.graph
        assert type(graph) is type(found.graph)


def test_arrays_arrive_bit_for_bit():
    samples = np.array([1, 2**62, -3], np.int64)
    assert np.array_equal(samples, wire.decode(wire.encode(samples), np.ndarray))


@given(st.binary(max_size=64))
def test_other_bytes_are_no_message(data):
    for kind in (PhaseStarted, tuple[str, int], Ceilings):
        with pytest.raises(wire.WireError):
            wire.decode(b"\xc1" + data, kind)


def test_an_answer_of_another_type_is_none():
    message = wire.decode_outgoing(wire.encode_reply(0, Answered("text")))
    with pytest.raises(wire.WireError):
        wire.read_reply(message, MeasureCeilings())


def test_a_case_that_no_document_could_hold_is_none():
    bad = replace(Validation("passed", "numpy"), status="maybe")
    message = wire.decode_outgoing(wire.encode_reply(0, Answered(bad)))
    with pytest.raises(wire.WireError):
        wire.read_reply(message, Repeat("x"))


@pytest.fixture
def ends():
    one, other = (wire.Pipe(end) for end in socket.socketpair())
    yield one, other
    one.close()
    other.close()


def test_messages_follow_one_another(ends):
    one, other = ends
    for data in (b"", b"x" * 70_000, b"y"):
        one.send(data)
    assert [b"", b"x" * 70_000, b"y"] == [other.receive(1) for _ in range(3)]


def test_half_a_message_is_waited_for_no_longer_than_asked(ends):
    one, other = ends
    one._end.send(wire.HEADER.pack(9) + b"half")
    assert None is other.receive(0.05)
    one._end.send(b" more")
    assert b"half more" == other.receive(1)


def test_a_message_that_nobody_reads_is_given_up(ends):
    one, _ = ends
    with pytest.raises(TimeoutError):
        one.send(b"x" * (64 << 20), 0.05)


def test_the_other_end_may_be_gone(ends):
    one, other = ends
    one.close()
    with pytest.raises(EOFError):
        other.receive(1)


def test_a_fork_does_not_speak(ends):
    one, other = ends
    child = os.fork()
    if child == 0:
        one.send(b"I am the worker")
        os._exit(0)
    assert 1 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert None is other.receive(0)
