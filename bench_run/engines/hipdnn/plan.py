"""A plan: hipDNN's graph with its plans built, workspace and buffers."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.engines.base import PlanAbilities
from bench_run.engines.hipdnn.errors import check, failure
from bench_run.errors import BenchRunError
from bench_run.streams.hip import loaded_runtime
from bench_run.tensors.layout import describe, poison_byte, storage_size, storage_type
from bench_run.text import time_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from bench_run.engines.base import Home, PlanFacts
    from bench_run.engines.hipdnn.loading import Library
    from bench_run.graph.model import Graph, Tensor
    from bench_run.streams.hip import CapturedWork, HipStream
    from bench_run.tensors.layout import Storage, Storages


STEP = "Graph.execute"
WITNESS, WITNESSED = "Graph.execute_timed_ext", 5
SAYS = "execute_timed_ext says"


@dataclass(frozen=True)
class Compiled:
    """hipDNN's graph with its plan built, and what it is executed with."""

    library: Library
    native: Any
    handle: Any
    workspace: Any
    """A `DeviceBuffer`; None if the plan needs none."""


class HipdnnPlan:
    """Executes into the first set of buffers; with several (cache state *rotate*) into each in
    turn. Enqueues only: `synchronize` waits."""

    def __init__(
        self,
        compiled: Compiled,
        sets: Sequence[Buffers],
        facts: PlanFacts,
        stream: HipStream,
        *,
        searches: bool = False,
    ) -> None:
        library, native, workspace = compiled.library, compiled.native, compiled.workspace
        self._facts, self._version, self._library = facts, library.version, library
        self._native, self._handle, self._sets = native, compiled.handle, list(sets)
        self._workspace = workspace
        with library.calling("DeviceBuffer.ptr"):
            self._workspace_pointer = 0 if workspace is None else int(workspace.ptr())
        self._stream, self._synchronize = stream, stream.synchronize
        self._execute, self._pack, self._turn = native.execute, sets[0].pack, 0
        if len(sets) > 1:
            self.run = self._run_in_turn  # type: ignore[method-assign]
        self._graphs: list[CapturedWork] = []
        stream.attach(self.run)
        self._searches = searches
        """The first execution with benchmarking on looks for the fastest algorithm."""

    @property
    def facts(self) -> PlanFacts:
        """Return the facts; the timing is known once the plan was tried."""
        return replace(self._facts, chosen={**self._facts.chosen, "timing": self._stream.timing})

    @property
    def abilities(self) -> PlanAbilities:
        return PlanAbilities(share=self.share, searches=self._searches, witness=self.witness)

    def share(self, homes: Mapping[int, Home]) -> frozenset[int]:
        """Share memory between plans of one set of buffers, such as the parts of a chain. Return
        the uids that now share it."""
        done = set()
        for uid, home in homes.items():
            assert isinstance(home.plan, HipdnnPlan)
            if self._sets[0].borrow(uid, home.plan._sets[0], home.uid, home.offset):
                done.add(uid)
        return frozenset(done)

    def upload(self, inputs: Storages) -> None:
        for buffers in self._sets:
            buffers.upload(inputs)

    def poison(self) -> None:
        self._synchronize()
        for buffers in self._sets:
            buffers.poison()

    def run(self) -> None:
        try:
            error = self._execute(self._handle, self._pack, self._workspace_pointer)
            if not error.is_good():
                check(STEP, error)
        except BenchRunError:
            raise
        except Exception as caught:  # foreign: other releases raise other errors
            raise failure(STEP, caught, self._version) from caught

    def capture(self) -> None:
        """Make `run` launch a HIP graph of one execution's work from now on, one for each set of
        buffers. It is executed once before, since the first call may search."""
        self.run()
        self._synchronize()
        runtime = loaded_runtime()
        assert runtime is not None, "the stream was made by it"
        with self._library.calling("capture of Graph.execute"):
            for buffers in self._sets:
                self._pack = buffers.pack
                run = partial(HipdnnPlan.run, self)
                self._graphs.append(runtime.capture(self._stream.number, run))
        self.run = self._launch  # type: ignore[method-assign]
        self._stream.attach(self.run)
        chosen = {**self._facts.chosen, "replay": "one HIP graph for an execution"}
        self._facts = replace(self._facts, chosen=chosen)

    def _launch(self) -> None:
        self._turn = (self._turn + 1) % len(self._sets)
        with self._library.calling("hipGraphLaunch"):
            self._graphs[self._turn].launch()

    def witness(self) -> dict[str, str]:
        """Return the times of some executions by `execute_timed_ext`, grouped by stated quality:
        times of unlike quality are never mixed. Its clock is hipDNN's: the words stand beside our
        samples and never among them.

        It closes a gate of its own, so it is not called for a plan that cannot be behind ours: each
        execution would wait for the watchdog.
        """
        if not self._library.has(WITNESS):
            return {}
        if self._stream.gate_left_open:
            return {SAYS: f"not asked: {self._stream.no_gate_because}"}
        with self._library.calling(WITNESS):
            words = list(self._timings())
        return {SAYS: "; ".join(words)} if words else {}

    def _timings(self) -> Iterator[str]:
        """Yield words for each quality; executions end with the first whose gate opened by
        force."""
        times_ns: dict[str, list[float]] = {}
        for _ in range(WITNESSED):
            error, timing = self._native.execute_timed_ext(
                self._handle, self._pack, self._workspace_pointer
            )
            check(WITNESS, error)
            name = timing.quality.name
            if name == "INVALID" or timing.elapsed_ms is None:
                # A good `Error` without a time: the gate's watchdog came first, also where this
                # state of the bindings does not bind `timed_out`.
                yield "a gate opened by force"
                break
            times_ns.setdefault(name, []).append(float(timing.elapsed_ms) * 1e6)
        for name, values in sorted(times_ns.items()):
            yield f"{name}: median {time_text(statistics.median(values))} of {len(values)}"

    def _run_in_turn(self) -> None:
        self._turn = (self._turn + 1) % len(self._sets)
        self._pack = self._sets[self._turn].pack
        HipdnnPlan.run(self)

    def download(self) -> dict[int, Storage]:
        self._synchronize()
        return self._sets[self._turn].download()

    def close(self) -> None:
        """Close the graph before the handle, after the device has finished its work."""
        self._synchronize()
        self._stream.detach()
        with self._library.calling("hipGraphExecDestroy"):
            for graph in self._graphs:
                graph.close()
        for buffers in self._sets:
            buffers.close()
        self._native = self._execute = self._workspace = None


def buffer_bytes(tensor: Tensor) -> int:
    """Return the storage's bytes, gaps of the strides included."""
    return storage_size(tensor) * storage_type(tensor).itemsize


def bound_tensors(graph: Graph) -> tuple[Tensor, ...]:
    """Return tensors of the variant pack: every one that is neither virtual nor a constant."""
    return tuple(t for t in graph.tensors if not t.virtual and t.value is None)


def poison_bytes(tensor: Tensor) -> bytes:
    return bytes([poison_byte(tensor.data_type)]) * buffer_bytes(tensor)


class Buffers:
    """Allocates; ``pack`` maps uid to pointer, plain numbers in every release.

    A run-time scalar is handed over through a pointer to host memory.
    """

    def __init__(
        self,
        library: Library,
        graph: Graph,
        whole: Buffers | None = None,
        own: Collection[int] = (),
    ) -> None:
        """Allocate buffers. With `whole` only the tensors in `own` get buffers; the others use
        those of `whole`."""
        self._graph, self._library = graph, library
        self._borrowed: set[int] = set()
        self._device: dict[int, Any] = {}
        self._host: dict[int, Storage] = {}
        self.bytes = 0
        for tensor in bound_tensors(graph):
            if tensor.runtime_scalar:
                self._host[tensor.uid] = np.zeros(storage_size(tensor), storage_type(tensor))
                continue
            if whole is not None and tensor.uid not in own:
                self._device[tensor.uid] = whole._device[tensor.uid]
                continue
            size = buffer_bytes(tensor)
            with library.calling(f"DeviceBuffer of {size} bytes for {describe(tensor)}"):
                self._device[tensor.uid] = library.module.DeviceBuffer(size)
            self.bytes += size
        with library.calling("DeviceBuffer.ptr"):
            pointers = {uid: int(buffer.ptr()) for uid, buffer in self._device.items()}
        self.pack = {**pointers, **{uid: a.ctypes.data for uid, a in self._host.items()}}

    def borrow(self, uid: int, owner: Buffers, owner_uid: int, offset: int) -> bool:
        """Place the tensor `offset` elements into another's memory. Return True, or False without a
        change for scalars of the host."""
        if uid in self._host or owner_uid in owner._host:
            return False
        self.bytes -= buffer_bytes(self._graph.by_uid[uid])
        width = storage_type(self._graph.by_uid[uid]).itemsize
        self._device[uid] = owner._device[owner_uid]
        self._borrowed.add(uid)
        self.pack[uid] = owner.pack[owner_uid] + offset * width
        return True

    def upload(self, inputs: Storages) -> None:
        for uid, storage in inputs.items():
            if uid in self._borrowed:
                continue
            if uid in self._host:
                self._host[uid][...] = storage
            else:
                self._write(uid, np.ascontiguousarray(storage).tobytes())

    def poison(self) -> None:
        for tensor in self._graph.outputs:
            self._write(tensor.uid, poison_bytes(tensor))

    def _write(self, uid: int, data: bytes) -> None:
        """Copy data, except of empty tensors: the bindings refuse copies of zero bytes."""
        if not data:
            return
        with self._library.calling(f"DeviceBuffer.copy_from_host of tensor {uid}"):
            self._device[uid].copy_from_host(data)

    def download(self) -> dict[int, Storage]:
        found: dict[int, Storage] = {}
        for tensor in self._graph.outputs:
            data = self._read(tensor.uid) if buffer_bytes(tensor) else b""
            found[tensor.uid] = np.frombuffer(data, np.uint8).copy().view(storage_type(tensor))
        return found

    def _read(self, uid: int) -> bytes:
        with self._library.calling(f"DeviceBuffer.copy_to_host of tensor {uid}"):
            return bytes(self._device[uid].copy_to_host())

    def close(self) -> None:
        """Release the memory; it is returned with the last reference."""
        self._device.clear()
        self.pack.clear()
