"""Times that no machine of this kind can reach: somebody did not do the work.

The bounds are generous: what is marked is off by a factor, not by a percentage. A GPU is held
against its own measured ceilings (matrix rate of the data type; copy bandwidth, times what its
caches add); a processor, where nothing is measured, against what its cores could do at most:
two 512-bit fused multiply-adds a cycle in each core (64 float32 operations), tiles of 16-bit and
8-bit types (AMX: 2048 operations of 16 bits a cycle), three 64-byte accesses of the first-level
cache a cycle, at 6 GHz.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_schema.document import Cpu, Device, Summary, Work

RATE_MARGIN = 1.5
"""Above the measured matrix rate: clocks, and products that skip what is known to be zero."""
CACHE_MARGIN = 8.0
"""Caches over memory: the second-level cache of an H200 gives about 2.5 times its memory's rate."""
CPU_HZ = 6e9
CPU_FLOPS_A_CYCLE: Mapping[str, float] = {
    "double": 32,
    "float": 64,
    "half": 2048,
    "bfloat16": 2048,
    "int8": 4096,
    "uint8": 4096,
}
CPU_BYTES_A_CYCLE = 192
CPU_CORES = 512
"""Where the machine does not tell how many it has."""


def implausible(
    work: Work,
    summary: Mapping[str, Summary],
    device: Device | None,
    cpu: Cpu | None,
    data_type: str,
) -> str | None:
    """Which limit the fastest median beats, in a sentence; None where none is known to be beaten.

    `cpu` is the processor of an engine that has no device.
    """
    medians = {
        name: each.median for name, each in summary.items() if name in ("device_ns", "e2e_ns")
    }
    if not medians:
        return None
    series, median_ns = min(medians.items(), key=lambda item: item[1])
    tflops, gbps = _limits(device, cpu, data_type)
    took = f"{series} of {median_ns:.0f} ns"
    if tflops is not None and work.flops and work.flops / median_ns / 1e3 > tflops:
        rate = work.flops / median_ns / 1e3
        return f"{took} would be {rate:.3g} TFLOP/s; this machine reaches at most {tflops:.3g}"
    if gbps is not None and work.moved_bytes and work.moved_bytes / median_ns > gbps:
        rate = work.moved_bytes / median_ns
        return f"{took} would be {rate:.3g} GB/s; this machine reaches at most {gbps:.3g}"
    return None


def _limits(
    device: Device | None, cpu: Cpu | None, data_type: str
) -> tuple[float | None, float | None]:
    """TFLOP/s and GB/s that cannot be exceeded; None where nothing is known."""
    if device is not None:
        peak = device.ceiling_tflops.get(data_type)
        copy = device.ceiling_gbps
        return (
            None if peak is None else RATE_MARGIN * peak,
            None if copy is None else CACHE_MARGIN * copy,
        )
    if cpu is None:
        return None, None
    cycles = (cpu.cores or CPU_CORES) * CPU_HZ
    flops = CPU_FLOPS_A_CYCLE.get(data_type)
    return None if flops is None else cycles * flops / 1e12, cycles * CPU_BYTES_A_CYCLE / 1e9
