"""Launches of kernels in words: how the device ran one, what moved between two, whose they are."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Kernel, Launch

LIBRARIES: Mapping[str, str] = {
    "cuDNN": r"cudnn|(fprop|dgrad|wgrad)_|implicit_convolve|winograd|convolve_",
    "CUTLASS": r"cutlass",
    "cuBLAS": r"cublas|nvjet|gemv|splitKreduce|xmma_gemm|s\d+gemm|gemmk1",
    "ATen": r"\bat::|at_cuda",
    "Triton": r"^triton_",
    "Tensile": r"^Cijk_",
    "MIOpen": r"miopen",
}
"""Libraries by what the names of their kernels hold, in the order in which they are tried."""


def library_of(name: str) -> str | None:
    """Return the library that a kernel of this name comes from; None if the name does not tell."""
    return next((known for known, held in LIBRARIES.items() if re.search(held, name)), None)


def library_shares(kernels: Sequence[Kernel]) -> dict[str, float]:
    """Return shares of an iteration's time in kernels of libraries, the largest first."""
    total = sum(kernel.count * kernel.median_ns for kernel in kernels)
    spent: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        library = library_of(kernel.name)
        if library is not None and total > 0:
            spent[library] += kernel.count * kernel.median_ns / total
    return dict(sorted(spent.items(), key=lambda item: -item[1]))


def launch_facts(launch: Launch) -> dict[str, str]:
    """Return the facts of a launch as text, without those that are zero."""
    shared = launch.static_shared_bytes + launch.dynamic_shared_bytes
    facts = {"grid": _extent(launch.grid), "block": _extent(launch.block)}
    if max(launch.cluster) > 1:
        facts["cluster"] = _extent(launch.cluster)
    facts["registers"] = str(launch.registers)
    if shared:
        facts["shared memory"] = f"{shared} B"
    if launch.local_bytes:
        facts["spills"] = f"{launch.local_bytes} B"
    if launch.occupancy_ratio is not None:
        facts["occupancy"] = f"{launch.occupancy_ratio:.0%}"
    return facts


def launch_text(launch: Launch) -> str:
    """Return the facts of a launch as text, such as ``grid 128, block 256, 168 registers, spills 96
    B, occupancy 25%``."""
    return ", ".join(f"{name} {value}" for name, value in launch_facts(launch).items())


def launch_changes(base: Launch, other: Launch) -> list[tuple[str, str, str]]:
    """Return facts that differ, each as its name and both values; ``0`` for an absent one."""
    first, second = launch_facts(base), launch_facts(other)
    names = dict.fromkeys((*first, *second))
    return [
        (name, first.get(name, "0"), second.get(name, "0"))
        for name in names
        if first.get(name) != second.get(name)
    ]


def _extent(lengths: Sequence[int]) -> str:
    """Return ``128`` for 128 x 1 x 1."""
    x, y, z = lengths
    used = (x, y, z) if z > 1 else (x, y) if y > 1 else (x,)
    return "x".join(map(str, used))
