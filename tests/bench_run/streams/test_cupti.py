"""CUPTI's bindings as every release from 13.0 to 13.4 names them; what fails costs the records."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from enum import IntEnum
from types import ModuleType, SimpleNamespace

import pytest

from bench_run.errors import EngineError, EngineUnavailableError
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.kernel_pass import prepare_records, record_kernels
from bench_run.measure.loop import Measured
from bench_run.streams import cupti
from bench_run.streams.base import StreamAbilities

Kinds = IntEnum("Kinds", "CONCURRENT_KERNEL MEMSET MEMCPY RUNTIME DRIVER")
Domains = IntEnum("Domains", "DRIVER_API RUNTIME_API")
Calls = IntEnum("Calls", list(cupti.LocalMemory.LAUNCHES))
LONG = Measured({"e2e_ns": []}, {"device_ns": [900_000] * 2, "e2e_ns": [1, 2]}, "iterations")


class Bindings(ModuleType):
    """The functions of the package: it completes one kernel for each flush."""

    ActivityKind, CallbackDomain = Kinds, Domains

    def __init__(self, calls="DriverApiTraceCbid", breaks=""):
        super().__init__("cupti.cupti")
        setattr(self, calls, Calls)
        self.breaks, self.enabled, self.subscribers = breaks, set(), []

    def __getattribute__(self, name):
        own = object.__getattribute__
        if name == own(self, "__dict__").get("breaks"):

            def broken(*_):
                raise AttributeError(f"module 'cupti.cupti' has no attribute {name!r}")

            return broken
        return own(self, name)

    def activity_register_callbacks(self, requested, completed):
        self.completed = completed

    def activity_enable(self, kind):
        self.enabled.add(kind)

    def activity_disable(self, kind):
        self.enabled.discard(kind)

    def activity_flush_all(self, _):
        self.completed([self.activity()])

    def activity(self):
        names = ("static_shared_memory", "dynamic_shared_memory", "registers_per_thread")
        sizes = dict.fromkeys((*names, "device_id"), 0)
        return SimpleNamespace(kind=Kinds.CONCURRENT_KERNEL, name="k", start=1, end=5, **sizes)

    def subscribe(self, function, _):
        self.subscribers.append(function)
        return 0

    def enable_callback(self, *_):
        """Nothing is called here."""

    def unsubscribe(self, number):
        del self.subscribers[number]


@pytest.fixture
def bind(monkeypatch):
    def put(bindings):
        package = ModuleType("cupti")
        package.cupti = bindings
        monkeypatch.setitem(sys.modules, "cupti", package)
        monkeypatch.setattr(cupti, "available", lambda: True)
        cupti.prepare.cache_clear()
        return bindings

    yield put
    cupti.prepare.cache_clear()


def stream():
    abilities = StreamAbilities(kernel_timer="auto")
    return SimpleNamespace(
        abilities=abilities, gate_depth=0, gate=nullcontext, synchronize=lambda: None
    )


def plan():
    return SimpleNamespace(run=lambda: None, abilities=SimpleNamespace(uncaptured=None))


@pytest.mark.parametrize("name", cupti.DRIVER_CALLS)
def test_the_driver_s_calls_have_two_names(bind, name):
    bindings = bind(Bindings(name))
    with cupti.LocalMemory():
        assert bindings.subscribers
    assert not bindings.subscribers


BROKEN = ("activity_register_callbacks", "activity_enable", "activity_flush_all", "activity")


@pytest.mark.parametrize("name", [*BROKEN, "enable_callback", "subscribe", "unsubscribe"])
def test_a_call_that_fails_costs_the_records_only(bind, name):
    bindings = bind(Bindings(breaks=name))
    prepare_records(stream())
    found = record_kernels(plan(), stream(), SamplingBudget(0, 2), LONG)
    assert LONG == found.measured
    assert not bindings.enabled
    if name in BROKEN:
        assert found.notes[0].startswith("CUPTI does not record: AttributeError: ")
        assert repr(name) in found.notes[0]


def test_names_that_are_gone_cost_the_records_only(bind):
    bind(Bindings("renamed"))
    found = record_kernels(plan(), stream(), SamplingBudget(0, 2), LONG)
    assert ("k",) == tuple(kernel.name for kernel in found.kernels)
    assert "no attribute 'driver_api_trace_cbid'" in found.notes[0]


def test_a_package_that_does_not_load_is_said(bind, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupti", None)
    monkeypatch.setattr(cupti, "available", lambda: True)
    found = record_kernels(plan(), stream(), SamplingBudget(0, 2), LONG)
    assert found.notes[0].startswith("CUPTI does not load: ")


@pytest.mark.parametrize("name", ["activity_flush_all", ""])
def test_the_error_of_a_block_is_the_block_s_own(bind, name):
    bind(Bindings(breaks=name))
    with pytest.raises(EngineError, match="misaligned"), cupti.Recorder():
        raise EngineError("misaligned address")


def test_the_clock_of_the_records_may_be_missing(bind):
    bind(Bindings(breaks="get_timestamp"))
    with pytest.raises(EngineUnavailableError, match="get_timestamp"):
        cupti.timestamp_ns()
