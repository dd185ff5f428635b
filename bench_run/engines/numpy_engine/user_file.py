"""Functions of a user's file on the buffers of the engine: arrays of NumPy, or of JAX on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.engines.numpy_engine.engine import NumpyEngine, NumpyPlan
from bench_run.engines.spec import refuse_unknown
from bench_run.engines.user_file import KERNEL, BuiltKernel, KernelChoice
from bench_run.errors import EngineError, UsageError
from bench_run.graph.dtypes import array_type
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
    from bench_run.graph.model import Graph


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


def open_kernels(spec: EngineSpec, options: EngineOptions) -> NumpyKernelEngine:
    refuse_unknown(spec, options=("cpu",), plugin=True)
    if options.replay:
        raise UsageError("--replay: NumPy runs on the CPU, which has no graphs to replay")
    return NumpyKernelEngine(spec, options)
