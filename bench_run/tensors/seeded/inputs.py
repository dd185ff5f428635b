"""Inputs of a graph from a seed: the same values on every machine and for every engine.

Each tensor has its own stream (PCG64 seeded by (seed, uid), see `draws.py`), so a tensor's values
do not depend on which other tensors there are. They follow the logical order: element i of the
tensor, its last axis the fastest, is value i of the stream, so that a tensor has the same values in
every memory order. Inputs of a backward node that a forward pass leaves (`derived.py`) are
computed in float64 and rounded; there the last bit may differ where BLAS sums in another order.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.packing import open_regular

from bench_run.errors import UsageError
from bench_run.files import replacing
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.layouts import ordered
from bench_run.tensors.layout import describe, empty_storage, storage_size, storage_type, to_storage
from bench_run.tensors.seeded.derived import DERIVED_HINTS, derive
from bench_run.tensors.seeded.draws import MAKERS, Draw, bit_stream, draw_of, fill, powers_of_two
from bench_run.tensors.seeded.init_plan import Init, InitPlan, parse_init
from bench_run.tensors.seeded.roles import Role, default_init, leaves_choice, own_init, roles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.graph.chain import ChainGraph
    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.layout import Storage, Storages

__all__ = ["InitPlan", "make_inputs", "parse_init"]


SCALE_EXPONENTS = (-3, 3)
"""Block scales are 2^-3 … 2^3."""


def make_inputs(
    graph: Graph, seed: int, init: InitPlan | None = None, wanted: frozenset[int] | None = None
) -> dict[int, Storage]:
    """Return a storage for every graph input, by uid. If only some are `wanted`, others are made as
    far as these follow from them.

    Raises `UsageError` if `init` asks for what a tensor cannot hold, `UnsupportedGraphError` where
    no meaningful data is known for a port.
    """
    plan = init or InitPlan()
    made: dict[int, Storage] = {}
    derived: list[Role] = []
    by_uid = roles(graph)
    needed = graph.inputs
    if wanted is not None and not any(by_uid[t.uid].hint in DERIVED_HINTS for t in needed):
        needed = tuple(tensor for tensor in needed if tensor.uid in wanted)
    for tensor in needed:
        role = by_uid[tensor.uid]
        named = plan.named(tensor) or own_init(role)
        if named is not None:
            made[tensor.uid] = _initialise(tensor, named, seed)
        elif role.hint in DERIVED_HINTS:
            derived.append(role)
        else:
            made[tensor.uid] = _by_role(graph, tensor, role, plan.default, seed)
    for role in derived:
        if role.node.inputs[role.port] not in made:
            results = derive(graph, role.node, made)
            made.update({uid: value for uid, value in results.items() if uid not in made})
    return made


def _by_role(graph: Graph, tensor: Tensor, role: Role, default: Init | None, seed: int) -> Storage:
    row = DTYPES[tensor.data_type]
    if role.hint in MAKERS:
        values = MAKERS[role.hint](graph, role.node, tensor, seed)
        return to_storage(values.reshape(tensor.dims), tensor)
    if role.hint == "attention_scale":
        head_size = graph.by_uid[role.node.inputs["q"]].dims[-1]
        return to_storage(np.full(tensor.dims, head_size**-0.5), tensor)
    if role.hint == "block_scale" or row.kind == "scale":
        return _draw(tensor, powers_of_two(*SCALE_EXPONENTS), seed)
    if default is not None and leaves_choice(tensor, role):
        return _initialise(tensor, default, seed)
    return _draw(tensor, draw_of(default_init(graph, tensor, role), row), seed)


def _draw(tensor: Tensor, draw: Draw, seed: int) -> Storage:
    plain = tensor.strides == ordered(tensor.dims, tuple(range(len(tensor.dims))))
    values = np.empty(tensor.elements, storage_type(tensor))
    fill(values, draw, bit_stream(seed, tensor.uid))
    return values if plain else to_storage(values.reshape(tensor.dims), tensor)


def _initialise(tensor: Tensor, init: Init, seed: int) -> Storage:
    if init.kind == "file":
        return _from_file(tensor, Path(init.path or ""))
    try:
        draw = draw_of(init, DTYPES[tensor.data_type])
    except UsageError as error:
        raise UsageError(f"{error}, the type of {describe(tensor)}") from None
    return _draw(tensor, draw, seed)


def _from_file(tensor: Tensor, path: Path) -> Storage:
    """Read ``.npy`` as a logical array, converted to the type; anything else as the raw storage."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if path.suffix == ".npy":
                array = np.load(file, allow_pickle=False)
            else:
                array = np.frombuffer(
                    file.read(storage_size(tensor) * storage_type(tensor).itemsize), np.uint8
                )
    except OSError as error:
        raise UsageError(f"--init: {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"--init: {path}: {error}") from None
    if path.suffix == ".npy":
        if array.shape != tensor.dims:
            dims = f"dims {tensor.dims}, the file has {array.shape}"
            raise UsageError(f"--init: {path}: {describe(tensor)} has {dims}")
        return to_storage(array, tensor)
    storage = empty_storage(tensor)
    if size != storage.nbytes:
        sizes = f"{storage.nbytes} bytes, the file has {size}"
        raise UsageError(f"--init: {path}: {describe(tensor)} takes {sizes}")
    storage.view(np.uint8)[...] = array
    return storage


def make_chain_inputs(chain: ChainGraph, seed: int, init: Sequence[str]) -> dict[int, Storage]:
    """Return a storage for every input of the chain, by uid. A layer's own rules fill its inputs;
    what `init` asks for comes after, so that it wins."""
    wanted = {tensor.uid for tensor in chain.inputs}
    made: dict[int, Storage] = {}
    for place in chain.places:
        mine = wanted.intersection(place.uids.values())
        if mine:
            plan = parse_init((*place.init, *init))
            found = make_inputs(place.placed, seed, plan, frozenset(mine))
            made.update({uid: storage for uid, storage in found.items() if uid in mine})
    return made


# Inputs that were made once, kept in a file for the rounds that follow: the same bits, read in a
# tenth of the time.
#
# One file per graph: the bytes of its storages, one after another in the order of `Graph.inputs`.
# It appears whole or not at all, and lives as long as the run; what cannot be kept is made again.

SHARE = 4
"""A file takes at most this part (1/4) of the space that is left on its disk."""


def read_inputs(path: str, graph: Graph) -> dict[int, Storage] | None:
    """Return the inputs in fresh memory; None if the file is missing or not of this graph."""
    try:
        with open(path, "rb") as file:
            made = {tensor.uid: empty_storage(tensor) for tensor in graph.inputs}
            if os.fstat(file.fileno()).st_size != _size(made):
                return None
            storages = made.values()
            whole = all(file.readinto(s.view(np.uint8).data) == s.nbytes for s in storages)
    except OSError:
        return None
    return made if whole else None


def store_inputs(path: str, graph: Graph, inputs: Storages) -> bool:
    """Write the inputs for later readers; return False if there was no room for them."""
    storages = {tensor.uid: inputs[tensor.uid] for tensor in graph.inputs}
    target = Path(path)
    try:
        if _size(storages) > shutil.disk_usage(target.parent).free // SHARE:
            return False
        with replacing(target) as part, open(part, "wb") as file:
            for storage in storages.values():
                file.write(np.ascontiguousarray(storage).view(np.uint8).data)
    except OSError:  # the folder is gone, or the disk is full
        return False
    return True


def _size(storages: Storages) -> int:
    return sum(storage.nbytes for storage in storages.values())
