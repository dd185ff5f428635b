"""Plans and engines on the processor's memory: buffers in place, and one call to run on them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.engines.arrange import arrange
from bench_run.engines.base import EngineAbilities, Plan, PlanAbilities, PlanFacts
from bench_run.errors import EngineError
from bench_run.streams.host import HostStream, last_level_cache_bytes
from bench_run.tensors.layout import (
    fill_with_poison,
    logical_view,
    same_bytes,
    storage_size,
    storage_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from bench_run.engines.base import EngineOptions, Home
    from bench_run.graph.model import Graph, Tensor
    from bench_run.streams.base import Stream
    from bench_run.tensors.layout import Storage, Storages

    Array = NDArray[Any]

LINE_BYTES = 64
"""Length of a line of the processor's caches."""


@contextmanager
def memory_errors() -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise EngineError(f"out of memory on the host: {error}", detail=repr(error)) from error


class HostPlan:
    """Inputs, outputs and constants lie in buffers that stay in place; derived classes run
    on them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        used = (t for t in graph.tensors if t.uid in graph.consumed or t.uid in graph.produced)
        self.homes = {t.uid: home_of(t) for t in used if not t.virtual}
        """Storages by uid."""
        self._borrowed: frozenset[int] = frozenset()
        self._gap: Array | None = None
        """Memory that is held so that buffers do not take its place."""
        self._view()
        ends = (*graph.inputs, *graph.outputs)
        self.facts = PlanFacts(buffer_bytes=sum(self.homes[t.uid].nbytes for t in ends))

    def _view(self) -> None:
        """Set the views of the storages' elements, with the tensors' dims."""
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
            self.homes[tensor.uid] = home_of(tensor, offset_bytes)
        self._view()

    def relocate(self, gap_bytes: int) -> None:
        gap = np.zeros(gap_bytes, np.uint8)
        # All of the old ones are there until the last new one is: none takes another one's place.
        homes = {t.uid: home_of(t) for t in (*self._graph.inputs, *self._graph.outputs)}
        for uid, home in homes.items():
            np.copyto(home.view(np.uint8), self.homes[uid].view(np.uint8))
        self.homes.update(homes)
        self._gap = gap
        self._view()

    def share(self, homes: Mapping[int, Home]) -> frozenset[int]:
        for uid, home in homes.items():
            assert isinstance(home.plan, HostPlan)
            memory = home.plan.homes[home.uid]
            self.homes[uid] = memory[home.offset : home.offset + self.homes[uid].size]
        self._borrowed |= frozenset(homes)
        self._view()
        return frozenset(homes)

    def run(self) -> None:
        raise NotImplementedError

    def upload(self, inputs: Storages) -> None:
        for tensor in self._graph.inputs:
            if tensor.uid not in self._borrowed:
                np.copyto(self.homes[tensor.uid], inputs[tensor.uid])

    def poison(self) -> None:
        for tensor in self._graph.outputs:
            fill_with_poison(self.homes[tensor.uid], tensor.data_type)

    @memory_errors()
    def download(self) -> dict[int, Storage]:
        return {tensor.uid: self.homes[tensor.uid].copy() for tensor in self._graph.outputs}

    def locate_outputs(self, *, upcoming: bool) -> Mapping[int, Storage | int]:  # noqa: ARG002
        return {tensor.uid: self.homes[tensor.uid] for tensor in self._graph.outputs}

    def locate_inputs(self) -> Mapping[int, Storage | int]:
        return {tensor.uid: self.homes[tensor.uid] for tensor in self._graph.inputs}

    def changed_inputs(self, inputs: Storages) -> tuple[int, ...]:
        return tuple(u for u, given in inputs.items() if not same_bytes(self.homes[u], given))

    def close(self) -> None:
        self._views.clear()
        self.homes.clear()


def home_of(tensor: Tensor, offset_bytes: int = 0) -> Array:
    """Return a constant's value, otherwise zeros that begin `offset_bytes` after the start of a
    cache line. NumPy's own may begin in the middle of one, anew in each process: an addition of 64
    KiB then takes 3.6 µs in one round and 1.9 µs in the next."""
    dtype, size = storage_type(tensor), storage_size(tensor)
    if tensor.value is not None:
        return np.full(size, tensor.value).astype(dtype)
    memory = np.zeros(size * dtype.itemsize + LINE_BYTES + offset_bytes, np.uint8)
    first = -memory.ctypes.data % LINE_BYTES + offset_bytes
    return memory[first : first + size * dtype.itemsize].view(dtype)


class HostEngine:
    """An engine builds graphs; `part` makes a plan of what it built."""

    def __init__(self, options: EngineOptions) -> None:
        self.stream: Stream = HostStream(options.cache, pass_bytes=options.pass_bytes)
        self._cache = options.cache

    @property
    def abilities(self) -> EngineAbilities:
        return EngineAbilities(part=self.part, arrange=self.arrange)

    def part(self, built: object) -> Plan:
        raise NotImplementedError

    def plan(self, built: object) -> Plan:
        graph: Any = getattr(built, "graph", built)
        return self.arrange(lambda: self.part(built), graph)

    @memory_errors()
    def arrange(self, make: Callable[[], Plan], graph: Graph) -> Plan:
        return arrange(make, graph, self._cache, last_level_cache_bytes(), lambda _plan: None)

    def peak_bytes(self) -> int | None:
        return None

    def close(self) -> None:
        """Close the engine, which holds only Python's memory."""
