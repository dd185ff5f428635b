"""Device memory of a graph: one buffer for each tensor that has one, and the variant pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.tensors.layout import describe, storage_size, storage_type
from bench_run.tensors.poison import poison_byte

if TYPE_CHECKING:
    from collections.abc import Collection

    from bench_run.engines.hipdnn.loading import Library
    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.storage import Storage, Storages


def buffer_bytes(tensor: Tensor) -> int:
    """The storage's bytes, gaps of the strides included."""
    return storage_size(tensor) * storage_type(tensor).itemsize


def bound_tensors(graph: Graph) -> tuple[Tensor, ...]:
    """Tensors of the variant pack: every one that is neither virtual nor a constant."""
    return tuple(t for t in graph.tensors if not t.virtual and t.value is None)


def poison_bytes(tensor: Tensor) -> bytes:
    return bytes([poison_byte(tensor.data_type)]) * buffer_bytes(tensor)


class Buffers:
    """Allocates; ``pack`` maps uid to pointer, plain numbers in every release.

    A run-time scalar is handed over through a pointer to host memory.
    """

    def __init__(
        self, library: Library, graph: Graph, whole: Buffers | None = None,
        own: Collection[int] = (),
    ) -> None:  # fmt: skip
        """With `whole` only the tensors in `own` get buffers; the others are those of `whole`."""
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
        """The tensor lies `offset` elements into another's; scalars of the host do not."""
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
        """Empty tensors have nothing to copy: the bindings refuse copies of zero bytes."""
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
        """Memory goes back when the last reference does."""
        self._device.clear()
        self.pack.clear()
