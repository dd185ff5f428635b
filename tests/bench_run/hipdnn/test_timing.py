"""Clocks, the gate and waiting, in every combination that a release may leave us with."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from bench_run.engines.base import PlanAbilities
from bench_run.engines.hipdnn import timing
from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError
from bench_run.measure.loop import SamplingBudget, measure, on_device
from bench_run.streams import hip
from bench_run.streams.hip import GATE_DEPTH, HipStream
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


class Events:
    name = "scripted events"

    def __init__(self):
        self.now_ms = 0.0

    def record(self):
        self.now_ms += 1.5
        return self.now_ms

    def elapsed_ms(self, begin, end):
        return end - begin


class StallGate:
    """Scripted; `forced` is what its watchdog says after each block."""

    def __init__(self, *, forced=False, refuses=None):
        self.calls, self.forced, self.refuses = [], forced, refuses

    def arm(self, stream):
        if self.refuses is not None:
            raise RuntimeError(self.refuses)
        self.calls.append(f"arm {stream}")

    def release(self):
        self.calls.append("release")

    def timed_out(self):
        return self.forced


def stream_with(gate, **options):
    return HipStream(lambda: None, Events(), gate, number=7, **options)


def test_a_gate_is_closed_around_the_block_on_the_stream_of_the_work():
    gate = StallGate()
    stream = stream_with(gate)
    stream.attach(lambda: None)
    with stream.gate():
        gate.calls.append("work")
    assert ["arm 7", "work", "release"] == gate.calls


def test_a_plan_that_waits_behind_the_gate_is_timed_without_it():
    stream = stream_with(StallGate(forced=True))
    stream.attach(lambda: None)
    assert (GATE_DEPTH, 0.0, 0) == (stream.gate_depth, stream.correction_ns(), stream.gate_depth)
    assert stream.timing.startswith("scripted events, no gate")


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


def test_a_gate_that_refuses_to_close_is_gone_for_the_process_with_its_words():
    stream = stream_with(StallGate(refuses="disabled after a stall watchdog timeout"))
    for _ in range(2):
        stream.attach(lambda: None)
        with stream.gate():
            pass
        assert stream.gate_depth == 0
    words = "the gate does not close: disabled after a stall watchdog timeout"
    assert (words, 0, False) == (stream.no_gate_because, stream.forced_gates, stream.gate_is_gone)
    assert stream.timing.endswith(f"({words})")


def test_a_gate_that_closed_before_and_refuses_is_one_that_a_new_process_has():
    gate = StallGate()
    stream = stream_with(gate)
    stream.attach(lambda: None)
    for _ in range(2):
        with stream.gate():
            pass
        stream.synchronize()
        gate.refuses = "disabled after a stall watchdog timeout"
    assert stream.gate_is_gone


def test_a_gate_whose_word_cannot_be_had_voids_its_block():
    gate = StallGate()
    gate.timed_out = lambda: 1 // 0
    stream = stream_with(gate)
    stream.attach(lambda: None)
    assert (0.0, 0, 1) == (stream.correction_ns(), stream.gate_depth, stream.forced_gates)
    assert "HipStallGate.timed_out: " in stream.no_gate_because


def test_a_plan_is_measured_without_a_gate_where_that_is_asked_for():
    stream = stream_with(StallGate())
    stream.attach(lambda: None)
    stream.leave_gate_open("it was forced open in another round")
    assert (0, "it was forced open in another round") == (
        stream.gate_depth,
        stream.no_gate_because,
    )
    stream.attach(lambda: None)
    assert (GATE_DEPTH, None) == (stream.gate_depth, stream.no_gate_because)


class Plan:
    abilities = PlanAbilities()

    def run(self):
        """Enqueues nothing: the scripted events tell the time."""


def test_a_forced_block_is_dropped_and_the_graph_measured_again_without_gate():
    gate = StallGate()
    stream = stream_with(gate)
    stream.attach(lambda: None)
    blocks = []

    def wait():
        blocks.append(stream.gate_depth)
        gate.forced = len(blocks) == 3  # the trial and the first block are fine

    stream._wait = wait
    samples = on_device(Plan(), stream, SamplingBudget(0, 100), 0)
    assert ([GATE_DEPTH] * 3 + [0] * 100, 100) == (blocks, len(samples))


def test_the_next_plan_gets_its_own_trial():
    gate = StallGate(forced=True)
    stream = stream_with(gate)
    stream.attach(lambda: None)
    stream.correction_ns()
    stream.attach(lambda: None)
    assert GATE_DEPTH == stream.gate_depth


def test_a_plan_is_tried_once():
    runs = []
    stream = stream_with(StallGate())
    stream.attach(lambda: runs.append(1))
    stream.correction_ns()
    stream.correction_ns()
    assert [1] == runs


def test_milliseconds_become_nanoseconds():
    stream = stream_with(None)
    assert 1_500_000 == stream.elapsed_ns(stream.mark(), stream.mark())


def test_a_wait_that_fails_is_an_engines_failure():
    def fail():
        raise RuntimeError("hipErrorLaunchFailure")

    with pytest.raises(EngineError, match="synchronise: hipErrorLaunchFailure"):
        HipStream(fail, None).synchronize()


class CapturingRuntime:
    """The runtime's functions for streams and captures, on the double's queue."""

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
        spec, variables={"stream": "7"}, replay=True, **options
    )


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


def test_a_call_of_the_runtime_that_fails_names_it_and_the_error():
    library = SimpleNamespace(hipMemsetAsync=lambda *_: 100)
    with pytest.raises(hip.HipError, match="hipMemsetAsync failed with HIP error 100"):
        hip.Runtime(library).memset(0, 0, 4, 0)


def test_the_runtime_is_the_one_that_is_loaded(tmp_path):
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n")
    assert hip.loaded_runtime(str(maps)) is None
