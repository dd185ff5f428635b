"""Inputs of a graph from a seed: the same values on every machine and for every engine.

Each tensor has its own stream (PCG64 seeded by (seed, uid), see `draws.py`), so a tensor's values
do not depend on which other tensors there are. They follow the memory: element i of the storage
is value i of the stream. Inputs of a backward node that a forward pass leaves (`derived.py`) are
computed in float64 and rounded; there the last bit may differ where BLAS sums in another order.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench_run.errors import UsageError
from bench_run.graph.dtypes import DTYPES
from bench_run.tensors.layout import describe, empty_storage, to_storage
from bench_run.tensors.seeded.derived import DERIVED_HINTS, derive
from bench_run.tensors.seeded.draws import Draw, bit_stream, draw_of, fill, powers_of_two
from bench_run.tensors.seeded.indices import MAKERS
from bench_run.tensors.seeded.init_plan import Init, InitPlan, parse_init
from bench_run.tensors.seeded.roles import Role, default_init, leaves_choice, roles

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.storage import Storage

SCALE_EXPONENTS = (-3, 3)
"""Block scales are 2^-3 … 2^3."""


def make_inputs(
    graph: Graph, seed: int, init: InitPlan | None = None, wanted: frozenset[int] | None = None
) -> dict[int, Storage]:
    """A storage for every graph input, by uid. Where only some are `wanted`, others are made as
    far as these follow from them.

    Raises `UsageError` where `init` asks for what a tensor cannot hold, `UnsupportedGraphError`
    where no meaningful data is known for a port.
    """
    plan = init or InitPlan()
    made: dict[int, Storage] = {}
    derived: list[Role] = []
    by_uid = roles(graph)
    for tensor in _needed(graph, by_uid, wanted):
        role, named = by_uid[tensor.uid], plan.named(tensor)
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


def _needed(
    graph: Graph, by_uid: dict[int, Role], wanted: frozenset[int] | None
) -> tuple[Tensor, ...]:
    """All inputs where one that is wanted is computed from others."""
    derived = any(by_uid[t.uid].hint in DERIVED_HINTS for t in graph.inputs)
    if wanted is None or derived:
        return graph.inputs
    return tuple(tensor for tensor in graph.inputs if tensor.uid in wanted)


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
    storage = empty_storage(tensor)
    fill(storage, draw, bit_stream(seed, tensor.uid))
    return storage


def _initialise(tensor: Tensor, init: Init, seed: int) -> Storage:
    if init.kind == "file":
        return _from_file(tensor, Path(init.path or ""))
    try:
        draw = draw_of(init, DTYPES[tensor.data_type])
    except UsageError as error:
        raise UsageError(f"{error}, the type of {describe(tensor)}") from None
    return _draw(tensor, draw, seed)


def _from_file(tensor: Tensor, path: Path) -> Storage:
    """``.npy`` holds a logical array, converted to the type; anything else is the raw storage."""
    try:
        if path.suffix == ".npy":
            array = np.load(path, allow_pickle=False)
        else:
            array = np.frombuffer(path.read_bytes(), np.uint8)
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
    if array.size != storage.nbytes:
        sizes = f"{storage.nbytes} bytes, the file has {array.size}"
        raise UsageError(f"--init: {path}: {describe(tensor)} takes {sizes}")
    storage.view(np.uint8)[...] = array
    return storage


__all__ = ["InitPlan", "make_inputs", "parse_init"]
