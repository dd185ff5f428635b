"""A plan: device buffers for every tensor, the chosen execution plan, and one call to run it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.engines.base import PlanFacts, Storage, Storages
from bench_run.engines.cudnn.library import failures
from bench_run.errors import EngineError
from bench_run.graph.dtypes import DTYPES, array_type
from bench_run.tensors.layout import logical_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.engines.cudnn.engine import Built
    from bench_run.graph.model import Tensor
    from bench_run.streams.cuda import CapturedGraph, CudaStream

MOST_SETS = 64
"""Copies of the buffers that `rotate` cycles through, at most."""


class CudnnPlan:
    """With cache state ``rotate`` there are several sets of buffers, used in turn, so many that a
    set has left the L2 cache before its turn comes again."""

    def __init__(self, built: Built, handle: int, stream: CudaStream, sets: int) -> None:
        self._built, self._handle, self._stream = built, handle, stream
        graph = built.graph
        self._host = {t.uid: _scalar(t) for t in built.scalars}
        self._device = tuple(t for t in (*graph.inputs, *graph.outputs) if t.uid not in self._host)
        self._sizes = {
            t.uid: built.elements(t) * DTYPES[t.data_type].bits // 8 for t in self._device
        }
        self._addresses: list[int] = []
        workspace = built.chosen.workspace_bytes
        self._workspace = self._allocate(workspace)
        self._sets = [{t.uid: self._allocate(self._sizes[t.uid]) for t in self._device}
                      for _ in range(sets)]  # fmt: skip
        packs = [self._pack(buffers) for buffers in self._sets]
        calls = [self._call(pack) for pack in packs]
        self.run = calls[0] if sets == 1 else self._in_turn(calls)
        self._turn = 0
        self._replays: list[CapturedGraph] = []
        held = sum(self._sizes.values())
        self.facts = PlanFacts(built.facts(sets), workspace, held)

    def _allocate(self, size: int) -> int:
        address = self._stream.allocate(size)
        self._addresses.append(address)
        return address

    def _pack(self, buffers: dict[int, int]) -> dict[int, int]:
        numbers = self._built.numbers
        pack = {numbers[uid]: address for uid, address in buffers.items()}
        for uid, value in self._host.items():
            pack[numbers[uid]] = int(value.ctypes.data)
        return pack

    def _call(self, pack: dict[int, int]) -> Callable[[], None]:
        execute = self._built.pygraph._execute_plan_at_index
        workspace, index, handle = self._workspace, self._built.chosen.index, self._handle

        def run() -> None:
            try:
                execute(pack, workspace, index, handle)
            except (RuntimeError, ValueError):
                with failures("run"):
                    raise

        return run

    def _in_turn(self, calls: list[Callable[[], None]]) -> Callable[[], None]:
        def run() -> None:
            self._turn = (self._turn + 1) % len(calls)
            calls[self._turn]()

        return run

    def replay(self) -> None:
        """From now on `run` launches a captured CUDA graph."""
        self.run()  # nothing may be loaded during the capture
        self._stream.synchronize()
        if len(self._sets) > 1:
            raise EngineError("cudnn: --replay and --cache rotate do not go together")
        captured = self._stream.capture(self.run)
        self._replays.append(captured)
        captured.launch()
        self.run = captured.launch

    def upload(self, inputs: Storages) -> None:
        for tensor in self._built.graph.inputs:
            if tensor.uid in self._host:
                self._host[tensor.uid][...] = inputs[tensor.uid].reshape(-1)[0]
                continue
            data = self._built.brought(tensor, inputs[tensor.uid])
            for buffers in self._sets:
                self._stream.copy_in(buffers[tensor.uid], int(data.ctypes.data), data.nbytes)
            self._stream.synchronize()

    def poison(self) -> None:
        for buffers in self._sets:
            for tensor in self._built.graph.outputs:
                pattern = 0xFF if DTYPES[tensor.data_type].kind in ("float", "scale") else 0xA5
                self._stream.fill(buffers[tensor.uid], pattern, self._sizes[tensor.uid])
        self._stream.synchronize()

    def download(self) -> dict[int, Storage]:
        self._stream.synchronize()
        found = {}
        for tensor in self._built.graph.outputs:
            data = np.empty(tensor.span, array_type(tensor.data_type))
            address = self._sets[self._turn][tensor.uid]
            self._stream.copy_out(int(data.ctypes.data), address, data.nbytes)
            found[tensor.uid] = data
        self._stream.synchronize()
        return found

    def close(self) -> None:
        self._stream.synchronize()
        for graph in self._replays:
            graph.close()
        for address in self._addresses:
            self._stream.free(address)
        self._addresses.clear()


def _scalar(tensor: Tensor) -> Storage:
    """The host's copy of a tensor that is handed over by value."""
    data = np.zeros(1, array_type(tensor.data_type))
    if tensor.value is not None:
        data[0] = tensor.value
    return data


def brought(tensor: Tensor, storage: Storage, dims: tuple[int, ...], order: tuple[int, ...]) -> Any:
    """The input broadcast to `dims`, its axes laid out in `order`."""
    logical = logical_view(storage, tensor)
    missing = len(dims) - logical.ndim
    widened = logical.reshape((1,) * missing + logical.shape)
    return np.ascontiguousarray(np.broadcast_to(widened, dims).transpose(order)).reshape(-1)


def sets_needed(l2_bytes: int, used_bytes: int) -> int:
    """Copies of the buffers so that, when one's turn comes again, three caches full of others have
    gone by."""
    return max(2, min(MOST_SETS, 1 + math.ceil(3 * l2_bytes / max(1, used_bytes))))
