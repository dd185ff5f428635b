"""Theoretical occupancy by the rules of NVIDIA's calculator."""

from __future__ import annotations

import pytest

from bench_run.streams.cupti import Limits, occupancy

H200 = Limits(2048, 32, 65536, 233472, 1024)


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "expected"),
    [
        (256, 32, 0, 64),  # threads
        (32, 16, 0, 32),  # blocks
        (384, 168, 0, 12),  # registers
        (256, 255, 0, 8),  # registers, given in units of 256 a warp
        (128, 64, 230_000, 4),  # shared memory
        (128, 32, 48 * 1024, 16),  # shared memory and what the driver keeps of it
        (1000, 32, 0, 64),  # the last warp of a block is not full
    ],
)
def test_the_scarcest_thing_decides_how_many_warps_there_are(
    threads, registers, shared_bytes, expected
):
    assert expected == 64 * occupancy(H200, threads, registers, shared_bytes)
