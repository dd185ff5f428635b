"""Clocks, power, temperature and throttle reasons of a device: NVIDIA's through NVML, AMD's through
amdsmi (`amd.py`).

Everything is optional: without the library or the device each value is unknown.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bench_schema.document import Telemetry

from bench_run.machine import amd as telemetry_amd
from bench_run.machine.rapl import counter

if TYPE_CHECKING:
    from bench_run.streams.base import Stream

MOVED_RATIO = 0.02
"""A clock that differs by more than this before and after has moved."""

THROTTLE_REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}


@lru_cache(maxsize=1)
def nvml() -> Any:
    """Return the initialised NVML module, or None if there is none."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


@lru_cache(maxsize=8)
def _handle(device: str) -> Any:
    """Return NVML's handle of a device uuid or index; None when it is not NVIDIA's."""
    library = nvml()
    if library is None or device == "cpu":
        return None
    try:
        if device.isdigit():
            return library.nvmlDeviceGetHandleByIndex(int(device))
        return library.nvmlDeviceGetHandleByUUID(device)
    except library.NVMLError:
        return None


def nvml_number(name: str, *arguments: Any) -> float | None:
    """Return NVML's answer as a number; None if it does not have one."""
    library = nvml()
    try:
        return float(getattr(library, name)(*arguments))
    except (library.NVMLError, AttributeError):
        return None


def nvml_text(name: str, *arguments: Any) -> str | None:
    """Return NVML's answer as text: older versions give bytes."""
    library = nvml()
    try:
        value = getattr(library, name)(*arguments)
    except (library.NVMLError, AttributeError):
        return None
    return value.decode() if isinstance(value, bytes) else str(value)


def snapshot(device: str, *, at_once: bool = False) -> Telemetry | None:
    """Return the device's readings; None if it cannot be read. `at_once` leaves out slow ones,
    during which the device would cool down."""
    handle, library = _handle(device), nvml()
    if handle is None:
        return None if device == "cpu" else telemetry_amd.snapshot(device, at_once=at_once)
    power_mw = nvml_number("nvmlDeviceGetPowerUsage", handle)
    reasons = nvml_number("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:
        reasons = nvml_number("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return Telemetry(
        sm_clock_mhz=nvml_number("nvmlDeviceGetClockInfo", handle, library.NVML_CLOCK_SM),
        memory_clock_mhz=nvml_number("nvmlDeviceGetClockInfo", handle, library.NVML_CLOCK_MEM),
        power_w=None if power_mw is None else power_mw / 1000,
        temperature_c=nvml_number("nvmlDeviceGetTemperature", handle, library.NVML_TEMPERATURE_GPU),
        throttle=throttle_names(0 if reasons is None else int(reasons)),
    )


def free_memory_bytes(device: str) -> int | None:
    """Return the device's free memory; None if it does not report it."""
    handle, library = _handle(device), nvml()
    if handle is None:
        return None
    try:
        return int(library.nvmlDeviceGetMemoryInfo(handle).free)
    except library.NVMLError:
        return None


def pci_address(device: str) -> str | None:
    """Return the address of a device's uuid or index in the kernel's form: ``0000:1b:00.0``."""
    handle, library = _handle(device), nvml()
    if handle is None:
        return None if device == "cpu" else telemetry_amd.pci_address(device)
    try:
        address = library.nvmlDeviceGetPciInfo(handle).busId
    except library.NVMLError:
        return None
    text: str = address.decode() if isinstance(address, bytes) else str(address)
    return text.lower()[-len("0000:1b:00.0") :]


def process_ids(device: str) -> set[int] | None:
    """Return the ids of the processes that compute on the device, in the driver's numbering; None
    if it does not report them."""
    handle, library = _handle(device), nvml()
    if handle is None:
        return None if device == "cpu" else telemetry_amd.process_ids(device)
    try:
        return {one.pid for one in library.nvmlDeviceGetComputeRunningProcesses(handle)}
    except library.NVMLError:
        return None


@lru_cache(maxsize=8)
def highest_clock_mhz(device: str) -> float | None:
    """Return the device's highest SM clock; None if it is unknown. Cached: NVML takes 1.5 ms to
    answer."""
    handle, library = _handle(device), nvml()
    if handle is None:
        return None
    return nvml_number("nvmlDeviceGetMaxClockInfo", handle, library.NVML_CLOCK_SM)


def throttle_names(bits: int) -> tuple[str, ...]:
    """Return names of the reasons that slow a device down; idle and application clocks are none."""
    return tuple(name for bit, name in THROTTLE_REASONS.items() if bits & bit)


def observe(device: str, stream: Stream, *, at_once: bool = False) -> Telemetry | None:
    """Return the device's readings, with its clock as counted by a kernel on the stream; `at_once`
    as for `snapshot`."""
    told = snapshot(device, at_once=at_once)
    probe_clock_mhz = stream.abilities.probe_clock_mhz
    probed_mhz = None if probe_clock_mhz is None else probe_clock_mhz()
    if probed_mhz is None:
        return told
    return replace(Telemetry() if told is None else told, probed_clock_mhz=probed_mhz)


def disturbances(before: Telemetry | None, after: Telemetry | None) -> tuple[str, ...]:
    """Return phrases on anything that makes a round's times hard to compare."""
    if before is None or after is None:
        return ()
    notes = []
    clocks = before.probed_clock_mhz, after.probed_clock_mhz
    if clocks[0] and clocks[1] and abs(clocks[1] / clocks[0] - 1) > MOVED_RATIO:
        notes.append("the SM clock changed during the measurement")
    if after.throttle and (notes or not clocks[1]):  # NVML's word alone may be of the case before
        reasons = ", ".join(after.throttle)
        notes.append(f"measured while the device was throttled ({reasons})")
    return tuple(notes)


def energy_mj(device: str) -> float | None:
    """Return the millijoules that the device counted so far; None without a counter."""
    handle = _handle(device)
    if handle is None:
        return counter().energy_mj() if device == "cpu" else telemetry_amd.energy_mj(device)
    return nvml_number("nvmlDeviceGetTotalEnergyConsumption", handle)
