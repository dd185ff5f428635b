"""The CUDA driver's calls, against a library that records them."""

from __future__ import annotations

import pytest

from bench_run.errors import EngineError
from bench_run.streams.driver import Driver


class Recording:
    """Answers every call with `code` and keeps its name and arguments."""

    def __init__(self, code=0):
        self.code, self.calls = code, []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, [getattr(a, "value", a) for a in arguments]))
            return self.code

        return call


def test_a_wait_names_stream_address_and_least_value():
    library = Recording()
    Driver(library).wait_value(7, 4096, 3)
    assert [("cuStreamWaitValue32_v2", [7, 4096, 3, 0])] == library.calls


def test_the_value_wraps_around_at_32_bits():
    library = Recording()
    Driver(library).wait_value(7, 4096, 2**32 + 5)
    assert 5 == library.calls[0][1][2]


def test_a_refused_wait_is_an_engine_error():
    with pytest.raises(EngineError, match="CUDA error 801"):
        Driver(Recording(801)).wait_value(7, 4096, 3)


def test_an_empty_kernel_that_does_not_load_is_none():
    assert Driver(Recording(200)).empty_kernel(7) is None


def test_the_empty_kernel_is_one_thread():
    library = Recording()
    launch = Driver(library).empty_kernel(7)
    launch()
    name, arguments = library.calls[-1]
    assert "cuLaunchKernel" == name
    assert [1, 1, 1, 1, 1, 1, 0, 7] == arguments[1:9]


def test_where_there_is_no_driver_there_is_none(monkeypatch):
    monkeypatch.setattr("bench_run.streams.driver.LIBRARY", "libno_such_driver.so.9")
    assert Driver.load() is None
