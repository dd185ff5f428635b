"""Whether a device was free before a run began: what `--require-idle` asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from bench_run.errors import DeviceBusyError
from bench_run.machine.telemetry import process_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Users = dict[str, "set[int] | None"]
"""Processes on each device, by uuid; None where the driver does not say."""


def users_of(devices: Iterable[str], ask: Callable[[str], set[int] | None] = process_ids) -> Users:
    """Who computes on these devices now."""
    return {device: ask(device) for device in devices}


def refuse_busy(used: Iterable[str], before: Mapping[str, set[int] | None]) -> None:
    """Raises `DeviceBusyError` for a device on which others computed before the run began, and for
    one whose driver does not say."""
    for device in used:
        users = before.get(device)
        if users is None:
            raise DeviceBusyError(
                f"--require-idle: the driver does not tell which processes use device {device}"
            )
        if users:
            named = ", ".join(_describe(pid) for pid in sorted(users))
            raise DeviceBusyError(f"--require-idle: device {device} is in use by {named}")


def _describe(pid: int) -> str:
    try:
        return f"process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:  # of another container, or gone
        return f"process {pid}"
