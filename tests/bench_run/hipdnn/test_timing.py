"""Clocks, the gate and waiting, in every combination that a release may leave us with."""

from __future__ import annotations

import statistics
import sys

import pytest

from bench_run.engines.hipdnn import opening as timing
from bench_run.errors import EngineUnavailableError, UnsupportedGraphError
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.loop import measure
from bench_run.streams import hip
from bench_run.tensors.seeded.inputs import make_inputs
from tests.bench_run.hipdnn.test_oddities import expect_right
from tests.conformance.graphs import FAMILIES

ADD = FAMILIES["pointwise_add"]("float", "packed")


@pytest.fixture
def measured(open_engine):
    """The plan's words on timing, and the samples of a short round."""

    def run(profile="newest", variables=None, **options):
        engine = open_engine(profile=profile, variables=variables, **options)
        plan = engine.plan(engine.build(ADD, {}))
        plan.upload(make_inputs(ADD, 0))
        samples = measure(plan, engine.stream, SamplingBudget(warmup=1, iterations=3)).series
        chosen = plan.facts.chosen
        plan.close()
        return chosen["timing"], samples

    return run


def test_the_newest_release_times_behind_its_gate(measured):
    words, series = measured()
    assert "hipDNN events, behind a stall gate" == words
    assert 3 == len(series["device_ns"])


@pytest.mark.slow
def test_a_driver_without_stream_waits_has_no_gate(measured):
    words, series = measured(variables={"no_gate": "1"})
    assert words.startswith("hipDNN events, no gate: times hold the host's launch delays")
    assert 3 == len(series["device_ns"])


@pytest.mark.slow
def test_a_flush_that_may_wait_leaves_the_gate_out(measured, monkeypatch):
    monkeypatch.setattr(timing, "FLUSH_BYTES", 4096)
    assert measured(cache="cold")[0].startswith("hipDNN events, no gate")


@pytest.mark.slow
def test_the_hosts_timer_can_be_asked_for(measured):
    assert ["e2e_ns"] == list(measured(timer="host")[1])


@pytest.mark.long
def test_rotation_runs_on_copies_of_the_buffers(open_engine, monkeypatch):
    engine, packs = open_engine(cache="rotate"), []
    graph_class = sys.modules["hipdnn_frontend"].Graph
    execute = graph_class.execute

    def recorded(self, handle, pack, workspace=0):
        packs.append(tuple(sorted(pack.items())))
        return execute(self, handle, pack, workspace)

    monkeypatch.setattr(graph_class, "execute", recorded)
    plan = engine.plan(engine.build(ADD, {}))
    for _ in range(2 * 256):
        plan.run()
    plan.close()
    assert plan.facts.buffer_bytes == 256 * 3 * ADD.outputs[0].bytes
    assert (256, packs[:256]) == (len(set(packs)), packs[256:])


def test_a_gate_is_closed_with_the_engine_where_it_can_be(open_engine):
    for state, closes in (("sweep", False), ("newest", True)):
        engine = open_engine(profile=state)
        gate = engine.stream._gate
        engine.stream.close()
        assert closes != gate._alive
        assert engine.stream._gate is None


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["sweep", "newest"])
def test_a_gate_that_cannot_be_made_is_none_with_its_reason(measured, profile):
    words, series = measured(profile, {"gate": "unsupported"})
    assert words.startswith("hipDNN events, no gate")
    assert "HipStallGate: hipStreamWaitValue32 unsupported on this device" in words
    assert 3 == len(series["device_ns"])


def test_a_question_for_stream_waits_that_fails_is_a_no(measured):
    words, series = measured(variables={"gate": "unasked"})
    assert "HipStallGate: hipDeviceGetAttribute failed: invalid argument" in words
    assert 3 == len(series["device_ns"])


@pytest.mark.slow
@pytest.mark.parametrize("where", ["made", "recorded"])
def test_events_that_fail_leave_the_hosts_clock(measured, where):
    words, series = measured(variables={"event": where})
    assert "host clock around synchronised runs" == words
    assert ["e2e_ns"] == list(series)


def test_events_that_fail_are_refused_where_they_were_asked_for(open_engine):
    with pytest.raises(
        EngineUnavailableError, match=r"--timer events: 1\.2\.0 has no HipEvent tha"
    ):
        open_engine(variables={"event": "made"}, timer="events")


def test_marks_and_the_gate_are_on_the_handles_stream(measured):
    assert "hipDNN events, behind a stall gate" == measured(variables={"stream": "7"})[0]


EMPTY_MS = 0.0005
"""The empty kernel on the double."""


class CapturingRuntime:
    """The runtime's functions for streams, captures and kernels, on the double's queue."""

    def __init__(self):
        self.queue, self.graphs, self.calls = [], {}, []

    def __getattr__(self, name):
        def call(*words):
            self.calls.append(name)
            deed = vars(type(self)).get(f"_{name}", lambda *_: None)
            return deed(self, *words) or 0

        return call

    def _hipStreamCreateWithFlags(self, made, _):
        made._obj.value = 7

    def _hipStreamBeginCapture(self, stream, _):
        self.queue = sys.modules["hipdnn_frontend.device"].queue
        assert (7, []) == (stream.value, self.queue)

    def _hipStreamEndCapture(self, _, graph):
        graph._obj.value = len(self.graphs) + 1
        self.graphs[graph._obj.value] = list(self.queue)
        self.queue.clear()

    def _hipGraphInstantiate(self, executable, graph, *_):
        executable._obj.value = graph.value

    def _hiprtcGetCodeSize(self, _, size):
        size._obj.value = 8

    def _hipModuleLaunchKernel(self, _function, *_):
        device = sys.modules["hipdnn_frontend.device"]
        device.enqueue(lambda: device.advance(EMPTY_MS))

    def _hipGraphLaunch(self, executable, _):
        self.queue.extend(self.graphs[executable.value])


@pytest.fixture
def replaying(open_engine, monkeypatch):
    """Opens the engine for replays, where the runtime is in the process."""
    library = CapturingRuntime()
    for place in ("opening", "plan"):
        name = f"bench_run.engines.hipdnn.{place}.loaded_runtime"
        monkeypatch.setattr(name, lambda: hip.Runtime(library))
    opened = open_engine
    return library, lambda spec, **options: opened(
        spec, variables={"stream": "7"}, **{"replay": True} | options
    )


@pytest.mark.parametrize("count", [4, 8, 34, 60])
def test_a_block_of_any_length_tells_the_same_time(replaying, plugin, count):
    folder = plugin("short", milliseconds=0.004)
    engine = replaying[1](f"hipdnn:MIOPEN_ENGINE@{folder}", replay=False)
    plan = engine.plan(engine.build(ADD, {}))
    plan.upload(make_inputs(ADD, 0))
    budget = SamplingBudget(warmup=1, iterations=count)
    found = measure(plan, engine.stream, budget)
    plan.close()
    assert 4000 == pytest.approx(statistics.median(found.series["device_ns"]), abs=150)
    assert 4000 < found.cost_of_marks_ns < 5000


@pytest.mark.parametrize("call", ["hiprtcCompileProgram", "hipModuleLaunchKernel"])
def test_a_kernel_that_cannot_be_compiled_or_launched_leaves_times_as_events_tell_them(
    replaying, plugin, monkeypatch, call
):
    monkeypatch.setattr(CapturingRuntime, f"_{call}", lambda *_: 6, raising=False)
    folder = plugin("short", milliseconds=0.004)
    engine = replaying[1](f"hipdnn:MIOPEN_ENGINE@{folder}", replay=False)
    assert engine.stream.abilities.empty() is None
    plan = engine.plan(engine.build(ADD, {}))
    plan.upload(make_inputs(ADD, 0))
    found = measure(plan, engine.stream, SamplingBudget(warmup=1, iterations=4))
    plan.close()
    assert min(found.series["device_ns"]) > 4000 + 1000 * 2.7
    assert 0 == found.cost_of_marks_ns


@pytest.mark.parametrize("cache", ["hot", "rotate"])
def test_an_engine_that_notes_it_is_replayed_as_one_graph(replaying, monkeypatch, cache):
    monkeypatch.setattr("bench_run.engines.hipdnn.engine.CACHE_BYTES", 4096)
    library, opened = replaying
    engine = opened("hipdnn:TEST_ENGINE", cache=cache)
    plan = engine.plan(engine.build(ADD, {}))
    inputs = make_inputs(ADD, 0)
    plan.upload(inputs)
    plan.poison()
    for _ in range(len(library.graphs)):
        plan.run()
    found = plan.download()
    plan.close()
    assert "one HIP graph for an execution" == plan.facts.chosen["replay"]
    assert (1 if cache == "hot" else 9) == library.calls.count("hipGraphLaunch")
    assert len(library.graphs) == library.calls.count("hipGraphExecDestroy")
    expect_right(inputs, found)


def test_an_engine_that_does_not_note_it_is_not_replayed(replaying):
    engine = replaying[1]("hipdnn:MIOPEN_ENGINE")
    with pytest.raises(UnsupportedGraphError, match="MIOPEN_ENGINE does not note SUPPORTS_GRAPH"):
        engine.plan(engine.build(ADD, {}))


def test_a_replay_needs_the_runtime(open_engine):
    with pytest.raises(EngineUnavailableError, match="--replay: no HIP runtime is loaded"):
        open_engine(replay=True)
