"""Processors near a device, and whether others are on it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.errors import DeviceBusyError
from bench_run.machine.affinity import cpus_near, parse_cpus, stay_near
from bench_run.machine.devices import refuse_busy, users_of

ADDRESS = "0000:1b:00.0"


@pytest.fixture
def system(tmp_path):
    """A /sys with a device on a node."""

    def make(node="1", cpulist="4-7,12\n"):
        device = tmp_path / "bus/pci/devices" / ADDRESS
        device.mkdir(parents=True)
        (device / "numa_node").write_text(f"{node}\n")
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpulist)
        return tmp_path

    return make


def test_the_processors_of_a_devices_node_are_near_it(system):
    assert {4, 5, 6, 7, 12} == cpus_near(ADDRESS, system())


def test_a_host_without_nodes_has_none_that_is_nearer(system, tmp_path):
    folder = system(node="0")
    (folder / "bus/pci/devices" / ADDRESS / "numa_node").write_text("-1\n")
    assert set() == cpus_near(ADDRESS, folder)


@pytest.mark.parametrize("address", [None, "0000:ff:00.0"])
def test_of_an_unknown_device_none_is_known(system, address):
    assert set() == cpus_near(address, system())


@given(st.sets(st.integers(0, 300)))
def test_a_list_of_processors_is_read_as_the_kernel_writes_it(cpus):
    assert cpus == parse_cpus(",".join(map(str, sorted(cpus))) + "\n")


@given(st.integers(0, 100), st.integers(0, 100))
def test_a_range_of_processors_has_both_ends(first, count):
    assert set(range(first, first + count + 1)) == parse_cpus(f"{first}-{first + count}")


def test_a_process_on_no_device_stays_where_it_is():
    import os

    before = os.sched_getaffinity(0)
    stay_near("cpu")
    assert before == os.sched_getaffinity(0)


def test_a_device_that_nobody_used_is_idle():
    before = users_of(["GPU-1", "GPU-2"], {"GPU-1": set(), "GPU-2": {7}}.get)
    assert refuse_busy(["GPU-1"], before) is None


def test_a_device_that_others_use_is_refused_with_their_numbers():
    before = users_of(["GPU-1"], lambda _: {2**22 + 5})
    with pytest.raises(DeviceBusyError, match=r"device GPU-1 is in use by process 4194309"):
        refuse_busy(["GPU-1"], before)


def test_a_device_that_does_not_say_who_uses_it_is_not_known_to_be_idle():
    with pytest.raises(DeviceBusyError, match="does not tell"):
        refuse_busy(["GPU-1"], users_of(["GPU-1"], lambda _: None))
