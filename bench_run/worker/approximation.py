"""Errors of a graph that approximates another one: its outputs against the outputs of that one.

The other graph may have other types and memory layouts: it is computed in its own, on the values
that the approximating graph reads. What the engine adds to the errors is judged against the
approximating graph's own reference.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from bench_run.files import writing
from bench_run.graph.chain import ChainGraph
from bench_run.tensors.layout import logical_view, to_storage
from bench_run.validate.expected import APPROXIMATION, NOISE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from bench_run.graph.model import Graph
    from bench_run.reference.common import Array
    from bench_run.tensors.layout import Storages

    Compute = Callable[[Graph, Storages], Mapping[int, Array]]

SEED = 20_262
UNIT = 2.0**-22
"""Relative change of the inputs, after which a rounded operand may be another whole number."""
STEPS = 4.0
"""Elements of an output may be off by as many of the largest changes that were seen."""


def store_errors(
    exact: Graph, graph: Graph, inputs: Storages, folder: Path, compute: Compute
) -> None:
    """Write the relative L2 error of each output beside what is expected. If operands are rounded
    to whole numbers, also how far outputs move if one of them becomes the next number."""
    expected = {int(path.stem): np.load(path) for path in folder.glob("*.npy")}
    origins = origins_of(graph)
    given = {
        uid: to_storage(logical_view(inputs[own], graph.by_uid[own]), exact.by_uid[uid])
        for own, uid in origins.items()
        if own in inputs and uid in exact.by_uid
    }
    wanted = compute(exact, given)
    errors = {
        uid: relative_l2(expected[uid], wanted[origins[uid]])
        for uid in expected
        if origins[uid] in wanted
    }
    with writing(folder):
        (folder / APPROXIMATION).write_text(json.dumps(errors), encoding="utf-8")
        if any(tensor.data_type == "int8" for tensor in graph.tensors):
            noise = _noise(graph, inputs, expected, compute)
            (folder / NOISE).write_text(json.dumps(noise), encoding="utf-8")


def origins_of(graph: Graph) -> dict[int, int]:
    """Return, for the uid of each tensor, the one it had before the graph was split into places."""
    if not isinstance(graph, ChainGraph):
        return {tensor.uid: tensor.uid for tensor in graph.tensors}
    return {own: uid for place in graph.places for uid, own in place.uids.items()}


def relative_l2(found: Array, wanted: Array) -> float:
    """Return the root of the sum of squared differences over that of `wanted`."""
    size = float(np.linalg.norm(np.asarray(wanted, np.float64)))
    gap = float(np.linalg.norm(np.asarray(found, np.float64) - np.asarray(wanted, np.float64)))
    return gap / size if size else gap


def _noise(
    graph: Graph, inputs: Storages, expected: Mapping[int, Array], compute: Compute
) -> dict[int, tuple[float, float, float]]:
    random = np.random.default_rng(SEED)
    moved = {}
    for uid, storage in inputs.items():
        tensor = graph.by_uid[uid]
        values = np.asarray(logical_view(storage, tensor), np.float64)
        moved[uid] = to_storage(
            values * (1 + UNIT * random.choice((-1.0, 1.0), values.shape)), tensor
        )
    found = compute(graph, moved)
    noise = {}
    for uid, wanted in expected.items():
        gap = np.abs(np.asarray(found[uid], np.float64) - wanted)
        size = float(np.sqrt(np.mean(np.square(wanted, dtype=np.float64))))
        step = max(float(gap.max()), size * 2.0**-12)
        rms = max(float(np.sqrt(np.mean(gap**2))), size * 2.0**-20)
        noise[uid] = STEPS * step, STEPS * rms, STEPS * rms / size if size else 0.0
    return noise
