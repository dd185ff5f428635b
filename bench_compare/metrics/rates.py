"""Work of the graph over the time it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_compare.metrics.base import Metric, Rate

if TYPE_CHECKING:
    from bench_schema.document import Case

FLOP_PER_NS_IN_TFLOPS = 1e-3


def teraflop(case: Case) -> float | None:
    """Floating-point operations in units that give TFLOP/s when divided by nanoseconds."""
    flops = case.work.flops
    return None if flops is None else flops * FLOP_PER_NS_IN_TFLOPS


def moved_bytes(case: Case) -> float | None:
    """Bytes: over nanoseconds they are GB/s."""
    return case.work.moved_bytes


ROWS = (
    Metric("tflops", "compute rate", "TFLOP/s", "higher", Rate(teraflop)),
    Metric("gbps", "memory rate", "GB/s", "higher", Rate(moved_bytes)),
)
