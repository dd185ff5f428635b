"""At most one case is measured on a device; the cases of a group follow each other, in order."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import StoppedError
from bench_run.machine import device_lock
from bench_run.machine.device_lock import DeviceLock
from bench_run.runner.parallel.gate import DeviceGate
from tests.support import examples

LIMIT_S = 20.0


class Device:
    """Keeps account of who uses it, and of what happened to whom first."""

    def __init__(self):
        self.lock, self.alone, self.shared = threading.Lock(), [], []
        self.measured, self.problems = [], []

    def use(self, name, alone, seconds=0.001):
        users = self.alone if alone else self.shared
        with self.lock:
            users.append(name)
            self.look()
        time.sleep(seconds)
        with self.lock:
            self.look()
            users.remove(name)
            if alone:
                self.measured.append(name)

    def look(self):
        if self.alone and (len(self.alone) > 1 or self.shared):
            self.problems.append((list(self.alone), list(self.shared)))


def work(turn, device, name, way="fine"):
    try:
        turn.claim("shared")
        device.use(name, alone=False)
        turn.claim("free")
        if way == "fails":
            return
        turn.claim("alone")
        if way in ("cools", "fails while it cools"):
            turn.claim("cooling")
            device.use(name, alone=False)
            if way != "cools":
                return
            turn.claim("alone")
        device.use(name, alone=True)
        turn.claim("shared")
        device.use(name, alone=False)
    finally:
        turn.end()


def run_all(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads), "somebody waits for ever"


ways = st.sampled_from(("fine", "fails", "cools", "fails while it cools"))
groups = st.lists(st.lists(ways, min_size=1, max_size=3), min_size=1, max_size=5)


@settings(max_examples=examples(25), deadline=None)
@given(groups)
def test_at_most_one_measures_none_starves_and_the_order_of_a_group_holds(planned):
    gate, device, threads = DeviceGate(), Device(), []
    for number, group in enumerate(planned):
        turns = enumerate(zip(gate.turns(len(group)), group, strict=True))
        threads += [
            threading.Thread(target=work, args=(turn, device, f"{number}.{place}", way))
            for place, (turn, way) in turns
        ]
    run_all(threads)
    assert not device.problems
    by_group = [name.split(".")[0] for name in device.measured]
    assert len(set(by_group)) == sum(
        a != b for a, b in zip(by_group, [None, *by_group], strict=False)
    )
    expected = {
        f"{n}.{p}" for n, g in enumerate(planned) for p, way in enumerate(g) if "fails" not in way
    }
    assert expected == set(device.measured)
    for number in set(by_group):
        own = [name for name in device.measured if name.split(".")[0] == number]
        assert own == sorted(own)


def test_while_a_device_cools_others_touch_it():
    gate = DeviceGate()
    (first,), (second,) = gate.turns(1), gate.turns(1)
    first.claim("alone")
    first.claim("cooling")
    second.claim("shared")  # would wait for ever
    goes_on = threading.Thread(target=first.claim, args=("alone",))
    goes_on.start()
    goes_on.join(0.1)
    assert goes_on.is_alive(), "it measures while another one touches the device"
    second.claim("free")
    goes_on.join(LIMIT_S)
    assert not goes_on.is_alive()
    first.end()
    second.end()


def test_while_a_device_cools_nobody_touches_it_where_another_case_is_ready():
    """Who cools waits until nobody touches it, which takes longer than cooling."""
    gate = DeviceGate()
    turns = [gate.turns(1)[0] for _ in range(3)]
    turns[0].claim("alone")
    waits = [
        threading.Thread(target=turns[1].claim, args=("alone",)),
        threading.Thread(target=turns[2].claim, args=("shared",)),
    ]
    waits[0].start()
    while len(gate._queue) < 2:
        time.sleep(0.001)
    turns[0].claim("cooling")
    waits[1].start()
    waits[1].join(0.1)
    assert waits[1].is_alive(), "it touches the device"
    turns[0].claim("alone")
    for turn, thread in zip(turns, (None, *waits), strict=True):
        if thread is not None:
            thread.join(LIMIT_S)
        turn.end()
    assert [False, False] == [thread.is_alive() for thread in waits]


def test_two_runs_do_not_wait_for_each_other_while_a_device_cools(tmp_path):
    """One waits for whoever touches the device, who waits behind the other run's door."""
    one, other = (DeviceGate(DeviceLock(["GPU-1"], tmp_path)) for _ in range(2))
    (cools,), (touches,), (measures,) = one.turns(1), one.turns(1), other.turns(1)
    cools.claim("alone")
    cools.claim("cooling")
    threads = []
    for turn, use in ((measures, "alone"), (touches, "shared"), (cools, "alone")):
        threads.append(threading.Thread(target=lambda t=turn, u=use: (t.claim(u), t.end())))
        threads[-1].start()
        time.sleep(0.05)  # each waits for those before it
    for thread in threads:
        thread.join(LIMIT_S)
    ended = [not thread.is_alive() for thread in threads]
    one.stop()
    other.stop()
    assert [True] * 3 == ended


def test_a_stopped_run_waits_for_nobody():
    gate = DeviceGate()
    (first,), (second,) = gate.turns(1), gate.turns(1)
    first.claim("alone")
    ended = []

    def wait():
        try:
            second.claim("shared")
        except StoppedError:
            ended.append("stopped")
        finally:
            second.end()

    thread = threading.Thread(target=wait)
    thread.start()
    gate.stop()
    thread.join(LIMIT_S)
    assert ["stopped"] == ended


def test_two_runs_on_one_device_do_not_measure_at_once(tmp_path):
    runs = [DeviceGate(DeviceLock(["GPU-1"], tmp_path)) for _ in range(2)]
    device = Device()
    threads = [
        threading.Thread(target=work, args=(gate.turns(1)[0], device, name))
        for number, gate in enumerate(runs)
        for name in (f"{number}.0", f"{number}.1", f"{number}.2")
    ]
    run_all(threads)
    assert not device.problems
    assert 6 == len(device.measured)


def test_runs_on_two_devices_do_not_wait_for_each_other(tmp_path):
    one, two = (DeviceGate(DeviceLock([uuid], tmp_path)) for uuid in ("GPU-1", "GPU-2"))
    (first,), (second,) = one.turns(1), two.turns(1)
    begin = time.monotonic()
    first.claim("alone")
    second.claim("alone")
    first.end()
    second.end()
    assert time.monotonic() - begin < LIMIT_S


def test_whoever_wants_to_measure_is_not_kept_waiting_by_those_who_come_later(tmp_path):
    lock = DeviceLock(["GPU-1"], tmp_path)
    before, order = lock.acquire(alone=False), []

    def take(name, alone):
        held = lock.acquire(alone=alone)
        order.append(name)
        time.sleep(0.05)
        held.release()

    measuring = threading.Thread(target=take, args=("measures", True))
    measuring.start()
    time.sleep(0.1)
    later = threading.Thread(target=take, args=("touches", False))
    later.start()
    time.sleep(0.1)
    before.release()
    measuring.join(LIMIT_S)
    later.join(LIMIT_S)
    assert ["measures", "touches"] == order


def test_a_killed_process_leaves_no_lock(tmp_path):
    import os
    import signal

    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        held = DeviceLock(["GPU-1"], tmp_path).acquire(alone=True)
        os.write(told, b"x")
        time.sleep(60)
        held.release()
        os._exit(0)
    os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    begin = time.monotonic()
    held = DeviceLock(["GPU-1"], tmp_path).acquire(alone=True)
    held.release()
    assert time.monotonic() - begin < 1


def test_a_folder_that_cannot_be_used_is_said_and_stops_nobody(tmp_path):
    (tmp_path / "file").write_text("")
    lock = DeviceLock(["GPU-1"], tmp_path / "file")
    assert not lock.acquire(alone=True)
    assert "no lock in" in lock.problem


def test_a_run_that_waits_for_another_says_so_once(tmp_path, monkeypatch):
    monkeypatch.setattr(device_lock, "TOLD_S", 0.05)
    told, until = [], time.monotonic() + 0.3
    held = DeviceLock(["GPU-1"], tmp_path).acquire(alone=True)
    waiting = DeviceLock(["GPU-1"], tmp_path, told.append)
    waiting.acquire(alone=True, stopped=lambda: time.monotonic() > until).release()
    held.release()
    said = f"note: another run has used GPU-1 for 0.05 s and is waited for (locks in {tmp_path})"
    assert [said] == told


@pytest.mark.parametrize("alone", [True, False])
def test_a_lock_that_is_no_longer_wanted_is_not_waited_for(tmp_path, alone):
    lock = DeviceLock(["GPU-1"], tmp_path)
    held = lock.acquire(alone=True)
    begin = time.monotonic()
    lock.acquire(alone=alone, stopped=lambda: True).release()
    held.release()
    assert time.monotonic() - begin < LIMIT_S
