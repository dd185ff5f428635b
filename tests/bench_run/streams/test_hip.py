"""A HIP stream on scripted events and gates: what is held back, what is void, what is said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench_run.engines.base import PlanAbilities
from bench_run.errors import EngineError
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.loop import on_device
from bench_run.streams import hip
from bench_run.streams.hip import GATE_DEPTH, HipStream


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
    assert (GATE_DEPTH, None, 0) == (stream.gate_depth, stream.try_gate(), stream.gate_depth)
    assert stream.timing.startswith("scripted events, no gate")


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
    stream.try_gate()
    assert (0, 1) == (stream.gate_depth, stream.forced_gates)
    assert "HipStallGate.timed_out: " in stream.no_gate_because


class Plan:
    abilities = PlanAbilities()

    def run(self):
        """Enqueues nothing: the scripted events tell the time."""


def test_the_next_plan_gets_its_own_trial():
    gate = StallGate(forced=True)
    stream = stream_with(gate)
    stream.attach(lambda: None)
    stream.try_gate()
    stream.attach(lambda: None)
    assert GATE_DEPTH == stream.gate_depth


def test_a_plan_is_tried_once():
    runs = []
    stream = stream_with(StallGate())
    stream.attach(lambda: runs.append(1))
    stream.try_gate()
    stream.try_gate()
    assert [1] == runs


def test_milliseconds_become_nanoseconds():
    stream = stream_with(None)
    assert 1_500_000 == stream.elapsed_ns(stream.mark(), stream.mark())


def test_a_wait_that_fails_is_an_engines_failure():
    def fail():
        raise RuntimeError("hipErrorLaunchFailure")

    with pytest.raises(EngineError, match="synchronise: hipErrorLaunchFailure"):
        HipStream(fail, None).synchronize()


def test_a_call_of_the_runtime_that_fails_names_it_and_the_error():
    library = SimpleNamespace(hipMemsetAsync=lambda *_: 100)
    with pytest.raises(hip.HipError, match="hipMemsetAsync failed with HIP error 100"):
        hip.Runtime(library).memset(0, 0, 4, 0)


def test_the_runtime_is_the_one_that_is_loaded(tmp_path):
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n")
    assert hip.loaded_runtime(str(maps)) is None


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


def test_a_forced_block_is_dropped_and_the_graph_measured_again_without_gate():
    gate = StallGate()
    stream = stream_with(gate)
    stream.attach(lambda: None)
    blocks = []

    def wait():
        blocks.append(stream.gate_depth)
        gate.forced = len(blocks) == 3  # the trial and the first block are fine

    stream._wait = wait
    stream.try_gate()
    samples = on_device(Plan(), stream, SamplingBudget(0, 100), 0)
    assert ([GATE_DEPTH] * 3 + [0] * 100, 100) == (blocks, len(samples))
