"""Plans of libraries that take addresses: device buffers for every tensor, and one call to run it.

cuDNN and cuBLASLt share them: a library says of a graph which tensors it reads on the host, which
it wants spread out, and how one execution is enqueued (`DeviceProblem`).
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bench_run.engines.base import PlanAbilities, PlanFacts
from bench_run.errors import EngineError
from bench_run.graph.dtypes import DTYPES, array_type
from bench_run.tensors.host_memory import holds_same_bytes
from bench_run.tensors.layout import poison_byte

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from bench_run.engines.base import Captured, Home
    from bench_run.graph.model import Graph, Tensor
    from bench_run.streams.cuda import CudaStream
    from bench_run.tensors.layout import Storage, Storages


ALIGNMENT = 16
"""Alignment of every address, in bytes, as it is declared to a library."""


class DeviceProblem(Protocol):
    """A graph in a library's form, with the plan that was chosen."""

    @property
    def graph(self) -> Graph: ...
    @property
    def scalars(self) -> tuple[Tensor, ...]:
        """Tensors that the library reads on the host when it enqueues its work."""

    @property
    def numbers(self) -> Mapping[int, int]:
        """Numbers that the library uses for the graph's tensors, by uid."""

    @property
    def workspace_bytes(self) -> int: ...
    def size(self, tensor: Tensor) -> int:
        """Return the number of bytes of the tensor's buffer."""

    def is_spread(self, uid: int) -> bool:
        """Return True if the buffer holds the input broadcast or in another order."""

    def spread_out(self, tensor: Tensor, storage: Storage) -> Storage:
        """Return a graph input as the plan's buffer holds it, a copy if the layouts differ."""

    def facts(self) -> Mapping[str, str]: ...
    def call(self, pack: dict[int, int], workspace: Workspace) -> Callable[[], None]:
        """Return one execution, with addresses by the library's numbers, which may change, as may
        that of the workspace."""


class PlainProblem:
    """Part of a `DeviceProblem` whose tensors lie in memory as the graph says, none on the host."""

    scalars: tuple[Tensor, ...] = ()

    def size(self, tensor: Tensor) -> int:
        return tensor.span * DTYPES[tensor.data_type].bits // 8

    def is_spread(self, uid: int) -> bool:  # noqa: ARG002
        return False

    def spread_out(self, tensor: Tensor, storage: Storage) -> Storage:  # noqa: ARG002
        return storage

    @property
    def numbers(self) -> Mapping[int, int]:
        return {tensor.uid: tensor.uid for tensor in self.graph.tensors}  # type: ignore[attr-defined]


class DevicePlan:
    """`workspace` is the device memory that executions scribble in: plans that take turns share
    it."""

    def __init__(self, built: DeviceProblem, stream: CudaStream, workspace: Workspace) -> None:
        self._built, self._stream = built, stream
        self._workspace, self._borrowed = workspace, set[int]()
        graph = built.graph
        self._host = {t.uid: _scalar(t) for t in built.scalars}
        self._device = tuple(t for t in (*graph.inputs, *graph.outputs) if t.uid not in self._host)
        self._sizes = {t.uid: built.size(t) for t in self._device}
        self._buffers: dict[int, int] = {}
        self._gap: int | None = None
        """Memory that is held so that buffers do not take its place."""
        self.captured: Captured | None = None
        self._open = True
        workspace.enter()
        try:
            for tensor in self._device:
                self._buffers[tensor.uid] = stream.allocate(self._sizes[tensor.uid])
        except EngineError:
            self.close()
            raise
        self._addresses = self._pack()
        self.run = built.call(self._addresses, workspace)
        held = sum(self._sizes.values())
        self.facts = PlanFacts(built.facts(), built.workspace_bytes, held)

    def _pack(self) -> dict[int, int]:
        numbers = self._built.numbers
        pack = {numbers[uid]: address for uid, address in self._buffers.items()}
        for uid, value in self._host.items():
            pack[numbers[uid]] = int(value.ctypes.data)
        return pack

    @property
    def abilities(self) -> PlanAbilities:
        return PlanAbilities(
            locate_outputs=self.locate_outputs,
            locate_inputs=self.locate_inputs,
            changed_inputs=self.changed_inputs,
            copy_inputs=self.copy_inputs,
            share=self.share,
            relocate=None if self.captured or self._borrowed else self.relocate,
            keep=self.keep,
            replay=self.replay,
            captured=lambda: self.captured,
            uncaptured=self.uncaptured,
        )

    def relocate(self, gap_bytes: int) -> None:
        old, gap = dict(self._buffers), self._gap
        self._gap = self._stream.allocate(gap_bytes)
        new: dict[int, int] = {}
        try:
            for uid in old:
                new[uid] = self._stream.allocate(self._sizes[uid])
        except EngineError:
            for address in new.values():
                self._stream.free(address)
            raise
        finally:
            if gap is not None:
                self._stream.free(gap)
        for uid, address in old.items():
            self._stream.copy(new[uid], address, self._sizes[uid])
        self._stream.synchronize()
        for address in old.values():
            self._stream.free(address)
        self._buffers.update(new)
        self._addresses.update(self._pack())

    def share(self, homes: Mapping[int, Home]) -> frozenset[int]:
        """Share memory, except that of broadcast inputs and of scalars on the host."""
        done = set()
        for uid, home in homes.items():
            assert isinstance(home.plan, DevicePlan)
            address = home.plan.address(home.uid)
            offset = home.offset * DTYPES[self._built.graph.by_uid[uid].data_type].bits // 8
            if address is None or self.address(uid) is None or offset % ALIGNMENT:
                continue
            if uid not in self._borrowed:
                self._stream.free(self._buffers[uid])
            self._buffers[uid] = address + offset
            self._borrowed.add(uid)
            done.add(uid)
        self._addresses.update(self._pack())
        return frozenset(done)

    @property
    def read_on_host(self) -> tuple[Tensor, ...]:
        """Inputs whose values are read from the host when work is enqueued."""
        return tuple(t for t in self._built.graph.inputs if t.uid in self._host)

    def address(self, uid: int) -> int | None:
        """Return the address of a tensor that has the graph's layout."""
        plain = uid in self._buffers and not self._built.is_spread(uid)
        return self._buffers[uid] if plain else None

    def keep(self) -> None:
        """Keep results where they always are."""

    def replay(self, captured: Captured) -> None:
        self.captured, self._plain = captured, self.run
        self.run = captured.launch

    def uncaptured(self) -> AbstractContextManager[Callable[[], None]]:
        return nullcontext(self.run if self.captured is None else self._plain)

    def upload(self, inputs: Storages) -> None:
        for tensor in self._built.graph.inputs:
            if tensor.uid in self._host:
                self._host[tensor.uid][...] = inputs[tensor.uid].reshape(-1)[0]
                continue
            if tensor.uid in self._borrowed:
                continue
            data = self._built.spread_out(tensor, inputs[tensor.uid])
            self._stream.copy_in(self._buffers[tensor.uid], int(data.ctypes.data), data.nbytes)
            self._stream.synchronize()

    def copy_inputs(self, other: DevicePlan) -> None:
        for tensor in self._built.graph.inputs:
            uid = tensor.uid
            if uid in self._host:
                self._host[uid][...] = other._host[uid]
            elif uid not in self._borrowed:
                self._stream.copy(self._buffers[uid], other._buffers[uid], self._sizes[uid])
        self._stream.synchronize()

    def poison(self) -> None:
        for tensor in self._built.graph.outputs:
            byte = poison_byte(tensor.data_type)
            self._stream.fill(self._buffers[tensor.uid], byte, self._sizes[tensor.uid])
        self._stream.synchronize()

    def download(self) -> dict[int, Storage]:
        self._stream.synchronize()
        outputs = {}
        for tensor in self._built.graph.outputs:
            data = np.empty(tensor.span, array_type(tensor.data_type))
            address = self._buffers[tensor.uid]
            self._stream.copy_out(int(data.ctypes.data), address, data.nbytes)
            outputs[tensor.uid] = data
        self._stream.synchronize()
        return outputs

    def locate_outputs(self, *, upcoming: bool) -> dict[int, Storage | int]:  # noqa: ARG002
        return {tensor.uid: self._buffers[tensor.uid] for tensor in self._built.graph.outputs}

    def locate_inputs(self) -> dict[int, Storage | int]:
        """Return the inputs that have the graph's layout."""
        found = ((tensor.uid, self.address(tensor.uid)) for tensor in self._built.graph.inputs)
        return {uid: address for uid, address in found if address is not None}

    def changed_inputs(self, inputs: Storages) -> tuple[int, ...]:
        changed = []
        for tensor in self._built.graph.inputs:
            if tensor.uid in inputs and tensor.uid not in self._host:
                given = self._built.spread_out(tensor, inputs[tensor.uid])
                if not holds_same_bytes(given, partial(self._read, self._buffers[tensor.uid])):
                    changed.append(tensor.uid)
        return tuple(changed)

    def _read(self, address: int, into: Storage, begin: int) -> None:
        self._stream.copy_out(int(into.ctypes.data), address + begin, into.nbytes)
        self._stream.synchronize()

    def close(self) -> None:
        self._stream.synchronize()
        if self.captured is not None:
            self.captured.close()
            self.captured = None
        for uid, address in self._buffers.items():
            if uid not in self._borrowed:
                self._stream.free(address)
        self._buffers.clear()
        if self._gap is not None:
            self._stream.free(self._gap)
            self._gap = None
        if self._open:
            self._open = False
            self._workspace.leave()


def _scalar(tensor: Tensor) -> Storage:
    """Return the host's copy of a tensor that is passed by value."""
    data = np.zeros(1, array_type(tensor.data_type))
    if tensor.value is not None:
        data[0] = tensor.value
    return data


class Workspace:
    """Scratch memory of the size of the largest plan, kept while a plan uses it. Its `address` may
    change with each `grow`, so that plans look it up for every execution; what is captured keeps
    the address, so captured plans have a separate one."""

    def __init__(self, stream: CudaStream) -> None:
        self._stream = stream
        self._bytes: int | None = None
        self._users = 0
        self.address = 0

    def grow(self, size: int) -> None:
        """Make it hold `size` bytes at least; what it held is lost."""
        if self._bytes is not None and size <= self._bytes:
            return
        self.close()
        self.address = self._stream.allocate(size)
        self._bytes = size

    def enter(self) -> None:
        """Count one more user."""
        self._users += 1

    def leave(self) -> None:
        """Count one user less; free the memory with the last one."""
        self._users -= 1
        if self._users == 0:
            self.close()

    def close(self) -> None:
        if self._bytes is not None:
            self._stream.synchronize()
            self._bytes = None
            self._stream.free(self.address)
            self.address = 0
