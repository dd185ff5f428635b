"""Inputs of a chain from a seed: as those of its graphs, each with values of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.tensors.seeded.init_plan import parse_init
from bench_run.tensors.seeded.inputs import make_inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.graph.chain.model import ChainGraph
    from bench_run.tensors.storage import Storage


def make_chain_inputs(chain: ChainGraph, seed: int, init: Sequence[str]) -> dict[int, Storage]:
    """A storage for every input of the chain, by uid. A layer's own rules fill its inputs; what
    `init` asks for comes after, so that it wins."""
    wanted = {tensor.uid for tensor in chain.inputs}
    made: dict[int, Storage] = {}
    for place in chain.places:
        mine = wanted.intersection(place.uids.values())
        if mine:
            plan = parse_init((*place.init, *init))
            found = make_inputs(place.placed, seed, plan, frozenset(mine))
            made.update({uid: storage for uid, storage in found.items() if uid in mine})
    return made
