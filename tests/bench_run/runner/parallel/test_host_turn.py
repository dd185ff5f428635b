"""Several devices of a host: whoever measures alone has no companion, and nobody waits for ever."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.machine.device_lock import lock_folder
from bench_run.runner.parallel import baton
from bench_run.runner.parallel.baton import Baton, HostTurn
from bench_run.runner.parallel.beside import DeviceBatons
from tests.bench_run.runner.parallel.test_baton import LIMIT_S, run_all
from tests.support import examples


class Host:
    """Keeps account of who measures, and of who had company."""

    def __init__(self):
        self.lock, self.active, self.problems, self.company = threading.Lock(), {}, [], set()

    def measure(self, device, name, beside):
        with self.lock:
            self.active[name] = device, beside
            self._look()
        time.sleep(0.002)
        with self.lock:
            del self.active[name]

    def _look(self):
        if len(self.active) < 2:
            return
        self.company |= set(self.active)
        devices = [device for device, _ in self.active.values()]
        if not all(beside for _, beside in self.active.values()) or len(set(devices)) < len(
            devices
        ):
            self.problems.append(dict(self.active))


def work(turn, host, device, name, beside, cools):
    try:
        turn.claim("shared")
        time.sleep(0.001)
        turn.claim("free")
        turn.claim("alone")
        if cools:
            turn.claim("cooling")
            time.sleep(0.001)
            turn.claim("alone")
        host.measure(device, name, beside)
        turn.claim("shared")
        time.sleep(0.001)
    finally:
        turn.end()


def threads_of(batons, host, plan):
    """`plan`: of each case its device, whether others may measure meanwhile, whether it cools."""
    for number, (device, beside, cools) in enumerate(plan):
        name = str(number)
        turn = batons[device].group([name], beside=beside).turn(name)
        yield threading.Thread(target=work, args=(turn, host, device, name, beside, cools))


CASES = st.tuples(st.integers(0, 2), st.booleans(), st.booleans())


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(CASES, min_size=1, max_size=12))
def test_whoever_is_to_be_alone_is_and_nobody_waits_for_ever(plan):
    turn, host = HostTurn(), Host()
    batons = [Baton(host=turn) for _ in range(3)]
    run_all(list(threads_of(batons, host, plan)))
    assert [] == host.problems


def test_devices_measure_at_the_same_time_where_they_may():
    turn, host = HostTurn(), Host()
    batons = [Baton(host=turn) for _ in range(2)]
    run_all(list(threads_of(batons, host, [(n % 2, True, False) for n in range(12)])))
    assert host.company


def test_whoever_is_to_be_alone_waits_while_its_device_goes_on_with_others(monkeypatch):
    monkeypatch.setattr(baton, "IDLE_PATIENCE_S", LIMIT_S)
    turn = HostTurn()
    one, two = Baton(host=turn), Baton(host=turn)
    elsewhere = two.group(["x"], beside=True).turn("x")
    elsewhere.claim("alone")
    alone = one.group(["a"]).turn("a")
    waiting = threading.Thread(target=alone.claim, args=("alone",))
    beside = one.group(["b"], beside=True).turn("b")
    going_on = threading.Thread(target=beside.claim, args=("alone",))
    waiting.start()
    going_on.start()
    going_on.join(LIMIT_S)
    assert (False, True) == (going_on.is_alive(), waiting.is_alive())
    beside.end()
    elsewhere.end()
    waiting.join(LIMIT_S)
    alone.end()
    assert not waiting.is_alive()


def test_a_case_that_cools_before_it_is_alone_keeps_nobody_from_measuring():
    turn = HostTurn()
    one, two = Baton(host=turn), Baton(host=turn)
    cools = one.group(["a"]).turn("a")
    cools.claim("alone")
    cools.claim("cooling")
    beside = two.group(["x"], beside=True).turn("x")
    beside.claim("alone")  # would wait for ever
    going_on = threading.Thread(target=cools.claim, args=("alone",))
    going_on.start()
    while not turn._door:
        going_on.join(0.001)
        assert going_on.is_alive(), "it measures while another device does"
    behind = two.group(["y"], beside=True).turn("y")
    waiting = threading.Thread(target=behind.claim, args=("alone",))
    waiting.start()
    beside.end()
    going_on.join(LIMIT_S)
    assert (False, True) == (going_on.is_alive(), waiting.is_alive())
    cools.end()
    waiting.join(LIMIT_S)
    behind.end()
    assert not waiting.is_alive()


def test_a_case_that_cools_keeps_nobody_from_being_alone():
    turn = HostTurn()
    one, two = Baton(host=turn), Baton(host=turn)
    cools = two.group(["x"], beside=True).turn("x")
    cools.claim("alone")
    cools.claim("cooling")
    alone = one.group(["a"]).turn("a")
    alone.claim("alone")
    going_on = threading.Thread(target=cools.claim, args=("alone",))
    going_on.start()
    time.sleep(0.05)
    assert going_on.is_alive()
    alone.end()
    going_on.join(LIMIT_S)
    cools.end()
    assert not going_on.is_alive()


@pytest.mark.parametrize("use", ["shared", "free"])
def test_a_device_can_be_prepared_while_another_one_measures_alone(use):
    """Also where somebody stands ready who has to wait for the other one."""
    turn = HostTurn()
    one, two = Baton(host=turn), Baton(host=turn)
    alone = one.group(["a"]).turn("a")
    alone.claim("alone")
    waits = two.group(["b"], beside=True).turn("b")
    waiting = threading.Thread(target=waits.claim, args=("alone",))
    waiting.start()
    prepares = two.group(["c"]).turn("c")
    begin = time.monotonic()
    prepares.claim(use)
    prepares.end()
    assert (True, True) == (time.monotonic() - begin < LIMIT_S / 2, waiting.is_alive())
    alone.end()
    waiting.join(LIMIT_S)
    waits.end()
    assert not waiting.is_alive()


def test_what_a_device_did_is_told_apart():
    turn = HostTurn()
    one, two = Baton(host=turn), Baton(host=turn)
    alone, waits = one.group(["a"]).turn("a"), two.group(["b"], beside=True).turn("b")
    alone.claim("alone")
    waiting = threading.Thread(target=waits.claim, args=("alone",))
    waiting.start()
    time.sleep(0.1)
    alone.end()
    waiting.join(LIMIT_S)
    waits.end()
    assert one.time.seconds()["measuring alone"] >= 0.08
    assert two.time.seconds()["waiting for other devices"] >= 0.05


def test_devices_of_a_host_without_a_place_for_locks_say_so(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BENCH_RUN_LOCKS", str(tmp_path / "file"))
    assert "no lock in" in DeviceBatons({"one": "A", "two": "B"}, lambda case_run: True).problem


def touch_all(devices):
    with devices.touching():
        pass


def test_nobody_touches_one_device_while_waiting_for_another():
    """The first would keep whoever is to be alone there, who keeps the other from going on."""
    devices = DeviceBatons({"one": "A", "two": "B"}, lambda case_run: True)
    one, two = (devices._batons[name] for name in "AB")
    cools, alone = two.group(["x"], beside=True).turn("x"), one.group(["a"]).turn("a")
    cools.claim("alone")
    threads = [
        threading.Thread(target=lambda: (alone.claim("alone"), alone.end())),
        threading.Thread(target=touch_all, args=(devices,)),
    ]
    for thread in threads:
        thread.start()
        time.sleep(2 * baton.IDLE_PATIENCE_S)
    with one.changing():
        pass  # whoever is to be alone has waited long enough to close the door
    threads.append(threading.Thread(target=lambda: (cools.claim("cooling"), cools.claim("alone"))))
    threads[-1].start()
    threads[-1].join(LIMIT_S)
    went_on = not threads[-1].is_alive()
    cools.end()
    for thread in threads:
        thread.join(LIMIT_S)
    ended = [not thread.is_alive() for thread in threads]
    devices.stop()
    assert (True, [True] * 3) == (went_on, ended)


@pytest.mark.parametrize(("mode", "is_used"), [(0o1777, True), (0o755, False)])
def test_locks_lie_where_all_users_agree_and_not_among_temporary_files(
    monkeypatch, tmp_path, mode, is_used
):
    monkeypatch.delenv("BENCH_RUN_LOCKS", raising=False)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    expected = shared if is_used else Path(tempfile.gettempdir())
    assert expected == lock_folder(shared).parent
    assert lock_folder(tmp_path / "none").parent == Path(tempfile.gettempdir())
