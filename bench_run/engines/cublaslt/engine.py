"""The engine: a device, its stream, a handle of cuBLASLt, and how graphs become products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_run.engines.base import EngineAbilities
from bench_run.engines.cublaslt.library import Library
from bench_run.engines.cublaslt.product import product_of
from bench_run.engines.device_engine import DeviceEngine
from bench_run.engines.device_plan import PlainProblem
from bench_run.engines.spec import refuse_unknown
from bench_run.errors import UnsupportedGraphError, UsageError
from bench_run.streams.cuda import open_stream
from bench_run.streams.cuda_driver import device_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.engines.base import EngineOptions, EngineSpec
    from bench_run.engines.cublaslt.library import Algorithm, Problem
    from bench_run.engines.cublaslt.product import Product
    from bench_run.engines.device_plan import Workspace
    from bench_run.graph.model import Graph
    from bench_run.streams.cuda import CudaStream

NAME = "cublaslt"
EVERY = "all"
MOST_ALTERNATIVES = 8


@dataclass(frozen=True)
class Built(PlainProblem):
    """A graph as a product, with the algorithm that was chosen (a `DeviceProblem`)."""

    graph: Graph
    product: Product
    algorithm: Algorithm
    index: int
    math: str
    open_problem: Callable[[Product], Problem]
    stream: int

    @property
    def workspace_bytes(self) -> int:
        return self.algorithm.workspace_bytes

    def facts(self) -> dict[str, str]:
        return {"plan": self.algorithm.name, "index": str(self.index), "math": self.math}

    def call(self, pack: dict[int, int], workspace: Workspace) -> Callable[[], None]:
        problem = self.open_problem(self.product)
        return problem.call(self.algorithm, pack, workspace, self.stream)


class CublasLtEngine(DeviceEngine):
    def __init__(
        self, library: Library, stream: CudaStream, spec: EngineSpec, options: EngineOptions
    ) -> None:
        super().__init__(NAME, stream, options)
        self._library, self._id, self._math = library, spec.id, options.math
        self._problems: list[Problem] = []
        self._devices = device_count()
        self.facts = self.device_facts(spec, library.versions())

    @property
    def abilities(self) -> EngineAbilities:
        return EngineAbilities(
            choices=self.choices,
            alternatives=self.alternatives,
            plans=self.plans,
            devices=self._devices,
            part=self.part,
            arrange=self.arrange,
            capture=self.capture,
        )

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        return self.plans(graph) if self._id == EVERY else ({},)

    def plans(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        listed = self._listed(product_of(graph))
        return tuple({"plan": name} for name in dict.fromkeys(each.name for each in listed))

    def alternatives(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        return self.plans(graph)[:MOST_ALTERNATIVES]

    def choices(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        return tuple(
            {"index": str(i), "plan": each.name, "workspace": f"{each.workspace_bytes} bytes"}
            for i, each in enumerate(self._listed(product_of(graph)))
        )

    def build(self, graph: Graph, variant: Mapping[str, str]) -> Built:
        product = product_of(graph)
        if graph.constants or any(tensor.runtime_scalar for tensor in graph.tensors):
            raise UnsupportedGraphError("cublaslt: constants among the operands")
        listed = self._listed(product)
        index = _place(listed, variant.get("plan"), self._id)
        assert self._cuda.handle.value is not None
        return Built(
            graph=graph,
            product=product,
            algorithm=listed[index],
            index=index,
            math=self._math,
            open_problem=self._open,
            stream=self._cuda.handle.value,
        )

    def complete(self, built: object) -> Built:
        assert isinstance(built, Built)
        return built

    def _open(self, product: Product) -> Problem:
        problem = self._library.problem(product, tf32=self._math != "fp32")
        self._problems.append(problem)
        return problem

    def _listed(self, product: Product) -> Sequence[Algorithm]:
        listed = self._open(product).algorithms()
        if not listed:
            raise UnsupportedGraphError("cublaslt: the heuristic lists no algorithm for it")
        return listed

    def close(self) -> None:
        super().close()
        for problem in self._problems:
            problem.close()
        self._library.close()


def _place(listed: Sequence[Any], name: str | None, identifier: str | None) -> int:
    """Return the index of the algorithm that the variant or the spec names, otherwise 0."""
    key, _, value = (identifier or "").partition("=")
    name = value if name is None and key == "plan" else name
    if name is not None:
        names = [each.name for each in listed]
        if name not in names:
            raise UnsupportedGraphError(f"cublaslt: no such algorithm; listed are {names[0]}, …")
        return names.index(name)
    place = int(value) if key == "index" else 0
    if place >= len(listed):
        raise UnsupportedGraphError(f"cublaslt: the heuristic lists {len(listed)} algorithms")
    return place


def read_id(identifier: str | None) -> None:
    """Raise `UsageError` for an id without a meaning."""
    key, equals, value = (identifier or "").partition("=")
    is_index = key == "index" and value.isdecimal()
    if identifier in (None, EVERY) or (equals and (is_index or (key == "plan" and value))):
        return
    forms = "plan=NAME, index=N or all"
    raise UsageError(f"engine 'cublaslt:{identifier}': expected {forms} after the colon")


def open_engine(spec: EngineSpec, options: EngineOptions) -> CublasLtEngine:
    refuse_unknown(spec, options=())
    read_id(spec.id)
    stream = open_stream(options.device, options.cache, options.timer, options.pass_bytes)
    return CublasLtEngine(Library(), stream, spec, options)
