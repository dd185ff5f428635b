"""The CUDA driver's calls, against a library that records them."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager

import pytest

from bench_run.errors import EngineError, EngineUnavailableError
from bench_run.streams import cuda_driver
from bench_run.streams.cuda import PERSISTING, GatedStream, PersistingLines, clock_of
from bench_run.streams.cuda_driver import NAMES, PTX, Driver, uuid_text


class Function:
    """One function of the library; `argtypes` may be set as on a real one."""

    def __init__(self, library, name):
        self.library, self.name, self.argtypes = library, name, ()

    def __call__(self, *arguments):
        self.library.calls.append((self.name, arguments))
        return 0 if self.name == "cuGetErrorName" else self.library.code


class Recording:
    """Answers every call with `code` and keeps its name and arguments."""

    def __init__(self, code=0):
        self.code, self.calls, self._functions = code, [], {}

    def __getattr__(self, name):
        return self._functions.setdefault(name, Function(self, name))


def test_a_call_that_succeeds_says_nothing():
    library = Recording()
    Driver(library).call("cuStreamSynchronize", 7)
    assert [("cuStreamSynchronize", (7,))] == library.calls


def test_a_refused_call_is_an_engine_error_with_its_name_and_code():
    with pytest.raises(EngineError, match="cuMemFree_v2 ended with error 700"):
        Driver(Recording(700)).call("cuMemFree_v2", 7)


def test_out_of_memory_is_said_in_words():
    with pytest.raises(EngineError, match="out of memory on the device"):
        Driver(Recording(2)).number("cuMemAlloc_v2", 1, kind=ctypes.c_uint64)


def test_a_launch_is_one_thread_unless_more_are_asked_for():
    library = Recording()
    Driver(library).launch(ctypes.c_void_p(5), ctypes.c_void_p(9), ctypes.c_uint64(1))
    name, arguments = library.calls[-1]
    assert "cuLaunchKernel" == name
    assert (1, 1, 1, 1, 1, 1, 0) == arguments[1:8]


def test_a_kernel_is_looked_up_once():
    library = Recording()
    found = Driver(library)
    assert found.kernel("bench_empty") is found.kernel("bench_empty")
    assert ["cuModuleLoadData", "cuModuleGetFunction"] == [name for name, _ in library.calls]


def test_a_uuid_is_written_as_nvml_writes_it():
    raw = bytes(range(16))
    assert "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f" == uuid_text(raw)


def test_every_kernel_that_is_named_is_in_the_source():
    assert all(f".entry {name}(".encode() in PTX for name in NAMES)


def test_without_a_driver_the_engine_is_unavailable(monkeypatch):
    monkeypatch.setattr(cuda_driver, "LIBRARY", "libno_such_driver.so.9")
    cuda_driver.driver.cache_clear()
    with pytest.raises(EngineUnavailableError, match="no NVIDIA driver"):
        cuda_driver.driver()
    cuda_driver.driver.cache_clear()


@pytest.mark.parametrize(("timer", "clock"), [("auto", "events"), ("host", "host")])
def test_a_timer_names_its_clock(timer, clock):
    assert clock == clock_of(timer)


class Lines:
    """In place of those that persist in a cache."""

    def __init__(self, log):
        self.log, self.there = log, False

    def may_be(self):
        return self.there

    def let_go(self):
        self.log.append("let go")


class Flushing(GatedStream):
    """A stream that writes down what it is told."""

    FLUSH_LAUNCHES = 1
    clock = timer = "host"
    mark = elapsed_ns = measure_correction = probe_clock_mhz = watch = memory = None
    wait_for_device = None

    def __init__(self):
        self.log = []
        self._gate, self._lines = self, Lines(self.log)
        self._flush = lambda: self.log.append("flush")
        self._prepare()

    @contextmanager
    def closed(self):
        self.log.append("close")
        yield
        self.log.append("open")

    def synchronize(self):
        self.log.append("wait")


def block_of(stream):
    with stream.gate():
        stream.flush()
    return stream.log


def test_a_flush_behind_the_gate_asks_nothing_of_the_device():
    assert ["close", "flush", "open"] == block_of(Flushing())


def test_lines_that_persist_are_let_go_before_each_flush_on_an_idle_device_without_a_gate():
    stream = Flushing()
    stream._lines.there = True
    assert ["wait", "let go", "flush"] == block_of(stream)
    assert (1, PERSISTING) == (stream.forced_gates, stream.no_gate_because)


def test_a_plan_that_sets_a_part_of_the_cache_aside_later_makes_what_was_measured_void():
    stream = Flushing()
    block_of(stream)
    stream._lines.there = True
    before = stream.forced_gates
    block_of(stream)
    block_of(stream)
    assert before + 1 == stream.forced_gates


def test_hot_caches_have_nothing_to_let_go():
    stream = Flushing()
    stream._flush, stream._lines.there = None, True
    assert ["close", "open"] == block_of(stream)


@pytest.mark.parametrize(("code", "size"), [(0, 0), (215, 0)])
def test_a_device_without_such_a_part_keeps_no_lines(code, size):
    assert bool(size) == PersistingLines(Driver(Recording(code))).may_be()
