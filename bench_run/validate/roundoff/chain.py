"""Rounding errors through a chain: each graph's, from what the ones before it left.

What passes between graphs is measured on the reference's own values: how large it is, since
estimated sizes would drift away from the true ones layer by layer, and which part of it is zero,
since there an activation has cut the error off too.
"""

from __future__ import annotations

import math as mathematics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.dtypes import DTYPES
from bench_run.validate.roundoff import output_errors
from bench_run.validate.roundoff.estimate import COARSE, Estimate, constant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.chain import ChainGraph, Place
    from bench_run.graph.model import Tensor
    from bench_run.tensors.layout import Storage


# The estimate of data at hand, from a sample of it.

SAMPLE = 1 << 16


def measured(data: Storage) -> Estimate:
    """NaN and infinities are left out: they have no size. Gaps of strides count, being alike."""
    step = max(1, data.size // SAMPLE)
    values = data[::step].astype(np.float64)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return constant(0.0)
    size = np.abs(values)
    return Estimate(
        rms=float(np.sqrt(np.mean(values * values))),
        mean=abs(float(np.mean(values))),
        peak=float(size.max()),
        low=float(size.min()),
        positive=bool(values.min() > 0),
    )


@dataclass(frozen=True)
class Between:
    """What the reference has between two graphs."""

    size: Estimate
    nonzero: float
    """The part of the elements that is not zero."""

    @classmethod
    def of(cls, values: Storage) -> Between:
        flat = values.reshape(-1)
        sample = flat[:: max(1, flat.size // SAMPLE)]
        return cls(measured(flat), float(np.count_nonzero(sample)) / max(1, sample.size))


def chain_errors(
    chain: ChainGraph, sizes: Mapping[int, Estimate], between: Mapping[int, Between], math: str
) -> dict[int, Estimate | None]:
    """The estimate of every output by uid; None where something on the way has no rule.

    `sizes` are those of the inputs, `between` has what is known of links by the writer's uid.
    """
    known: dict[int, Estimate | None] = {}
    for place in chain.places:
        given = {t.uid: _operand(chain, t, known, sizes, between) for t in place.placed.inputs}
        known.update(_place_errors(place, given, math))
    return known


def _place_errors(
    place: Place, given: Mapping[int, Estimate | None], math: str
) -> dict[int, Estimate | None]:
    present = {uid: size for uid, size in given.items() if size is not None}
    if len(present) < len(given):
        return {tensor.uid: None for tensor in place.placed.outputs}
    return output_errors(place.placed, present, math)


def _operand(
    chain: ChainGraph,
    tensor: Tensor,
    known: Mapping[int, Estimate | None],
    sizes: Mapping[int, Estimate],
    between: Mapping[int, Between],
) -> Estimate | None:
    alias = chain.aliases.get(tensor.uid)
    uid = tensor.uid if alias is None else alias.uid
    if uid not in known:
        return sizes[uid]
    found = known[uid]
    return None if found is None else _passed_on(found, between.get(uid), chain.by_uid[uid])


def _passed_on(error: Estimate, seen: Between | None, tensor: Tensor) -> Estimate:
    """As the next graph reads it. The reference rounds it too, maybe to the neighbour: once more
    than the comparison of the tensor itself allows for."""
    unit, smallest = DTYPES[tensor.data_type].unit_roundoff, DTYPES[tensor.data_type].smallest
    rounded = replace(
        error,
        rtol=error.rtol + unit,
        atol=error.atol + unit * smallest,
        drift=error.drift + COARSE * unit,
    )
    if seen is None:
        return rounded
    size = seen.size
    return replace(
        rounded,
        atol=rounded.atol * mathematics.sqrt(seen.nonzero),
        rms=size.rms,
        mean=size.mean,
        peak=size.peak,
        low=size.low,
        positive=size.positive,
    )
