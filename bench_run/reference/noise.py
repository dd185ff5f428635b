"""Rounding errors of the reference of an operator that a file defines.

No formula is known for its rounding errors, so they are measured on the reference itself: once in
float32, and once with each input moved by one rounding of its own type. The larger of the two
differences is the noise of an output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.dtypes import DTYPES
from bench_run.reference.rounding import widen
from bench_run.user.cases import evaluate_node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph
    from bench_run.reference.common import Array

SEED = 20_261
TERMS_OF_NOISE = 16
"""NumPy sums in pairs, where a kernel may add up one number after the other, in the type of the
data: the errors of n terms grow by √n, measured from so many terms on."""
MOST_ABOVE = 16.0
"""The largest error counts up to as many times that which 99 % of the elements stay below: where a
reference jumps (rounding, choosing), a few elements move by a step, which allows no other element
to be wrong by one."""


def reference_noise(
    graph: Graph, inputs: Mapping[int, Array], expected: Mapping[int, Array]
) -> dict[int, tuple[float, float, float]]:
    """Return the difference of each output from `expected`, by uid: the largest of an element, the
    root mean square, and that relative to the root mean square of `expected`.

    `inputs`: logical arrays by uid; `expected`: what the reference gives for them in float64.
    """
    (node,) = graph.nodes
    outputs = {port: graph.by_uid[uid] for port, uid in node.outputs.items()}
    wide = {uid: widen(array, graph.by_uid[uid].data_type) for uid, array in inputs.items()}
    noise: dict[int, tuple[float, float, float]] = dict.fromkeys(expected, (0.0, 0.0, 0.0))
    random = np.random.default_rng(SEED)

    def moved(uid: int) -> Array:
        units = DTYPES[graph.by_uid[uid].data_type].unit_roundoff
        signs = random.choice((-1.0, 1.0), wide[uid].shape)
        return wide[uid] * (1 + units * signs) if wide[uid].dtype.kind == "f" else wide[uid]

    def single(uid: int) -> Array:
        return wide[uid].astype(np.float32) if wide[uid].dtype.kind == "f" else wide[uid]

    for change in (single, moved):
        with np.errstate(all="ignore"):
            given = {port: change(uid) for port, uid in node.inputs.items()}
            found = evaluate_node(node, given, outputs)
        for port, uid in node.outputs.items():
            error = _sizes(found[port], expected[uid], DTYPES[outputs[port].data_type].largest)
            largest, rms, relative = map(max, zip(noise[uid], error, strict=True))
            noise[uid] = largest, rms, relative
    assert node.custom is not None
    grown = max(1.0, (node.custom.terms / TERMS_OF_NOISE) ** 0.5)
    return {uid: (a * grown, b * grown, c * grown) for uid, (a, b, c) in noise.items()}


def _sizes(found: Array, expected: Array, end: float) -> tuple[float, float, float]:
    """Return the largest error, the root mean square of the errors, and the ratio of that to the
    root mean square of the expected values, among the elements that are finite in both, within the
    type's range, which has this end."""
    with np.errstate(all="ignore"):
        wanted = np.asarray(expected, np.float64)
        error = np.abs(np.asarray(found, np.float64) - wanted)
    finite = np.isfinite(error) & (np.abs(wanted) <= end)
    if not finite.any():
        return 0.0, 0.0, 0.0
    rms = float(np.sqrt(np.mean(error[finite] ** 2)))
    size = float(np.sqrt(np.mean(wanted[finite] ** 2)))
    concerned = error[finite & ((wanted != 0) | (error > 0))]
    largest = 0.0
    if concerned.size:
        largest = min(float(concerned.max()), MOST_ABOVE * float(np.quantile(concerned, 0.99)))
    return largest, rms, rms / size if size else 0.0
