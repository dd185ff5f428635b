"""Clocks, the gate and waiting, in every combination that a release may leave us with."""

from __future__ import annotations

import ctypes
import sys
import threading
from types import SimpleNamespace

import pytest

from bench_run.engines.base import PlanAbilities
from bench_run.engines.hipdnn import timing
from bench_run.engines.hipdnn.loading import Library
from bench_run.errors import EngineError, EngineUnavailableError
from bench_run.measure.loop import SamplingBudget, measure, on_device
from bench_run.streams import hip
from bench_run.streams.hip import GATE_DEPTH, HipPythonEvents, HipStream, WatchedGate
from bench_run.tensors.seeded.inputs import make_inputs
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
def test_a_release_without_events_is_timed_by_the_host_and_says_so(measured):
    words, series = measured("old")
    assert "host clock around synchronised runs" == words
    assert ["e2e_ns"] == list(series)


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


def test_events_that_are_nowhere_are_refused_where_they_were_asked_for(open_engine):
    with pytest.raises(
        EngineUnavailableError, match=r"--timer events: 0\.1\.0 has no HipEvent that works"
    ):
        open_engine(profile="old", timer="events")


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
    held = None if gate is None else WatchedGate(gate, 7, gate.timed_out)
    return HipStream(lambda: None, Events(), held, **options)


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


def test_a_gate_without_watchdog_is_opened_by_ours():
    gate = StallGate()
    held, waited = WatchedGate(gate, 0, None, limit_s=0.01), threading.Event()
    with held.closed():
        while "release" not in gate.calls:
            waited.wait(0.005)
    assert (["arm 0", "release"], True) == (gate.calls, held.was_forced())


def test_a_watchdog_of_the_release_is_watched_by_ours():
    gate = StallGate()
    held, waited = WatchedGate(gate, 0, gate.timed_out, limit_s=0.01), threading.Event()
    with held.closed():
        while "release" not in gate.calls:
            waited.wait(0.005)
    assert (["arm 0", "release"], False, True) == (gate.calls, gate.timed_out(), held.was_forced())


def test_the_watchdog_of_the_release_comes_before_ours():
    alone, watched = (WatchedGate(StallGate(), 0, told)._limit_s for told in (None, lambda: False))
    assert alone < watched


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["middle", "hard", "newest"])
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
@pytest.mark.parametrize("profile", ["middle", "hard", "newest"])
def test_events_that_fail_leave_the_hosts_clock(measured, profile, where):
    words, series = measured(profile, {"event": where})
    assert "host clock around synchronised runs" == words
    assert ["e2e_ns"] == list(series)


def test_events_that_fail_are_refused_where_they_were_asked_for(open_engine):
    with pytest.raises(
        EngineUnavailableError, match=r"--timer events: 1\.2\.0 has no HipEvent tha"
    ):
        open_engine(variables={"event": "made"}, timer="events")


@pytest.mark.parametrize("told", [7, None, SimpleNamespace(__int__=None)])
def test_a_stream_is_read_in_each_form_or_refused_in_one_sentence(told):
    if isinstance(told, SimpleNamespace):
        with pytest.raises(EngineUnavailableError, match="gives a SimpleNamespace, from which no"):
            timing.pointer_of(told, "Handle.get_stream")
    else:
        assert (told or 0) == timing.pointer_of(told, "Handle.get_stream")


def test_the_modules_get_stream_serves_where_the_handles_is_missing(measured):
    found = {"without": "Handle.get_stream", "stream": "7"}
    assert "hipDNN events, behind a stall gate" == measured(variables=found)[0]


def test_a_handle_without_a_stream_is_given_the_default_one(measured):
    assert "hipDNN events, behind a stall gate" == measured(variables={"stream": "none"})[0]


def test_a_block_that_ends_in_time_is_not_forced():
    held = WatchedGate(StallGate(), 0, None)
    with held.closed():
        pass
    assert not held.was_forced()


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


class Runtime:
    """The HIP runtime's functions as ctypes would call them."""

    def __init__(self, code=0):
        self.code, self.calls = code, []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append(name)
            if name == "hipEventElapsedTime":
                ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_float))[0] = 0.25
            return self.code

        return call


def test_the_runtimes_events_are_made_once_and_used_in_turn():
    library = Runtime()
    events = hip.RuntimeEvents(hip.Runtime(library), 2)
    first, second, third = (events.record() for _ in range(3))
    assert (first is third, 0.25) == (True, events.elapsed_ms(first, second))
    assert ["hipEventCreate"] * 2 == library.calls[:2]


def test_a_call_of_the_runtime_that_fails_names_it_and_the_error():
    with pytest.raises(hip.HipError, match="hipEventCreate failed with HIP error 100"):
        hip.RuntimeEvents(hip.Runtime(Runtime(100)), 1)


def test_the_runtime_is_the_one_that_is_loaded(tmp_path):
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n")
    assert hip.loaded_runtime(str(maps)) is None


def test_events_of_hip_python_stand_in():
    bindings = SimpleNamespace(
        hipEventCreate=lambda: (0, object()),
        hipEventRecord=lambda event, stream: (0,),
        hipEventElapsedTime=lambda begin, end: (0, 0.125),
    )
    events = HipPythonEvents(bindings, 2)
    assert 0.125 == events.elapsed_ms(events.record(), events.record())


@pytest.mark.parametrize(
    ("have", "expected"),
    [
        ({"hip_stream_synchronize", "hip_device_synchronize"}, "stream"),
        ({"hip_device_synchronize"}, "device"),
        (set(), "copy"),
    ],
)
def test_waiting_takes_the_narrowest_function_there_is(have, expected):
    calls = []
    buffer = SimpleNamespace(copy_to_host=lambda: calls.append("copy") or b"")
    module = SimpleNamespace(DeviceBuffer=lambda size: buffer)
    if "hip_stream_synchronize" in have:
        module.hip_stream_synchronize = lambda stream: calls.append("stream")
    if "hip_device_synchronize" in have:
        module.hip_device_synchronize = lambda: calls.append("device")
    module.Graph = object
    timing.waiter(Library(module, "test"), 0)()
    assert [expected] == calls
