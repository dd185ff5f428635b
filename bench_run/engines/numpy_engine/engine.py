"""The engine and its plans: buffers, and a flat list of calls over them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.engines.base import (
    EngineFacts,
    EngineOptions,
    EngineSpec,
    Plan,
    PlanFacts,
)
from bench_run.engines.numpy_engine.kernels import KERNELS
from bench_run.engines.numpy_engine.op import Op, check_types
from bench_run.engines.numpy_engine.program import Program
from bench_run.engines.processor import processor_name
from bench_run.engines.rotate import RotatingPlan, copies
from bench_run.engines.spec import refuse_unknown
from bench_run.errors import EngineError, UnsupportedGraphError, UsageError
from bench_run.graph.model import Graph
from bench_run.streams.host import HostStream, last_level_cache_bytes
from bench_run.tensors.layout import same_bytes
from bench_run.tensors.poison import fill_with_poison

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench_run.streams.base import Stream
    from bench_run.tensors.storage import Storage, Storages


@contextmanager
def _memory_errors() -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise EngineError(f"out of memory on the host: {error}", detail=repr(error)) from error


@dataclass
class NumpyPlan:
    """Runs the calls of a program in order, on buffers that stay in place."""

    program: Program
    facts: PlanFacts = field(init=False)

    def __post_init__(self) -> None:
        graph, homes = self.program.graph, self.program.homes
        ends = (*graph.inputs, *graph.outputs)
        self.facts = PlanFacts(
            workspace_bytes=self.program.workspace_bytes,
            buffer_bytes=sum(homes[tensor.uid].nbytes for tensor in ends),
        )
        self._steps = self.program.steps

    def upload(self, inputs: Storages) -> None:
        for tensor in self.program.graph.inputs:
            np.copyto(self.program.homes[tensor.uid], inputs[tensor.uid])

    def poison(self) -> None:
        for tensor in self.program.graph.outputs:
            fill_with_poison(self.program.homes[tensor.uid], tensor.data_type)

    def run(self) -> None:
        for step in self._steps:
            step()

    @_memory_errors()
    def download(self) -> dict[int, Storage]:
        outputs = self.program.graph.outputs
        return {tensor.uid: self.program.homes[tensor.uid].copy() for tensor in outputs}

    def locate_outputs(self, *, upcoming: bool) -> Mapping[int, Storage | int]:  # noqa: ARG002
        return {t.uid: self.program.homes[t.uid] for t in self.program.graph.outputs}

    def changed_inputs(self, inputs: Storages) -> tuple[int, ...]:
        homes = self.program.homes
        return tuple(uid for uid, given in inputs.items() if not same_bytes(homes[uid], given))

    def close(self) -> None:
        self._steps = []
        self.program.steps.clear()
        self.program.homes.clear()


class NumpyEngine:
    def __init__(self, options: EngineOptions) -> None:
        self.stream: Stream = HostStream(options.cache)
        self._rotates = options.cache == "rotate"
        self.facts = EngineFacts(
            id=None, libraries=_libraries(), device="cpu", device_kind=processor_name()
        )
        # Overflow to infinity is a result here; a context manager in every run costs 1.3 µs.
        self._errors: dict[str, Any] | None = dict(np.seterr(all="ignore"))

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:  # noqa: ARG002
        return ({},)

    def build(self, graph: Graph, variant: Mapping[str, str]) -> Graph:  # noqa: ARG002
        for node in graph.nodes:
            if node.type not in KERNELS:
                raise UnsupportedGraphError(f"numpy: {node.label}: no kernel for this node type")
        check_types(graph)
        return graph

    @_memory_errors()
    def plan(self, built: object) -> Plan:
        assert isinstance(built, Graph)
        first = _plan(built)
        if not self._rotates:
            return first
        count = copies(first.facts.buffer_bytes or 0, last_level_cache_bytes())
        return RotatingPlan([first, *(_plan(built) for _ in range(count - 1))])

    def peak_bytes(self) -> int | None:
        return None

    def close(self) -> None:
        if self._errors is not None:
            np.seterr(**self._errors)
            self._errors = None


def _plan(graph: Graph) -> NumpyPlan:
    program = Program(graph)
    for node in graph.nodes:
        with program.frame():
            KERNELS[node.type](Op(program, node))
    return NumpyPlan(program)


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
