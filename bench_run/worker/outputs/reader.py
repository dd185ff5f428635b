"""What a plan left in its outputs, read as fast as the device gives it.

Whoever measures holds the device alone, and nobody else can meanwhile. Reading outputs takes longer
than measuring: so copies of them stay on the device until others may use it too, and the host's
memory that they are read into is in place before.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING

from bench_run.engines.base import LocatesOutputs
from bench_run.errors import EngineError
from bench_run.graph.dtypes import array_type
from bench_run.streams.base import CopiesMemory
from bench_run.tensors.host_memory import in_place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import Plan
    from bench_run.graph.model import Graph
    from bench_run.streams.base import DeviceMemory, Stream
    from bench_run.tensors.storage import Storages

    Addresses = Mapping[int, int]
    """By uid."""

ALIGNMENT = 256
"""Of each output in a copy."""


class OutputReader:
    """Where a plan does not say where its outputs lie, or a stream copies no memory, outputs are
    what the plan downloads, and none are held."""

    def __init__(self, plan: Plan, stream: Stream, graph: Graph) -> None:
        self._plan, self._stream = plan, stream
        self._memory = _memory_of(plan, stream)
        outputs = () if self._memory is None else graph.outputs
        self._kinds = {t.uid: (t.span, array_type(t.data_type)) for t in outputs}
        self._in_place: list[Storages] = []
        self._block: int | None = None
        self._rooms: list[Addresses] = []
        self._held: list[Addresses] = []
        self.took_ns = 0
        """The last `read`."""

    @property
    def nbytes(self) -> int:
        """Of all outputs that can be held."""
        return sum(span * kind.itemsize for span, kind in self._kinds.values())

    @property
    def room(self) -> int:
        """How many more copies can be held."""
        return len(self._rooms)

    def expect(self, count: int = 1) -> None:
        """So many readings come next. Needs no device."""
        if self._memory is not None:
            self._in_place = [self._host_memory() for _ in range(count)]

    def _host_memory(self) -> Storages:
        return {uid: in_place(span, kind) for uid, (span, kind) in self._kinds.items()}

    def read(self) -> Storages:
        """Waits for the device; what the last run left."""
        begin = time.perf_counter_ns()
        addresses = self._addresses()
        outputs = self._plan.download() if addresses is None else self._read(addresses)
        self.took_ns = time.perf_counter_ns() - begin
        return outputs

    def _addresses(self) -> Addresses | None:
        if self._memory is None or not isinstance(self._plan, LocatesOutputs):
            return None
        found = self._plan.locate_outputs(upcoming=False)
        places = {uid: place for uid, place in found.items() if isinstance(place, int)}
        return places if places.keys() == self._kinds.keys() else None

    def _read(self, addresses: Addresses) -> Storages:
        assert self._memory is not None
        self._stream.synchronize()
        outputs = self._in_place.pop() if self._in_place else self._host_memory()
        for uid, storage in outputs.items():
            if storage.nbytes:
                self._memory.copy_out(int(storage.ctypes.data), addresses[uid], storage.nbytes)
        self._stream.synchronize()
        return outputs

    def reserve(self, count: int) -> None:
        """Room on the device for so many copies; where there is not so much, for two; else for
        none, and outputs are read at once."""
        wanted = () if self._addresses() is None else sorted({count, min(count, 2)})
        for fewer in reversed(wanted):
            if self._block is None:
                with suppress(EngineError):
                    self._take(fewer)

    def _take(self, count: int) -> None:
        assert self._memory is not None
        sizes = {uid: span * kind.itemsize for uid, (span, kind) in self._kinds.items()}
        begins = list(accumulate((_aligned(size) for size in sizes.values()), initial=0))
        self._block = self._memory.allocate(count * begins[-1])
        for index in range(count):
            first = self._block + index * begins[-1]
            self._rooms.append({uid: first + at for uid, at in zip(sizes, begins, strict=False)})

    def hold(self) -> bool:
        """Enqueue a copy of what the last run left; False where there is no room for it."""
        addresses = self._addresses() if self._rooms else None
        if addresses is None or self._memory is None:
            return False
        room = self._rooms.pop()
        self._held.append(room)
        for uid, (span, kind) in self._kinds.items():
            if span:
                self._memory.copy(room[uid], addresses[uid], span * kind.itemsize)
        return True

    def fetch(self) -> list[Storages]:
        """Waits for the device; the copies that it holds, in order. All room is given back."""
        found = [self._read(each) for each in self._held]
        self._give_back()
        return found

    def close(self) -> None:
        """Give memory back."""
        self._in_place = []
        self._give_back()

    def _give_back(self) -> None:
        self._rooms, self._held = [], []
        block, self._block = self._block, None
        if block is not None and self._memory is not None:
            with suppress(EngineError):  # a device that failed keeps it until the process ends
                self._memory.free(block)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _memory_of(plan: Plan, stream: Stream) -> DeviceMemory | None:
    copies = isinstance(plan, LocatesOutputs) and isinstance(stream, CopiesMemory)
    return stream.memory() if copies and isinstance(stream, CopiesMemory) else None
