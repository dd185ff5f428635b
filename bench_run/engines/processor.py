"""The name of the CPU."""

from __future__ import annotations

import platform
from pathlib import Path


def processor_name() -> str:
    """Product name of the processor, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    name = next(names, None)  # `platform.processor` starts a process
    return name or platform.processor() or platform.machine()
