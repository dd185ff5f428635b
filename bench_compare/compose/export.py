"""A configuration as a pipeline that ``bench-run --chain`` runs.

A chain runs on one engine, and a layer's ``variant`` tells it the plan. What needs other graphs (a
layout, a type, fusion) or several engines is not written but refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench_schema.pipeline import pipeline_text

from bench_compare.compose.table.rows import REWRITES
from bench_compare.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench_compare.compose.table.network import Network
    from bench_compare.compose.table.rows import Row


def export(network: Network, rows: Sequence[Row], path: Path) -> str:
    """The text of the file at `path`. Raises `UsageError` where a chain cannot run it."""
    engines = list(dict.fromkeys(row.engine for row in rows))
    if len(engines) > 1:
        raise UsageError(
            f"--save: the layers run on {' and '.join(engines)}, a chain on one engine: choose "
            "among its rows with --engine"
        )
    known: dict[str, tuple[Mapping[str, str], str | None]] = {}
    for station, row in zip(network.stations, rows, strict=True):
        unlike = next((axis for axis in REWRITES if axis in row.variant), None)
        if unlike is not None:
            raise UsageError(
                f"--save: layer {station.layer.id} runs with {unlike}={row.variant[unlike]}, which "
                f"is another graph; --fix '{station.layer.id}=...' holds it to one of its own"
            )
        known[station.layer.id] = dict(row.variant), station.fingerprint
    layers = tuple(
        replace(one, variant=known[one.id][0], fingerprint=known[one.id][1])
        for one in network.pipeline.layers
    )
    return pipeline_text(replace(network.pipeline, layers=layers), path.resolve().parent)
