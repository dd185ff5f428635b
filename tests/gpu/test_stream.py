"""The CUDA stream: marks, the gate, cold caches, the clock probe."""

from __future__ import annotations

import ctypes
import statistics
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from bench_run.engines.base import PlanAbilities
from bench_run.errors import EngineError
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.loop import on_device
from bench_run.streams import cuda, cupti
from bench_run.streams.cuda import open_stream

pytestmark = pytest.mark.gpu


def times_ns(stream, work, count=50):
    marks = []
    with stream.gate():
        for _ in range(count):
            stream.flush()
            begin = stream.mark()
            work()
            marks.append((begin, stream.mark()))
    stream.synchronize()
    return [stream.elapsed_ns(*pair) for pair in marks]


def launcher(stream):
    kernel = stream.driver.kernel("bench_empty")
    return lambda: stream.driver.launch(kernel, stream.handle)


@pytest.mark.parametrize("count", [4, 8, 34, 60])
def test_a_kernel_takes_what_its_record_says_in_a_block_of_any_length(stream, count):
    pytest.importorskip("cupti", reason="cupti-python is not installed")
    stream.expect(1)
    kernel, place = stream.driver.kernel("bench_clock"), ctypes.c_uint64(stream._probe._result)
    words = (place, ctypes.c_uint64(5000))
    plan = SimpleNamespace(
        abilities=PlanAbilities(), run=lambda: stream.driver.launch(kernel, stream.handle, *words)
    )
    plan.run()
    stream.synchronize()
    samples = on_device(plan, stream, SamplingBudget(0, count), 0)
    names = cupti.NAMES
    try:
        cupti.NAMES = tuple(name for name in names if name != "bench_clock")
        with cupti.Recorder() as recorder:
            on_device(plan, stream, SamplingBudget(0, count), 0, corrects=False)
    finally:
        cupti.NAMES = names
    recorded = statistics.median(record.duration_ns for record in recorder.records)
    assert abs(statistics.median(samples) - recorded) < 350  # one block has only one thread


def test_nothing_passes_a_closed_gate(stream):
    stream.expect(1)
    with stream.gate():
        launcher(stream)()
        time.sleep(0.05)
        done = stream.driver._library.cuStreamQuery(stream.handle)
    stream.synchronize()
    assert 600 == done  # CUDA_ERROR_NOT_READY


def test_a_gate_opens_when_its_block_fails(stream):
    stream.expect(1)
    with pytest.raises(ValueError, match="mine"), stream.gate():  # noqa: PT012 - what is tested
        launcher(stream)()
        raise ValueError("mine")
    begin = time.monotonic()
    stream.synchronize()
    assert time.monotonic() - begin < cuda.GATE_LIMIT_S / 2


def test_a_wait_behind_the_gate_ends_and_is_counted(stream, monkeypatch):
    monkeypatch.setattr(stream._gate, "_limit", cuda.c_uint64(100_000_000))
    stream.expect(1)
    before = stream.forced_gates
    with stream.gate():
        stream.driver.call("cuStreamSynchronize", stream.handle)
    stream.synchronize()
    assert before + 1 == stream.forced_gates


def test_after_a_forced_gate_the_plan_runs_without_one(stream, monkeypatch):
    monkeypatch.setattr(stream._gate, "_limit", cuda.c_uint64(50_000_000))
    stream.expect(1)
    for _ in range(2):
        with stream.gate():
            stream.driver.call("cuStreamSynchronize", stream.handle)
        stream.synchronize()
    counted = stream.forced_gates
    stream.expect(1)
    assert counted == stream.forced_gates


def test_the_clock_probe_agrees_with_itself(stream):
    found = [stream.probe_clock_mhz() for _ in range(5)]
    assert max(found) / min(found) < 1.05


def test_launches_are_counted_without_running_them(stream):
    launch = launcher(stream)
    assert 7 == stream.launches(lambda: [launch() for _ in range(7)])


def test_a_block_as_deep_as_the_gate_allows_does_not_block_the_host(stream):
    stream.expect(1)
    before = stream.forced_gates
    times_ns(stream, launcher(stream), stream.gate_depth)
    assert before == stream.forced_gates


def test_a_cold_cache_makes_a_small_read_slower(stream):
    size = 8 << 20
    medians = {}
    for cache in ("hot", "cold"):
        other = open_stream(0, cache)
        read = other._reader(size)
        medians[cache] = statistics.median(times_ns(other, read))
    assert medians["cold"] > 1.2 * medians["hot"]


PERSISTING, STREAM_WINDOW = 2, 1
"""CU_ACCESS_PROPERTY_PERSISTING, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW"""


class Window(ctypes.Structure):
    """CUaccessPolicyWindow, as large as a CUlaunchAttributeValue."""

    _fields_ = (
        ("base_ptr", ctypes.c_void_p),
        ("num_bytes", ctypes.c_size_t),
        ("hit_ratio", ctypes.c_float),
        ("hit_property", ctypes.c_int),
        ("miss_property", ctypes.c_int),
        ("rest", ctypes.c_byte * 36),
    )


@contextmanager
def set_aside(stream, size):
    """A part of the L2 cache, for as long as the block lasts."""
    call = stream.driver._library.cuCtxSetLimit
    call.argtypes = (ctypes.c_int, ctypes.c_size_t)
    assert 0 == call(cuda.PERSISTING_L2_BYTES, size)
    try:
        yield
    finally:
        stream.synchronize()
        call(cuda.PERSISTING_L2_BYTES, 0)


def persisting_read(stream, size):
    """Reads a buffer whose lines persist."""
    buffer = stream.allocate(size)
    stream.fill(buffer, 1, size)
    window = Window(buffer, size, 1.0, PERSISTING, 0)
    set_attribute = stream.driver._library.cuStreamSetAttribute
    set_attribute.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    assert 0 == set_attribute(stream.handle, STREAM_WINDOW, ctypes.byref(window))
    kernel = stream.driver.kernel("bench_read")
    words = (buffer, size // 16, stream._scratch)
    blocks = 8 * stream.device.multiprocessors

    def read():
        arguments = map(ctypes.c_uint64, words)
        stream.driver.launch(kernel, stream.handle, *arguments, blocks=blocks, threads=256)

    return read


def test_no_part_of_the_cache_is_set_aside_unless_a_program_does_so():
    cold = open_stream(0, "cold")
    assert not cold._lines.may_be()
    with set_aside(cold, 8 << 20):
        assert cold._lines.may_be()
    assert not cold._lines.may_be()


@pytest.mark.alone
def test_lines_that_persist_do_not_make_a_cold_read_faster(stream):
    size = 8 << 20
    plain = open_stream(0, "cold")
    cold_ns = statistics.median(times_ns(plain, persisting_read(plain, size)))
    other = open_stream(0, "cold")
    with set_aside(other, size):
        found = times_ns(other, persisting_read(other, size))
        assert cuda.PERSISTING == other.no_gate_because
    assert statistics.median(found) > 0.9 * cold_ns


def test_the_wait_for_the_device_waits_for_every_stream(stream):
    other = open_stream(0)
    for _ in range(50):
        launcher(other)()
    stream.wait_for_device()
    assert 0 == other.driver._library.cuStreamQuery(other.handle)


def test_asking_for_too_much_memory_is_an_error_that_says_so(stream):
    with pytest.raises(EngineError, match="out of memory on the device"):
        stream.allocate(1 << 50)
