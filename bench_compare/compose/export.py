"""The chosen plans as a pipeline file that bench-run runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench_schema.identity import REWRITES
from bench_schema.pipeline import pipeline_text

from bench_compare.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from bench_compare.compose.bench import Picks
    from bench_compare.compose.setup import Setup


def export(setup: Setup, picks: Picks, path: Path) -> str:
    """Return the pipeline with the chosen plans, as a file at `path`. Raises `UsageError` if a
    chain cannot run them."""
    rows = [setup.bench.rows[row] for row in picks]
    engines = list(dict.fromkeys(row.engine for row in rows))
    if len(engines) > 1:
        told = " and ".join(engines)
        raise UsageError(
            f"--save: the layers run on {told}, a chain on one engine: choose among its rows with "
            f"--engine {engines[0]}"
        )
    layers = []
    for layer, row in zip(setup.network.layers, rows, strict=True):
        other = next((k for k in row.variant if k in REWRITES), None)
        if other is not None:
            raise UsageError(
                f"--save: layer {layer.id} runs with {other}={row.variant[other]}, which is "
                f"another graph; --fix '{layer.id}={row.engine}' keeps its own"
            )
        layers.append(replace(layer, variant=dict(row.variant)))
    order = {layer.id: layer for layer in layers}
    made = tuple(order[layer.id] for layer in setup.network.pipeline.layers)
    return pipeline_text(replace(setup.network.pipeline, layers=made), path.parent)
