"""Allowed errors, output by output: a policy, then a sidecar, then the command line.

Policy ``default`` bounds the error that honest arithmetic in the graph's types can make
(`error_model.py`); policy ``hipdnn`` is the table of hipDNN's own tests (`tolerance_tables.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench_run.errors import UsageError
from bench_run.graph.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.graph.model import Graph


@dataclass(frozen=True)
class Tolerance:
    """An element is right where |actual − expected| <= atol + rtol·|expected|."""

    rtol: float
    atol: float
    source: str
    """Where the numbers come from, in a few words."""
    validator: str = "matching"
    """How NaN and infinities are held against each other: see `tensors/difference.py`."""
    rms: float | None = None
    """In place of the element-wise rule: threshold for √Σ(a − e)² / (√n · largest magnitude)."""


def tolerances(
    graph: Graph,
    policy: str = "default",
    rtol: float | None = None,
    atol: float | None = None,
) -> dict[int, Tolerance]:
    """The tolerance of every output, by uid. ``rtol`` and ``atol`` replace what the policy says."""
    if policy not in POLICIES:
        raise UsageError(f"--tolerance: no policy {policy!r}; choose from {', '.join(POLICIES)}")
    found = POLICIES[policy](graph)
    return {uid: _overridden(row, rtol, atol) for uid, row in found.items()}


def _overridden(row: Tolerance, rtol: float | None, atol: float | None) -> Tolerance:
    if rtol is None and atol is None:
        return row
    return replace(
        row,
        rtol=row.rtol if rtol is None else rtol,
        atol=row.atol if atol is None else atol,
        source="command line",
        rms=None,
    )


def _default(graph: Graph) -> dict[int, Tolerance]:
    rows = {}
    for tensor in graph.outputs:
        unit = DTYPES[tensor.data_type].unit_roundoff
        rows[tensor.uid] = Tolerance(2 * unit, 16 * unit, "default")
    return rows


POLICIES: dict[str, Callable[[Graph], dict[int, Tolerance]]] = {"default": _default}
