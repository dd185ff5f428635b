"""The part of the engine ``kernel`` that does not depend on the framework: which function runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.usage import nearest

from bench_run.engines.base import knobs_of_variant
from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError
from bench_run.user.kernels import Bound, Call, Kernel, KernelFile, Marks
from bench_run.user.source import Source, load_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_run.engines.base import EngineAbilities, EngineFacts, EngineOptions, EngineSpec
    from bench_run.graph.model import Graph
    from bench_run.user.kernels import Problem

KERNEL = "kernel"
"""Name of the function in a variant and among the facts of a plan."""
PLAN = "plan"
"""Name of a function with its knobs in a variant."""
CALL = "call"
"""Option of an engine of a framework: its own call for a graph comes through the door of files."""
EVERY = "all"
"""Id for every function of the file that fits, as without an id."""
PACKAGES = {
    "cupy": ("cupy", "cupy-cuda13x", "cupy-cuda12x"),
    "jax": ("jax",),
    "numba": ("numba",),
    "torch": ("triton",),
}
"""Packages whose versions are recorded, by framework."""


OWN = Source(Path(__file__), sys.modules[__name__], "")


@dataclass(frozen=True)
class BuiltKernel:
    """A function that was chosen for a graph."""

    graph: Graph
    kernel: Kernel
    knobs: Mapping[str, str]


class LibraryCall(Kernel):
    """A framework's own function for a graph, called as those of a file are."""

    def __init__(self, name: str, function: Callable[..., Any], framework: str) -> None:
        """Take a `function` of the graph's inputs in order that returns the outputs."""
        super().__init__(name, function, OWN, Marks(framework=framework))

    def typed(self, graph: Graph, knobs: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def prepare(self, problem: Problem) -> Call:
        graph = problem.graph
        places = tuple(range(len(graph.inputs)))
        return Call(self, graph, self.function, Bound(places, {}, {}, frozenset()))


class KernelChoice:
    """Chooses the function for a graph, by the specification, the variant and the parameters."""

    def __init__(self, spec: EngineSpec, options: EngineOptions) -> None:
        assert spec.plugin_path is not None
        try:
            self.file = KernelFile(
                load_source(spec.plugin_path), None if spec.id == EVERY else spec.id
            )
        except EngineError as error:
            raise EngineUnavailableError(f"{spec.text}: {error}") from error
        self._knobs = options.knobs

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """Return one variant for each function that fits; a single one has no name."""
        try:
            found = self.file.fitting(graph, self._knobs)
        except UnsupportedGraphError:
            return ({},)  # `build` refuses, with the reason
        return tuple({KERNEL: each.name} for each in found) if len(found) > 1 else ({},)

    def build(self, graph: Graph, variant: Mapping[str, str]) -> BuiltKernel:
        if PLAN in variant:
            plans = self._plans(graph)
            if variant[PLAN] not in plans:
                what = f"no plan {variant[PLAN]!r}{nearest(variant[PLAN], list(plans))}"
                raise UnsupportedGraphError(f"{self.file.source.path.name}: {what}")
            kernel, knobs = plans[variant[PLAN]]
            return BuiltKernel(graph, kernel, knobs)
        knobs = {**self._knobs, **knobs_of_variant(variant)}
        return BuiltKernel(graph, self.file.choose(graph, knobs, variant.get(KERNEL)), knobs)

    def knob_values(
        self, graph: Graph, variant: Mapping[str, str]
    ) -> Mapping[str, tuple[str, ...]]:
        found = self.file.choose(graph, self._knobs, variant.get(KERNEL)).knobs(graph)
        return {name: tuple(map(str, values)) for name, values in found.items()}

    def plans(self, graph: Graph) -> Sequence[Mapping[str, str]]:
        """Return every function that fits, with every combination of the values of its knobs."""
        return [{PLAN: name} for name in self._plans(graph)]

    def _plans(self, graph: Graph) -> dict[str, tuple[Kernel, Mapping[str, str]]]:
        kernels = self.file.fitting(graph, self._knobs)
        found: dict[str, tuple[Kernel, Mapping[str, str]]] = {}
        for kernel in kernels:
            for knobs in _combinations(kernel.knobs(graph)):
                words = [f"{name}={value}" for name, value in knobs.items()]
                name = " ".join([kernel.name, *words] if len(kernels) > 1 or not words else words)
                found[name] = kernel, {**self._knobs, **knobs}
        return found

    def abilities(self, own: EngineAbilities) -> EngineAbilities:
        return replace(own, knob_values=self.knob_values, plans=self.plans)

    def facts(self, own: EngineFacts) -> EngineFacts:
        """Return the facts of the framework's engine, with the origin of the file."""
        source = self.file.source
        names = {
            name for kernel in self.file.kernels for name in PACKAGES.get(kernel.framework, ())
        }
        libraries = {**own.libraries, **_versions(names), **source.libraries()}
        used = sorted({kernel.framework for kernel in self.file.kernels})
        knobs = {"framework": ", ".join(used), **self._knobs}
        return replace(
            own,
            id=None,
            libraries=libraries,
            plugin_path=str(source.path),
            plugin_sha256=source.sha256,
            knobs=knobs,
        )


def _combinations(values: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, str]]:
    for combination in product(*values.values()):
        yield dict(zip(values, map(str, combination), strict=True))


def _versions(names: set[str]) -> dict[str, Any]:
    found = {}
    for name in sorted(names):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
