"""The engine and its plans: buffers, and the formula of the reference for each node."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.engines.arrange import arrange
from bench_run.engines.base import (
    EngineAbilities,
    EngineFacts,
    EngineOptions,
    EngineSpec,
    Plan,
    PlanAbilities,
    PlanFacts,
)
from bench_run.engines.spec import refuse_unknown
from bench_run.errors import EngineError, UnsupportedGraphError, UsageError
from bench_run.graph.dtypes import DTYPES, array_type
from bench_run.graph.make.operators import is_operator, row_of
from bench_run.graph.model import Graph
from bench_run.graph.scratch import IN_FLOAT64
from bench_run.machine.host import processor_name
from bench_run.reference import OPERATIONS, refuse
from bench_run.reference.rounding import rounded, settle
from bench_run.streams.host import HostStream, last_level_cache_bytes
from bench_run.tensors.layout import (
    fill_with_poison,
    logical_view,
    same_bytes,
    storage_size,
    storage_type,
)
from bench_run.user.cases import evaluate_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench_run.engines.base import Home
    from bench_run.graph.model import Node, Tensor
    from bench_run.reference.common import Array, Arrays, Operation, Outputs
    from bench_run.streams.base import Stream
    from bench_run.tensors.layout import Storage, Storages


NUMPY = "numpy"
LINE_BYTES = 64
"""Length of a line of the processor's caches."""


@contextmanager
def _memory_errors() -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise EngineError(f"out of memory on the host: {error}", detail=repr(error)) from error


@dataclass(frozen=True)
class Computation:
    """One node, ready to be computed."""

    node: Node
    formula: Operation
    inputs: tuple[tuple[str, int, np.dtype[Any]], ...]
    """Port, uid and the type in which the formula takes it."""
    outputs: Outputs


class NumpyPlan:
    """Computes the nodes one after another; inputs and outputs lie in buffers that stay in place,
    virtual tensors live while it runs."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        used = (t for t in graph.tensors if t.uid in graph.consumed or t.uid in graph.produced)
        self.homes = {t.uid: _home(t) for t in used if not t.virtual}
        """Storages by uid."""
        self._borrowed: frozenset[int] = frozenset()
        self._gap: Array | None = None
        """Memory that is held so that buffers do not take its place."""
        self._steps = self._bind(graph)
        self._view()
        ends = (*graph.inputs, *graph.outputs)
        self.facts = PlanFacts(buffer_bytes=sum(self.homes[t.uid].nbytes for t in ends))

    def _bind(self, graph: Graph) -> list[Computation]:
        return [_step(graph, node) for node in graph.nodes]

    def _view(self) -> None:
        """The elements of the storages, with the tensors' dims."""
        by_uid = self._graph.by_uid
        self._views = {uid: logical_view(home, by_uid[uid]) for uid, home in self.homes.items()}

    @property
    def abilities(self) -> PlanAbilities:
        return PlanAbilities(
            locate_outputs=self.locate_outputs,
            locate_inputs=self.locate_inputs,
            changed_inputs=self.changed_inputs,
            share=self.share,
            move=self.move,
            relocate=None if self._borrowed else self.relocate,
        )

    def move(self, offset_bytes: int) -> None:
        for tensor in (*self._graph.inputs, *self._graph.outputs):
            self.homes[tensor.uid] = _home(tensor, offset_bytes)
        self._view()

    def relocate(self, gap_bytes: int) -> None:
        gap = np.zeros(gap_bytes, np.uint8)
        # All of the old ones are there until the last new one is: none takes another one's place.
        homes = {t.uid: _home(t) for t in (*self._graph.inputs, *self._graph.outputs)}
        for uid, home in homes.items():
            np.copyto(home.view(np.uint8), self.homes[uid].view(np.uint8))
        self.homes.update(homes)
        self._gap = gap
        self._view()

    def share(self, homes: Mapping[int, Home]) -> frozenset[int]:
        for uid, home in homes.items():
            assert isinstance(home.plan, NumpyPlan)
            memory = home.plan.homes[home.uid]
            self.homes[uid] = memory[home.offset : home.offset + self.homes[uid].size]
        self._borrowed |= frozenset(homes)
        self._view()
        return frozenset(homes)

    def upload(self, inputs: Storages) -> None:
        for tensor in self._graph.inputs:
            if tensor.uid not in self._borrowed:
                np.copyto(self.homes[tensor.uid], inputs[tensor.uid])

    def poison(self) -> None:
        for tensor in self._graph.outputs:
            fill_with_poison(self.homes[tensor.uid], tensor.data_type)

    def run(self) -> None:
        values = dict(self._views)
        step = None
        try:
            for step in self._steps:
                inputs = {port: values[uid].astype(t, copy=False) for port, uid, t in step.inputs}
                results = step.formula(step.node, inputs, step.outputs)
                for port, tensor in step.outputs.items():
                    result = _saturated(results[port].reshape(tensor.dims), tensor.data_type)
                    if tensor.virtual:
                        values[tensor.uid] = result.astype(array_type(tensor.data_type), copy=False)
                    else:
                        np.copyto(values[tensor.uid], result, casting="unsafe")
        except MemoryError as error:
            raise EngineError(f"out of memory on the host: {error}", detail=repr(error)) from error
        except UnsupportedGraphError as error:
            if step is None or step.node.type == CUSTOM:
                raise
            raise EngineError(f"numpy: {error}") from None  # values that do not fit

    @_memory_errors()
    def download(self) -> dict[int, Storage]:
        return {tensor.uid: self.homes[tensor.uid].copy() for tensor in self._graph.outputs}

    def locate_outputs(self, *, upcoming: bool) -> Mapping[int, Storage | int]:  # noqa: ARG002
        return {tensor.uid: self.homes[tensor.uid] for tensor in self._graph.outputs}

    def locate_inputs(self) -> Mapping[int, Storage | int]:
        return {tensor.uid: self.homes[tensor.uid] for tensor in self._graph.inputs}

    def changed_inputs(self, inputs: Storages) -> tuple[int, ...]:
        return tuple(u for u, given in inputs.items() if not same_bytes(self.homes[u], given))

    def close(self) -> None:
        self._steps.clear()
        self._views.clear()
        self.homes.clear()


def _step(graph: Graph, node: Node) -> Computation:
    """Integers stay integers, and are computed in float64 by formulas that need floats."""
    compute = np.dtype(np.float64 if node.compute_data_type in IN_FLOAT64 else np.float32)
    types = {"integer": np.dtype(np.int64), "boolean": np.dtype(np.bool_)}
    inputs = (
        (port, uid, types.get(DTYPES[graph.by_uid[uid].data_type].kind, compute))
        for port, uid in node.inputs.items()
    )
    outputs = {port: graph.by_uid[uid] for port, uid in node.outputs.items()}
    return Computation(node, FORMULAS[node.type], tuple(inputs), outputs)


def _custom(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Random operators draw their values, as an engine does; the reference has constants."""
    return evaluate_node(node, inputs, outputs, drawn=True)


CUSTOM = "CustomOpAttributes"
FORMULAS = {**OPERATIONS, CUSTOM: _custom}


def _home(tensor: Tensor, offset_bytes: int = 0) -> Array:
    """A constant's value, else zeros that begin `offset_bytes` after the start of a cache line.
    NumPy's own may begin in the middle of one, anew in each process: an addition of 64 KiB then
    takes 3.6 µs in one round and 1.9 µs in the next."""
    dtype, size = storage_type(tensor), storage_size(tensor)
    if tensor.value is not None:
        return np.full(size, tensor.value).astype(dtype)
    memory = np.zeros(size * dtype.itemsize + LINE_BYTES + offset_bytes, np.uint8)
    first = -memory.ctypes.data % LINE_BYTES + offset_bytes
    return memory[first : first + size * dtype.itemsize].view(dtype)


def _saturated(result: Array, data_type: str) -> Array:
    """The result within the range of an 8-bit float or integer type, which NumPy would not keep."""
    row = DTYPES[data_type]
    if row.kind == "integer":
        return rounded(settle(result, data_type), data_type)
    return (
        np.clip(result, row.lowest, row.largest)
        if row.bits == 8 and row.kind != "boolean"
        else result
    )


class NumpyEngine:
    def __init__(self, options: EngineOptions) -> None:
        self.stream: Stream = HostStream(options.cache, pass_bytes=options.pass_bytes)
        self._cache = options.cache
        # NumPy, and the BLAS it was built with.
        found = {"numpy": np.__version__}
        blas = getattr(np.__config__, "CONFIG", {}).get("Build Dependencies", {}).get("blas", {})
        if "name" in blas:
            found[str(blas["name"])] = str(blas.get("version", "unknown"))
        self.facts = EngineFacts(
            id=None, libraries=found, device="cpu", device_kind=processor_name()
        )
        # Overflow to infinity is a result here; a context manager in every run costs 1.3 µs.
        self._errors: dict[str, Any] | None = dict(np.seterr(all="ignore"))

    @property
    def abilities(self) -> EngineAbilities:
        return EngineAbilities(part=self.part, arrange=self.arrange)

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:  # noqa: ARG002
        return ({},)

    def build(self, graph: Graph, variant: Mapping[str, str]) -> Graph:  # noqa: ARG002
        try:
            refuse(graph)
        except UnsupportedGraphError as error:
            raise UnsupportedGraphError(f"numpy: {error}") from None
        for node in graph.nodes:
            if is_operator(node) and NUMPY in (refused := row_of(node)[0].refused):
                raise UnsupportedGraphError(f"numpy: {refused[NUMPY]}")
        return graph

    def plan(self, built: object) -> Plan:
        assert isinstance(built, Graph)
        return self.arrange(lambda: self.part(built), built)

    @_memory_errors()
    def part(self, built: object) -> NumpyPlan:
        assert isinstance(built, Graph)
        return NumpyPlan(built)

    @_memory_errors()
    def arrange(self, make: Callable[[], Plan], graph: Graph) -> Plan:
        return arrange(make, graph, self._cache, last_level_cache_bytes(), lambda _plan: None)

    def peak_bytes(self) -> int | None:
        return None

    def close(self) -> None:
        if self._errors is not None:
            np.seterr(**self._errors)
            self._errors = None


def open_engine(spec: EngineSpec, options: EngineOptions) -> NumpyEngine:
    refuse_unknown(spec, options=())
    if spec.id is not None:
        raise UsageError(f"engine {spec.text!r}: numpy has no ids")
    if options.replay:
        raise UsageError("--replay: numpy runs on the CPU, which has no graphs to replay")
    return NumpyEngine(options)
