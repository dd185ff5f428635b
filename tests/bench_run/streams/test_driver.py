"""The CUDA driver's calls, against a library that records them."""

from __future__ import annotations

import ctypes

import pytest

from bench_run.errors import EngineError, EngineUnavailableError
from bench_run.streams import cuda_driver
from bench_run.streams.cuda import clock_of
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
