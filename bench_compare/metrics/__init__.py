"""Every metric a comparison knows, one row each. Importing it loads no NumPy."""

from __future__ import annotations

from bench_compare.metrics import accuracy, init, rates, resources, time
from bench_compare.metrics.base import Exact, Metric, PerRound, Rate, Reading, Sampled

METRICS: dict[str, Metric] = {
    row.name: row for row in (*time.ROWS, *init.ROWS, *rates.ROWS, *resources.ROWS, *accuracy.ROWS)
}
"""In the order of tables; among those that gate the first that both sides have decides."""

GATES: tuple[str, ...] = tuple(name for name, row in METRICS.items() if row.gates)

__all__ = ["GATES", "METRICS", "Exact", "Metric", "PerRound", "Rate", "Reading", "Sampled"]
