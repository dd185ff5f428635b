"""Rounding errors through a chain: each graph's, from what the ones before it left.

The sizes of what passes between graphs are measured on the reference's own values, so that only
errors are carried along; estimated sizes would drift away from the true ones layer by layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench_run.graph.dtypes import DTYPES
from bench_run.validate.roundoff import output_errors
from bench_run.validate.roundoff.estimate import COARSE, Estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.chain.model import ChainGraph, Place
    from bench_run.graph.model import Tensor


def chain_errors(
    chain: ChainGraph, sizes: Mapping[int, Estimate], math: str
) -> dict[int, Estimate | None]:
    """The estimate of every output by uid; None where something on the way has no rule.

    `sizes`: measured, of inputs and as far as they are known of what passes between graphs.
    """
    known: dict[int, Estimate | None] = {}
    for place in chain.places:
        given = {t.uid: _operand(chain, t, known, sizes) for t in place.placed.inputs}
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
) -> Estimate | None:
    alias = chain.aliases.get(tensor.uid)
    uid = tensor.uid if alias is None else alias.uid
    if uid not in known:
        return sizes[uid]
    found = known[uid]
    return None if found is None else _passed_on(found, sizes.get(uid), chain.by_uid[uid])


def _passed_on(error: Estimate, size: Estimate | None, tensor: Tensor) -> Estimate:
    """As the next graph reads it. The reference rounds it too, maybe to the neighbour: once more
    than the comparison of the tensor itself allows for."""
    unit, smallest = DTYPES[tensor.data_type].unit_roundoff, DTYPES[tensor.data_type].smallest
    rounded = replace(
        error,
        rtol=error.rtol + unit,
        atol=error.atol + unit * smallest,
        drift=error.drift + COARSE * unit,
    )
    if size is None:
        return rounded
    return replace(
        rounded, rms=size.rms, mean=size.mean, peak=size.peak, low=size.low, positive=size.positive
    )
