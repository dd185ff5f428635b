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
from bench_run.validate.roundoff.estimate import COARSE, Estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.chain import ChainGraph
    from bench_run.graph.model import Tensor
    from bench_run.tensors.layout import Storage


SAMPLE = 1 << 16


def measured(data: Storage) -> Estimate:
    """Estimate from data, without NaN and infinities. Gaps of strides count, being similar."""
    step = max(1, data.size // SAMPLE)
    return Estimate.of(data[::step].astype(np.float64), absent=0.0)


@dataclass(frozen=True)
class Between:
    """Tensor of the reference between two graphs."""

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
    """Return the estimate of every output by uid; None if something on the way has no rule.

    `sizes` are those of the inputs, `between` has what is known of links by the writer's uid.
    """
    known: dict[int, Estimate | None] = {}
    for place in chain.places:
        present: dict[int, Estimate] = {}
        for tensor in place.placed.inputs:
            alias = chain.aliases.get(tensor.uid)
            uid = tensor.uid if alias is None else alias.uid
            error = known[uid] if uid in known else sizes[uid]
            if uid in known and error is not None:
                error = _passed_on(error, between.get(uid), chain.by_uid[uid])
            if error is not None:
                present[tensor.uid] = error
        if len(present) == len(place.placed.inputs):
            known.update(output_errors(place.placed, present, math))
        else:
            known.update(dict.fromkeys(tensor.uid for tensor in place.placed.outputs))
    return known


def _passed_on(error: Estimate, seen: Between | None, tensor: Tensor) -> Estimate:
    """Return the error that the next graph reads. The reference rounds it too, maybe to the
    neighbour: once more than the comparison of the tensor itself allows for."""
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
