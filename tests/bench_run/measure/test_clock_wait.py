"""Waiting for a device's clock, on a clock that is scripted and a device that is told."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from bench_run.measure import clock_wait as module
from bench_run.measure.clock_wait import clock_is_back, wait_for_clock
from bench_run.streams.base import StreamAbilities


class Scripted:
    """A stream whose probe reads these clocks; the last one for ever."""

    def __init__(self, *clocks_mhz):
        self._clocks = itertools.chain(clocks_mhz, itertools.repeat(clocks_mhz[-1]))
        self.probes = 0

    @property
    def abilities(self):
        return StreamAbilities(probe_clock_mhz=self._probe_clock_mhz)

    def _probe_clock_mhz(self):
        self.probes += 1
        return next(self._clocks)


@pytest.fixture(autouse=True)
def device(monkeypatch):
    monkeypatch.setattr(module, "highest_clock_mhz", {"gpu": 1980.0}.get)
    monkeypatch.setattr(module, "_reachable_mhz", {})
    monkeypatch.setattr(module, "MOST_S", 0.05)


def test_it_rests_until_the_clock_is_back():
    stream = Scripted(1530.0, 1965.0, 1978.0, 1980.0)
    wait_for_clock("gpu", stream, 0.001)
    assert stream.probes == 3


def test_a_cool_device_costs_one_probe():
    stream = Scripted(1980.0)
    wait_for_clock("gpu", stream, 0.001)
    assert stream.probes == 1


def test_a_device_that_never_gets_there_is_waited_for_once():
    wait_for_clock("gpu", Scripted(1500.0), 0.01)
    stream = Scripted(1500.0)
    wait_for_clock("gpu", stream, 0.01)
    assert stream.probes == 1


@pytest.mark.parametrize(("name", "rest_s"), [("gpu", 0.0), ("unknown", 0.01)])
def test_sustained_duty_and_unknown_devices_are_not_waited_for(name, rest_s):
    stream = Scripted(1000.0)
    wait_for_clock(name, stream, rest_s)
    assert stream.probes == 0


def test_a_stream_without_a_clock_is_not_waited_for():
    stream = SimpleNamespace(abilities=StreamAbilities())
    assert wait_for_clock("gpu", stream, 0.01) is None


@pytest.mark.parametrize(("mhz", "back"), [(1500.0, False), (1980.0, True)])
def test_whether_there_is_anything_to_wait_for_is_told_without_waiting(mhz, back):
    stream = Scripted(mhz)
    assert back is clock_is_back("gpu", stream, 0.01)
    assert stream.probes == 1
