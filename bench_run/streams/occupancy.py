"""Theoretical occupancy: warps of a kernel that fit on a multiprocessor, of its places for warps.

The rules are those of NVIDIA's occupancy calculator: registers are given to a warp in units of 256
and warps come in fours, shared memory in units of 128 bytes with what the driver keeps of each
block. CUDA answers the same only for a kernel whose handle is at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from bench_run.streams.cuda_driver import driver

WARP = 32
REGISTERS_UNIT = 256
WARPS_UNIT = 4
SHARED_UNIT = 128


@dataclass(frozen=True)
class Limits:
    """Limits of one multiprocessor."""

    threads: int
    blocks: int
    registers: int
    shared_bytes: int
    reserved_bytes: int
    """Shared memory of each block that the driver keeps."""


@lru_cache(maxsize=8)
def limits(device: int) -> Limits:
    """`device`: its index. Raises `EngineError`."""
    own, handle = driver(), driver().number("cuDeviceGet", device)
    # CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, MAX_BLOCKS_PER_, MAX_REGISTERS_PER_,
    # MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, RESERVED_SHARED_MEMORY_PER_BLOCK
    return Limits(*(own.number("cuDeviceGetAttribute", n, handle) for n in (39, 106, 82, 81, 111)))


def occupancy(of: Limits, threads: int, registers: int, shared_bytes: int) -> float:
    """Share of the warps' places that are taken, by blocks of so many threads."""
    warps = _up(threads, WARP) // WARP
    places = of.threads // WARP
    blocks = min(of.blocks, places // warps)
    if registers:
        held = of.registers // _up(registers * WARP, REGISTERS_UNIT)
        blocks = min(blocks, held // WARPS_UNIT * WARPS_UNIT // warps)
    shared = _up(shared_bytes + of.reserved_bytes, SHARED_UNIT)
    blocks = min(blocks, of.shared_bytes // shared) if shared else blocks
    return blocks * warps / places


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
