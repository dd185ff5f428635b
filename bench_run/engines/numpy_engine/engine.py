"""The engine and its plans: buffers, and a flat list of calls over them."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.metadata import version
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
from bench_run.engines.numpy_engine.kernels import KERNELS
from bench_run.engines.numpy_engine.op import Op, check_types
from bench_run.engines.numpy_engine.program import Program
from bench_run.engines.processor import processor_name
from bench_run.engines.spec import refuse_unknown
from bench_run.errors import EngineError, UnsupportedGraphError, UsageError
from bench_run.graph.model import Graph
from bench_run.streams.host import HostStream, last_level_cache_bytes
from bench_run.tensors.layout import fill_with_poison, same_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench_run.engines.base import Home
    from bench_run.engines.numpy_engine.program import Array
    from bench_run.streams.base import Stream
    from bench_run.tensors.layout import Storage, Storages


@contextmanager
def _memory_errors() -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise EngineError(f"out of memory on the host: {error}", detail=repr(error)) from error


class NumpyPlan:
    """Runs the calls of a program in order, on buffers that stay in place."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._borrowed: frozenset[int] = frozenset()
        self._use(_program(graph, None))

    def _use(self, program: Program) -> None:
        homes, ends = program.homes, (*self._graph.inputs, *self._graph.outputs)
        self.program, self._steps = program, program.steps
        self.facts = PlanFacts(
            workspace_bytes=program.workspace_bytes,
            buffer_bytes=sum(homes[tensor.uid].nbytes for tensor in ends),
        )

    @property
    def abilities(self) -> PlanAbilities:
        return PlanAbilities(
            locate_outputs=self.locate_outputs,
            changed_inputs=self.changed_inputs,
            share=self.share,
        )

    def share(self, homes: Mapping[int, Home]) -> frozenset[int]:
        """Planned anew over the memory of others: calls hold views of it."""
        own = dict(self.program.homes)
        for uid, home in homes.items():
            assert isinstance(home.plan, NumpyPlan)
            memory = home.plan.program.homes[home.uid]
            own[uid] = memory[home.offset : home.offset + own[uid].size]
        self._borrowed |= frozenset(homes)
        self._use(_program(self._graph, own))
        return frozenset(homes)

    def upload(self, inputs: Storages) -> None:
        for tensor in self._graph.inputs:
            if tensor.uid not in self._borrowed:
                np.copyto(self.program.homes[tensor.uid], inputs[tensor.uid])

    def poison(self) -> None:
        for tensor in self._graph.outputs:
            fill_with_poison(self.program.homes[tensor.uid], tensor.data_type)

    def run(self) -> None:
        for step in self._steps:
            step()

    @_memory_errors()
    def download(self) -> dict[int, Storage]:
        outputs = self._graph.outputs
        return {tensor.uid: self.program.homes[tensor.uid].copy() for tensor in outputs}

    def locate_outputs(self, *, upcoming: bool) -> Mapping[int, Storage | int]:  # noqa: ARG002
        return {t.uid: self.program.homes[t.uid] for t in self._graph.outputs}

    def changed_inputs(self, inputs: Storages) -> tuple[int, ...]:
        homes = self.program.homes
        return tuple(uid for uid, given in inputs.items() if not same_bytes(homes[uid], given))

    def close(self) -> None:
        self._steps = []
        self.program.steps.clear()
        self.program.homes.clear()


class NumpyEngine:
    def __init__(self, options: EngineOptions) -> None:
        self.stream: Stream = HostStream(options.cache, pass_bytes=options.pass_bytes)
        self._cache = options.cache
        self.facts = EngineFacts(
            id=None, libraries=_libraries(), device="cpu", device_kind=processor_name()
        )
        # Overflow to infinity is a result here; a context manager in every run costs 1.3 µs.
        self._errors: dict[str, Any] | None = dict(np.seterr(all="ignore"))

    @property
    def abilities(self) -> EngineAbilities:
        return EngineAbilities(part=self.part, arrange=self.arrange)

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:  # noqa: ARG002
        return ({},)

    def build(self, graph: Graph, variant: Mapping[str, str]) -> Graph:  # noqa: ARG002
        for node in graph.nodes:
            if node.type not in KERNELS:
                raise UnsupportedGraphError(f"numpy: {node.label}: no kernel for this node type")
        check_types(graph)
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


def _program(graph: Graph, homes: dict[int, Array] | None) -> Program:
    program = Program(graph, homes)
    for node in graph.nodes:
        with program.frame():
            KERNELS[node.type](Op(program, node))
    return program


def open_engine(spec: EngineSpec, options: EngineOptions) -> NumpyEngine:
    refuse_unknown(spec, options=())
    if spec.id is not None:
        raise UsageError(f"engine {spec.text!r}: numpy has no ids")
    if options.replay:
        raise UsageError("--replay: numpy runs on the CPU, which has no graphs to replay")
    return NumpyEngine(options)


def _libraries() -> dict[str, str]:
    """NumPy, and the BLAS it was built with."""
    found = {"numpy": version("numpy")}
    blas = getattr(np.__config__, "CONFIG", {}).get("Build Dependencies", {}).get("blas", {})
    if "name" in blas:
        found[str(blas["name"])] = str(blas.get("version", "unknown"))
    return found
