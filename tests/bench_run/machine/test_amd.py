"""amdsmi's answers in their several forms; unknown is None."""

from __future__ import annotations

import enum
import sys
from types import ModuleType

import pytest

from bench_run.machine import amd as telemetry_amd
from bench_run.machine import telemetry
from bench_run.profilers.amd import arch_of
from bench_run.streams.host import HostStream


class AmdSmiException(Exception):
    pass


Clk = enum.Enum("AmdSmiClkType", "GFX MEM")
Place = enum.Enum("AmdSmiTemperatureType", "EDGE HOTSPOT")
Metric = enum.Enum("AmdSmiTemperatureMetric", "CURRENT")


def refuse(*_):
    raise AmdSmiException("not supported")


RECENT = {
    "amdsmi_init": lambda: None,
    "amdsmi_get_processor_handles": lambda: ["first", "second"],
    "amdsmi_get_gpu_device_uuid": lambda handle: f"uuid-{handle}",
    "amdsmi_get_gpu_asic_info": lambda _: {
        "market_name": "AMD Instinct MI300X",
        "target_graphics_version": "gfx942",
    },
    "amdsmi_get_power_info": lambda _: {
        "current_socket_power": 412,
        "average_socket_power": "N/A",
    },
    "amdsmi_get_clock_info": lambda _, kind: {
        "clk": 2100 if kind is Clk.GFX else 1300,
        "max_clk": 2100,
    },
    "amdsmi_get_temp_metric": lambda _, place, __: 61 if place is Place.HOTSPOT else 40,
    "amdsmi_get_energy_count": lambda _: {
        "energy_accumulator": 1000,
        "counter_resolution": 15.26,
    },
    "amdsmi_get_violation_status": lambda _: {"active_ppt_pwr": True, "active_vr_thrm": "N/A"},
    "amdsmi_get_gpu_driver_info": lambda _: {"driver_version": "6.12.12"},
    "amdsmi_get_gpu_vram_info": lambda _: {"vram_size": 196592},
    "amdsmi_get_power_cap_info": lambda _: {"power_cap": 750000000},
}
EARLIER = {
    **{name: RECENT[name] for name in list(RECENT)[:3]},
    "amdsmi_get_gpu_asic_info": refuse,
    "amdsmi_get_power_info": lambda _: {
        "current_socket_power": "N/A",
        "average_socket_power": 395,
    },
    "amdsmi_get_clock_info": lambda _, __: {"cur_clk": 1700},
    "amdsmi_get_temp_metric": refuse,
    "amdsmi_get_energy_count": lambda _: {"power": 1000, "counter_resolution": 15.26},
}


@pytest.fixture
def amdsmi(monkeypatch):
    def install(functions):
        module = ModuleType("amdsmi")
        names = {"AmdSmiException": AmdSmiException, "AmdSmiClkType": Clk}
        names |= {"AmdSmiTemperatureType": Place, "AmdSmiTemperatureMetric": Metric}
        for name, value in {**names, **functions}.items():
            setattr(module, name, value)
        monkeypatch.setitem(sys.modules, "amdsmi", module)

    def forget():
        for cached in (telemetry_amd._amdsmi, telemetry_amd._handles, telemetry_amd._handle):
            cached.cache_clear()

    forget()
    yield install
    forget()


def test_a_recent_release_tells_everything(amdsmi):
    amdsmi(RECENT)
    found = telemetry_amd.snapshot("uuid-second")
    assert (2100, 1300, 412, 61, ("power cap",)) == (
        found.sm_clock_mhz,
        found.memory_clock_mhz,
        found.power_w,
        found.temperature_c,
        found.throttle,
    )


def test_before_the_samples_nothing_is_asked_that_sleeps(amdsmi):
    asked = []
    slow = {"amdsmi_get_violation_status": lambda _: asked.append("slept") or {}}
    amdsmi({**RECENT, **slow})
    found = telemetry.observe("uuid-first", HostStream(), at_once=True)
    assert ([], (), 412) == (asked, found.throttle, found.power_w)
    telemetry.observe("uuid-first", HostStream())
    assert ["slept"] == asked


@pytest.mark.parametrize(
    ("hip", "below", "index", "number"),
    [
        (None, None, 1, "1"),
        ("3,1", None, 0, "3"),
        (None, "4,6", 1, "6"),
        ("1", "4,6", 0, "6"),
        ("GPU-5d1f", "4,6", 0, "GPU-5d1f"),
        ("0", "GPU-aa,GPU-bb", 0, "GPU-aa"),
        ("", "", 2, "2"),
    ],
)
def test_hip_counts_within_what_is_visible_and_that_within_what_the_runtime_shows(
    monkeypatch, hip, below, index, number
):
    for name, value in (("HIP_VISIBLE_DEVICES", hip), ("ROCR_VISIBLE_DEVICES", below)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert number == telemetry_amd.device_number(index)


def test_the_other_name_of_the_variable_counts_where_hips_own_is_not_set(monkeypatch):
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert "5" == telemetry_amd.device_number(1)
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "7")
    assert "7" == telemetry_amd.device_number(0)


@pytest.mark.parametrize(("visible", "arch"), [(None, "gfx942"), ("1,0", "gfx90a")])
def test_counters_are_those_of_the_chip_that_is_measured(amdsmi, monkeypatch, visible, arch):
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("HIP_VISIBLE_DEVICES", visible)
    chips = {"first": "gfx942", "second": "gfx90a"}
    told = {"amdsmi_get_gpu_asic_info": lambda h: {"target_graphics_version": chips[h]}}
    amdsmi({**RECENT, **told})
    assert arch == arch_of(0)


def test_an_earlier_release_tells_what_it_can(amdsmi):
    amdsmi(EARLIER)
    found = telemetry_amd.snapshot("hip:0")
    assert (1700, 395, None, ()) == (
        found.sm_clock_mhz,
        found.power_w,
        found.temperature_c,
        found.throttle,
    )


@pytest.mark.parametrize("functions", [RECENT, EARLIER])
def test_energy_is_the_counter_times_its_step(amdsmi, functions):
    amdsmi(functions)
    assert 15.26 == pytest.approx(telemetry_amd.energy_mj("hip:0"))


def test_a_device_is_described(amdsmi):
    amdsmi(RECENT)
    device = telemetry_amd.devices()[1]
    assert ("AMD Instinct MI300X", "uuid-second", "gfx942", "6.12.12", 750.0) == (
        device.name,
        device.uuid,
        device.arch,
        device.driver,
        device.power_limit_w,
    )


def test_the_run_takes_an_amd_devices_telemetry(amdsmi):
    amdsmi(RECENT)
    assert 412 == telemetry.snapshot("uuid-first").power_w


def test_without_amdsmi_everything_is_unknown(amdsmi, monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    assert (None, None, ()) == (
        telemetry_amd.snapshot("hip:0"),
        telemetry_amd.energy_mj("hip:0"),
        telemetry_amd.devices(),
    )


def test_a_driver_that_does_not_answer_is_no_error(amdsmi):
    amdsmi({**RECENT, "amdsmi_init": refuse})
    assert telemetry_amd.snapshot("hip:0") is None
