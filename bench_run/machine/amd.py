"""Clocks, power, temperature and energy of an AMD device, through amdsmi.

Everything is optional, and releases of amdsmi differ in field names and in what they raise for a
device that does not tell: unknown is None. Devices are counted as the HIP runtime counts them when
it hides none.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from bench_schema.document import Device, Telemetry

NO_AMDSMI = "AMD GPU of unknown kind (amdsmi is not installed)"
VISIBLE, ALIAS = "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"
BELOW = "ROCR_VISIBLE_DEVICES"
"""Variable that limits the devices of HIP's runtime; HIP counts within it."""
VIOLATIONS = {
    "active_ppt_pwr": "power cap",
    "active_socket_thrm": "hardware thermal",
    "active_vr_thrm": "regulator thermal",
    "active_hbm_thrm": "memory thermal",
    "active_prochot_thrm": "hardware slowdown",
}
"""Fields of `amdsmi_get_violation_status` that are true while a limit slows the device down."""


@lru_cache(maxsize=1)
def _amdsmi() -> Any:
    """Return the initialised module, or None if there is none."""
    try:
        import amdsmi
    except (ImportError, OSError, KeyError, RuntimeError):  # it looks for its library on import
        return None
    try:
        amdsmi.amdsmi_init()
    except amdsmi.AmdSmiException:
        return None
    return amdsmi


def _ask(name: str, *arguments: Any) -> Any:
    """Return the value of a function of amdsmi; None if it is missing or fails."""
    smi = _amdsmi()
    function = getattr(smi, name, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except smi.AmdSmiException:
        return None


def _number(value: Any, *names: str) -> float | None:
    """Return the first of the fields that is a number; amdsmi writes ``N/A`` for unknown values."""
    fields = value if isinstance(value, dict) else {}
    candidates = [fields.get(name) for name in names] if names else [value]
    for candidate in candidates:
        if isinstance(candidate, (int, float)) and not isinstance(candidate, bool):
            return float(candidate)
    return None


@lru_cache(maxsize=1)
def _handles() -> tuple[Any, ...]:
    return tuple(_ask("amdsmi_get_processor_handles") or ())


@lru_cache(maxsize=16)
def _handle(device: str) -> Any:
    """Return amdsmi's handle of a device uuid or number; None if there is none."""
    for index, handle in enumerate(_handles()):
        if device in (str(index), f"hip:{index}", _uuid(handle)):
            return handle
    return None


def _uuid(handle: Any) -> str | None:
    found = _ask("amdsmi_get_gpu_device_uuid", handle)
    return None if found is None else str(found)


def device_number(index: int) -> str:
    """Return the number on this machine, or the uuid, of the device `index` of HIP: HIP counts
    within `VISIBLE`, and that within the devices of the runtime below (`BELOW`)."""
    visible, below = listed_devices(), _listed(BELOW)
    chosen = visible[index] if index < len(visible) else str(index)
    return below[int(chosen)] if chosen.isdecimal() and int(chosen) < len(below) else chosen


def listed_devices() -> list[str]:
    """Return the devices that the environment leaves visible to HIP; empty if it hides none."""
    return _listed(VISIBLE) or _listed(ALIAS)


def _listed(variable: str) -> list[str]:
    return [part.strip() for part in os.environ.get(variable, "").split(",") if part.strip()]


def describe_device(device: str) -> tuple[str, str]:
    """Return uuid (``hip:N`` if it is not known) and product name of a device's number."""
    handle = _handle(device)
    if handle is None:
        return f"hip:{device}", NO_AMDSMI
    asic = _ask("amdsmi_get_gpu_asic_info", handle) or {}
    return _uuid(handle) or f"hip:{device}", str(asic.get("market_name") or "AMD GPU")


def snapshot(device: str, *, at_once: bool = False) -> Telemetry | None:
    """Return the device's readings; None if it cannot be read. `at_once` leaves out whether a limit
    slows it down, for which amdsmi sleeps 100 ms."""
    handle, smi = _handle(device), _amdsmi()
    if handle is None:
        return None
    power = _ask("amdsmi_get_power_info", handle)
    violations = {} if at_once else _ask("amdsmi_get_violation_status", handle) or {}
    return Telemetry(
        sm_clock_mhz=_clock(handle, "GFX", "clk", "cur_clk"),
        memory_clock_mhz=_clock(handle, "MEM", "clk", "cur_clk"),
        power_w=_number(power, "current_socket_power", "socket_power", "average_socket_power"),
        temperature_c=_temperature(handle, smi),
        throttle=tuple(name for field, name in VIOLATIONS.items() if violations.get(field) is True),
    )


def _clock(handle: Any, kind: str, *names: str) -> float | None:
    kinds = getattr(_amdsmi(), "AmdSmiClkType", None)
    member = getattr(kinds, kind, None)
    if member is None:
        return None
    return _number(_ask("amdsmi_get_clock_info", handle, member), *names)


def _temperature(handle: Any, smi: Any) -> float | None:
    places = getattr(smi, "AmdSmiTemperatureType", None)
    current = getattr(getattr(smi, "AmdSmiTemperatureMetric", None), "CURRENT", None)
    for name in ("HOTSPOT", "JUNCTION", "EDGE"):
        place = getattr(places, name, None)
        if place is not None and current is not None:
            found = _number(_ask("amdsmi_get_temp_metric", handle, place, current))
            if found is not None:
                return found
    return None


def pci_address(device: str) -> str | None:
    """Return the address in the kernel's form: ``0000:1b:00.0``."""
    handle = _handle(device)
    found = None if handle is None else _ask("amdsmi_get_gpu_device_bdf", handle)
    return None if found is None else str(found).lower()


def process_ids(device: str) -> set[int] | None:
    """Return the ids of the processes that compute on the device; None if amdsmi does not report
    them."""
    handle = _handle(device)
    found = None if handle is None else _ask("amdsmi_get_gpu_process_list", handle)
    if not isinstance(found, list):
        return None
    return {one["pid"] for one in found if isinstance(one, dict) and "pid" in one}


def energy_mj(device: str) -> float | None:
    """Return the millijoules that the device counted since its driver was loaded."""
    found = _ask("amdsmi_get_energy_count", _handle(device)) if _handle(device) else None
    count = _number(found, "energy_accumulator", "power")
    step_uj = _number(found, "counter_resolution")
    return None if count is None or step_uj is None else count * step_uj / 1000


def devices() -> tuple[Device, ...]:
    """Return every AMD device that amdsmi sees."""
    return tuple(_device(index, handle) for index, handle in enumerate(_handles()))


def _device(index: int, handle: Any) -> Device:
    asic = _ask("amdsmi_get_gpu_asic_info", handle) or {}
    driver = _ask("amdsmi_get_gpu_driver_info", handle) or {}
    vram_mb = _number(_ask("amdsmi_get_gpu_vram_info", handle), "vram_size")
    cap_uw = _number(_ask("amdsmi_get_power_cap_info", handle), "power_cap")
    # Microwatts; a small number is in watts, from older releases.
    cap_w = None if cap_uw is None else (cap_uw / 1e6 if cap_uw > 1e5 else cap_uw)
    return Device(
        index=index,
        name=str(asic.get("market_name") or "AMD GPU"),
        uuid=_uuid(handle),
        driver=str(driver["driver_version"]) if driver.get("driver_version") else None,
        arch=str(asic["target_graphics_version"]) if asic.get("target_graphics_version") else None,
        memory_bytes=None if vram_mb is None else int(vram_mb) << 20,
        l2_bytes=None,
        max_sm_clock_mhz=_clock(handle, "GFX", "max_clk"),
        max_memory_clock_mhz=_clock(handle, "MEM", "max_clk"),
        power_limit_w=cap_w,
    )
