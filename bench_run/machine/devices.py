"""The accelerators of this machine as the document describes them: NVIDIA's through NVML, AMD's
through amdsmi.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil
from bench_schema.document import Device

from bench_run.errors import DeviceBusyError, EngineError, EngineUnavailableError
from bench_run.machine import amd as telemetry_amd
from bench_run.machine.telemetry import nvml, nvml_number, nvml_text, process_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def devices() -> tuple[Device, ...]:
    """Return every device that NVML or amdsmi sees. Nothing here may fail."""
    library = nvml()
    count = 0 if library is None else int(nvml_number("nvmlDeviceGetCount") or 0)
    nvidia = (_device(library, index) for index in range(count))
    return (*nvidia, *telemetry_amd.devices())


def _device(library: Any, index: int) -> Device:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    uuid = nvml_text("nvmlDeviceGetUUID", handle)
    limit_mw = nvml_number("nvmlDeviceGetEnforcedPowerLimit", handle)
    arch: str | None = None
    with suppress(library.NVMLError):
        major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
        arch = f"sm_{major}{minor}"
    memory_bytes: int | None = None
    with suppress(library.NVMLError):
        memory_bytes = int(library.nvmlDeviceGetMemoryInfo(handle).total)
    return Device(
        index=index,
        name=nvml_text("nvmlDeviceGetName", handle) or "NVIDIA device",
        uuid=uuid,
        driver=nvml_text("nvmlSystemGetDriverVersion"),
        arch=arch,
        memory_bytes=memory_bytes,
        l2_bytes=None if uuid is None else _l2_bytes(uuid),
        max_sm_clock_mhz=nvml_number("nvmlDeviceGetMaxClockInfo", handle, library.NVML_CLOCK_SM),
        max_memory_clock_mhz=nvml_number(
            "nvmlDeviceGetMaxClockInfo", handle, library.NVML_CLOCK_MEM
        ),
        power_limit_w=None if limit_mw is None else limit_mw / 1000,
    )


def _l2_bytes(uuid: str) -> int | None:
    """Return the size of the L2 cache, from the driver, without creating a context."""
    from bench_run.streams.cuda_driver import driver

    try:
        found = driver()
        for index in range(found.number("cuDeviceGetCount")):
            facts = found.facts(index)
            if facts.uuid == uuid:
                return facts.l2_bytes
    except (EngineError, EngineUnavailableError):
        return None
    return None


def device_named(name: str) -> Device | None:
    """Return the accelerator that an engine names by its uuid, its number, or ``hip:`` and its
    number."""
    named = (d for d in devices() if name in (d.uuid, str(d.index), f"hip:{d.index}"))
    return None if name == "cpu" else next(named, None)


def device_names() -> list[str]:
    """Return the uuid, otherwise the index, of every accelerator, in the engines' spelling."""
    return [device.uuid or str(device.index) for device in devices()]


Users = dict[str, "set[int] | None"]
"""Processes on each device, by uuid; None if the driver does not say."""


def users_of(devices: Iterable[str], ask: Callable[[str], set[int] | None] = process_ids) -> Users:
    """Return the processes that compute on these devices now, by device; None for a device whose
    driver does not report them."""
    return {device: ask(device) for device in devices}


def refuse_busy(used: Iterable[str], before: Mapping[str, set[int] | None]) -> None:
    """Raise `DeviceBusyError` for a device on which other processes computed before the run began,
    and for one whose driver does not report them."""
    for device in used:
        users = before.get(device)
        if users is None:
            raise DeviceBusyError(
                f"--require-idle: the driver does not tell which processes use device {device}"
            )
        if users:
            named = [f"process {pid}" for pid in sorted(users)]
            for place, pid in enumerate(sorted(users)):
                with suppress(psutil.Error):  # of another container, or gone
                    named[place] += f" ({psutil.Process(pid).name()})"
            everyone = ", ".join(named)
            raise DeviceBusyError(f"--require-idle: device {device} is in use by {everyone}")
