"""The engine and its plans: buffers, and the formula of the reference for each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.engines.base import (
    EngineFacts,
    EngineOptions,
    EngineSpec,
)
from bench_run.engines.host_plan import HostEngine, HostPlan, memory_errors
from bench_run.engines.spec import refuse_unknown
from bench_run.errors import EngineError, UnsupportedGraphError, UsageError
from bench_run.graph.dtypes import DTYPES, array_type
from bench_run.graph.make.operators import is_operator, row_of
from bench_run.graph.model import Graph
from bench_run.graph.scratch import IN_FLOAT64
from bench_run.machine.host import processor_name
from bench_run.reference import OPERATIONS, refuse
from bench_run.reference.rounding import rounded, settle
from bench_run.user.cases import evaluate_node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Node
    from bench_run.reference.common import Array, Arrays, Operation, Outputs


NUMPY = "numpy"
CALL = "call"
"""Option: its own call for a graph comes through the door of kernel files."""


@dataclass(frozen=True)
class Computation:
    """One node, ready to be computed."""

    node: Node
    formula: Operation
    inputs: tuple[tuple[str, int, np.dtype[Any]], ...]
    """Port, uid and the type in which the formula takes it."""
    outputs: Outputs


class NumpyPlan(HostPlan):
    """Computes the nodes one after another; virtual tensors live while it runs."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._steps = self._bind(graph)

    def _bind(self, graph: Graph) -> list[Computation]:
        return [_step(graph, node) for node in graph.nodes]

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

    def close(self) -> None:
        self._steps.clear()
        super().close()


def _step(graph: Graph, node: Node) -> Computation:
    """Return the computation of a node. Integers stay integers, and are computed in float64 by
    formulas that need floats."""
    compute = np.dtype(np.float64 if node.compute_data_type in IN_FLOAT64 else np.float32)
    types = {"integer": np.dtype(np.int64), "boolean": np.dtype(np.bool_)}
    inputs = (
        (port, uid, types.get(DTYPES[graph.by_uid[uid].data_type].kind, compute))
        for port, uid in node.inputs.items()
    )
    outputs = {port: graph.by_uid[uid] for port, uid in node.outputs.items()}
    return Computation(node, FORMULAS[node.type], tuple(inputs), outputs)


def _custom(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute a custom node. Random operators draw their values, as an engine does; the reference
    has constants."""
    return evaluate_node(node, inputs, outputs, drawn=True)


CUSTOM = "CustomOpAttributes"
FORMULAS = {**OPERATIONS, CUSTOM: _custom}


def _saturated(result: Array, data_type: str) -> Array:
    """Return the result within the range of an 8-bit float or integer type, which NumPy would not
    keep."""
    row = DTYPES[data_type]
    if row.kind == "integer":
        return rounded(settle(result, data_type), data_type)
    return (
        np.clip(result, row.lowest, row.largest)
        if row.bits == 8 and row.kind != "boolean"
        else result
    )


class NumpyEngine(HostEngine):
    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
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

    @memory_errors()
    def part(self, built: object) -> NumpyPlan:
        assert isinstance(built, Graph)
        return NumpyPlan(built)

    def close(self) -> None:
        if self._errors is not None:
            np.seterr(**self._errors)
            self._errors = None


def open_engine(spec: EngineSpec, options: EngineOptions) -> NumpyEngine:
    refuse_unknown(spec, options=(CALL,))
    if spec.id is not None:
        raise UsageError(f"engine {spec.text!r}: numpy has no ids")
    if options.replay:
        raise UsageError("--replay: numpy runs on the CPU, which has no graphs to replay")
    return NumpyEngine(options)
