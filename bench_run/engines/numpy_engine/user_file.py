"""Functions of a user's file on the buffers of the engine: arrays of NumPy, or of JAX on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.engines.numpy_engine.engine import NUMPY, NumpyEngine, NumpyPlan
from bench_run.engines.spec import refuse_unknown
from bench_run.engines.user_file import KERNEL, BuiltKernel, KernelChoice, LibraryCall
from bench_run.errors import EngineError, UsageError
from bench_run.graph.dtypes import array_type
from bench_run.graph.model import Graph
from bench_run.reference.pointwise import PLAIN
from bench_run.user.kernels import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.engines.base import (
        EngineAbilities,
        EngineOptions,
        EngineSpec,
        Plan,
    )
    from bench_run.engines.numpy_engine.engine import Computation


class NumpyKernelPlan(NumpyPlan):
    """Calls the function on arrays of the tensors' dims and strides. A returned array is copied
    into the output as part of the run."""

    def __init__(self, built: BuiltKernel) -> None:
        self._checked = False
        problem = Problem(
            built.graph, built.kernel.typed(built.graph, built.knobs), "cpu", None, _workspace
        )
        self._call = built.kernel.prepare(problem)
        is_jax = built.kernel.framework == "jax"
        self._given: Callable[[Any], Any] = _as_jax if is_jax else _as_is
        self._finish: Callable[[Any], Any] = _ready if is_jax else _as_is
        super().__init__(built.graph)
        chosen = {KERNEL: built.kernel.name, **{k: str(v) for k, v in problem.knobs.items()}}
        self.facts = replace(
            self.facts, chosen=chosen, workspace_bytes=problem.workspace_bytes or None
        )

    def _bind(self, graph: Graph) -> list[Computation]:  # noqa: ARG002
        return []

    def _view(self) -> None:
        super()._view()
        self._inputs = [self._given(self._views[t.uid]) for t in self._graph.inputs]
        self._outputs = [self._views[t.uid] for t in self._graph.outputs]

    def run(self) -> None:
        results = self._finish(self._call(self._inputs, self._outputs))
        if not self._checked:
            self._check(results)
        for result, output in zip(results, self._outputs, strict=True):
            if result is not output:
                np.copyto(output, result, casting="unsafe")

    def _check(self, results: list[Any]) -> None:
        for tensor, result in zip(self._graph.outputs, results, strict=True):
            found = np.asarray(result)
            if found.dtype == object:
                raise self._call.refusal(f"returned a {type(result).__name__}")
            want = tensor.dims, array_type(tensor.data_type)
            self._call.check(tensor.name, (found.shape, found.dtype), want)
        self._checked = True

    def close(self) -> None:
        super().close()
        self._inputs, self._outputs = [], []


def _as_is(array: Any) -> Any:
    return array


def _as_jax(array: Any) -> Any:
    from importlib import import_module

    return import_module("jax").dlpack.from_dlpack(array)


def _ready(results: Any) -> Any:
    from importlib import import_module

    return import_module("jax").block_until_ready(results)


def _workspace(nbytes: int) -> Any:
    return np.empty(nbytes, np.uint8)


class NumpyKernelEngine(NumpyEngine):
    def __init__(self, spec: EngineSpec, options: EngineOptions) -> None:
        self._choice = KernelChoice(spec, options)
        super().__init__(options)
        self.facts = self._choice.facts(self.facts)

    @property
    def abilities(self) -> EngineAbilities:
        return self._choice.abilities(super().abilities)

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        return self._choice.variants(graph)

    def build(self, graph: Graph, variant: Mapping[str, str]) -> Any:
        return self._choice.build(graph, variant)

    def plan(self, built: object) -> Plan:
        assert isinstance(built, BuiltKernel)
        return self.arrange(lambda: self.part(built), built.graph)

    def part(self, built: object) -> NumpyKernelPlan:
        assert isinstance(built, BuiltKernel)
        try:
            return NumpyKernelPlan(built)
        except MemoryError as error:
            raise EngineError(f"out of memory on the host: {error}") from error


class NumpyCallEngine(NumpyEngine):
    """NumPy's own function for a graph, where it is one, through the door of files."""

    def part(self, built: object) -> NumpyPlan:
        assert isinstance(built, Graph)
        function = own_call(built)
        if function is None:
            return super().part(built)
        own = LibraryCall(function.__name__, function, NUMPY)
        return NumpyKernelPlan(BuiltKernel(built, own, {}))


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


FUNCTIONS: dict[str, Any] = {
    "relu_fwd": _relu,
    **{mode: function for mode, function in PLAIN.items() if isinstance(function, np.ufunc)},
}
"""NumPy's function by mode of a pointwise node."""


def own_call(graph: Graph) -> Callable[..., Any] | None:
    """Return the one function of NumPy that computes a graph in the type of its inputs; None if
    there is none, or if its inputs are not its arguments in order."""
    kinds = {tensor.data_type for tensor in (*graph.inputs, *graph.outputs)}
    if len(graph.nodes) != 1 or kinds not in ({"float"}, {"double"}) or graph.constants:
        return None
    (node,) = graph.nodes
    if node.type == "MatmulAttributes":
        function: Callable[..., Any] | None = np.matmul
        ports: tuple[str, ...] = "a", "b"
    elif node.type == "PointwiseAttributes" and node.attributes.keys() <= {"operation"}:
        function, ports = FUNCTIONS.get(str(node.attributes["operation"])), tuple(node.inputs)
    else:
        return None
    given = [graph.by_uid[node.inputs[port]] for port in ports if port in node.inputs]
    (made,) = graph.outputs
    if given != list(graph.inputs) or any(t.dims[:-2] != made.dims[:-2] for t in given):
        return None
    return function


def open_kernels(spec: EngineSpec, options: EngineOptions) -> NumpyEngine:
    if spec.name == NUMPY:
        return NumpyCallEngine(options)
    refuse_unknown(spec, options=("cpu",), plugin=True)
    if options.replay:
        raise UsageError("--replay: NumPy runs on the CPU, which has no graphs to replay")
    return NumpyKernelEngine(spec, options)
