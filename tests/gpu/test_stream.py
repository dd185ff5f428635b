"""The CUDA stream: marks, the gate, cold caches, the clock probe."""

from __future__ import annotations

import statistics
import time

import pytest

from bench_run.errors import EngineError
from bench_run.streams import cuda
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


def test_an_empty_kernel_takes_what_its_record_says_after_correction(stream):
    stream.expect(1)
    median = statistics.median(times_ns(stream, launcher(stream)))
    assert abs(median - stream.correction_ns() - cuda.EMPTY_KERNEL_NS) < 300


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


def test_asking_for_too_much_memory_is_an_error_that_says_so(stream):
    with pytest.raises(EngineError, match="out of memory on the device"):
        stream.allocate(1 << 50)
