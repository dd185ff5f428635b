"""What is in a plan's inputs, changed for a single run.

A block of an input takes the bytes of another block of the same input, so that values stay of their
kind, and is put back afterwards. Where a plan tells where its inputs lie nothing of the engine is
called for that; elsewhere changed inputs are uploaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bench_run.graph.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from random import Random
    from typing import TypeAlias

    import numpy.typing as npt

    from bench_run.engines.base import LocateInputs, Plan
    from bench_run.graph.model import Graph, Tensor
    from bench_run.streams.base import DeviceMemory, Stream
    from bench_run.tensors.layout import Storage, Storages

    Bytes: TypeAlias = npt.NDArray[np.uint8]

UPLOADED_BYTES = 4 * 1024**2
"""Of all inputs; larger ones are not uploaded between samples."""


@dataclass(frozen=True)
class Move:
    """So many bytes of an input that take the place of others, from there on."""

    uid: int
    to: int
    source: int
    size: int


class Contents(Protocol):
    """Changes what is in the inputs of a plan. Each call is followed by `restore`."""

    tensors: tuple[Tensor, ...]
    """Those that it can change."""
    upload_is_timed: bool
    """Whether it calls the plan's `upload`."""

    def change(self, moves: Sequence[Move]) -> None:
        """The next run has other inputs."""

    def rewrite(self, moves: Sequence[Move]) -> None:
        """As `change`, at the same places, but with the bytes that are there."""

    def restore(self) -> None:
        """The inputs are as they were."""

    def close(self) -> None:
        """Give memory back."""


class HostContents:
    """Of inputs in the host's memory."""

    upload_is_timed = False

    def __init__(self, locate: LocateInputs, tensors: tuple[Tensor, ...]) -> None:
        self._locate, self.tensors = locate, tensors
        self._saved: list[tuple[Bytes, int, Bytes]] = []

    def _write(self, moves: Sequence[Move], *, same: bool) -> None:
        places = self._locate()
        for move in moves:
            memory, begin = _raw(places[move.uid]), move.to if same else move.source
            self._saved.append((memory, move.to, memory[move.to : move.to + move.size].copy()))
            memory[move.to : move.to + move.size] = memory[begin : begin + move.size].copy()

    def change(self, moves: Sequence[Move]) -> None:
        self._write(moves, same=False)

    def rewrite(self, moves: Sequence[Move]) -> None:
        self._write(moves, same=True)

    def restore(self) -> None:
        for memory, begin, saved in self._saved:
            memory[begin : begin + saved.size] = saved
        self._saved.clear()

    def close(self) -> None:
        return None


class DeviceContents:
    """Of inputs on a device: copied there, in stream order."""

    upload_is_timed = False

    def __init__(
        self, locate: LocateInputs, memory: DeviceMemory, tensors: tuple[Tensor, ...]
    ) -> None:
        self._locate, self._memory, self.tensors = locate, memory, tensors
        self._blocks: dict[int, tuple[int, int]] = {}
        """By uid, address and size of the memory that keeps what is overwritten."""
        self._saved: list[tuple[int, int, int]] = []

    def _write(self, moves: Sequence[Move], *, same: bool) -> None:
        places = self._locate()
        for move in moves:
            memory, block = places[move.uid], self._block(move)
            assert isinstance(memory, int)
            self._saved.append((memory + move.to, block, move.size))
            self._memory.copy(block, memory + move.to, move.size)
            source = block if same else memory + move.source
            self._memory.copy(memory + move.to, source, move.size)

    def change(self, moves: Sequence[Move]) -> None:
        self._write(moves, same=False)

    def rewrite(self, moves: Sequence[Move]) -> None:
        self._write(moves, same=True)

    def restore(self) -> None:
        saved, self._saved = self._saved, []
        for to, block, size in saved:
            self._memory.copy(to, block, size)

    def _block(self, move: Move) -> int:
        block, size = self._blocks.get(move.uid, (0, 0))
        if size < move.size:
            if size:
                self._memory.free(self._blocks.pop(move.uid)[0])
            block = self._memory.allocate(move.size)
            self._blocks[move.uid] = block, move.size
        return block

    def close(self) -> None:
        blocks, self._blocks = self._blocks, {}
        for block, _ in blocks.values():
            self._memory.free(block)


class UploadedContents:
    """Of a plan that does not tell where its inputs lie."""

    upload_is_timed = True

    def __init__(
        self, upload: Callable[[Storages], None], inputs: Storages, tensors: tuple[Tensor, ...]
    ) -> None:
        self._upload, self.tensors = upload, tensors
        self._inputs = {uid: storage.copy() for uid, storage in inputs.items()}

    def change(self, moves: Sequence[Move]) -> None:
        self._upload(moved(self._inputs, moves))

    def rewrite(self, moves: Sequence[Move]) -> None:  # noqa: ARG002
        self._upload(self._inputs)

    def restore(self) -> None:
        self._upload(self._inputs)

    def close(self) -> None:
        return None


def contents_of(plan: Plan, stream: Stream, graph: Graph, inputs: Storages) -> Contents | None:
    """None where nothing reaches the inputs, or none of them is to be changed."""
    tensors = tuple(tensor for tensor in graph.inputs if _is_movable(tensor))
    locate = plan.abilities.locate_inputs
    places: Mapping[int, Storage | int] = {} if locate is None else locate()
    placed = tuple(tensor for tensor in tensors if tensor.uid in places)
    if locate is not None and placed:
        if not isinstance(places[placed[0].uid], int):
            return HostContents(locate, placed)
        memory = None if stream.abilities.memory is None else stream.abilities.memory()
        if memory is not None:
            return DeviceContents(locate, memory, placed)
    if tensors and sum(tensor.bytes for tensor in graph.inputs) <= UPLOADED_BYTES:
        return UploadedContents(plan.upload, inputs, tensors)
    return None


def _is_movable(tensor: Tensor) -> bool:
    """Numbers in the ordinary sense: indices, offsets and masks have rules."""
    row = DTYPES[tensor.data_type]
    is_plain = row.kind == "float" and row.bits >= 8 and row.array_type is not None
    return is_plain and tensor.elements > 1 and not tensor.runtime_scalar


def draw_moves(tensors: Iterable[Tensor], share: float, draw: Random) -> tuple[Move, ...]:
    """A block of each tensor, about `share` of it, that takes the bytes of another block."""
    moves = []
    for tensor in tensors:
        span, width = tensor.span, DTYPES[tensor.data_type].bytes
        count = max(1, min(span // 3, int(span * share)))  # beside any block is room for another
        to = draw.randrange(span - count + 1)
        before, after = range(to - count + 1), range(to + count, span - count + 1)
        source = draw.choice(draw.choice([room for room in (before, after) if room]))
        moves.append(Move(tensor.uid, to * width, source * width, count * width))
    return tuple(moves)


def moved(inputs: Storages, moves: Sequence[Move]) -> dict[int, Storage]:
    """The inputs after `moves`; those that are not changed are the same arrays."""
    changed = dict(inputs)
    for move in moves:
        storage = changed[move.uid] = np.array(inputs[move.uid])
        raw, given = _raw(storage), _raw(np.ascontiguousarray(inputs[move.uid]))
        raw[move.to : move.to + move.size] = given[move.source : move.source + move.size]
    return changed


def _raw(place: Storage | int) -> Bytes:
    assert isinstance(place, np.ndarray)
    return place.view(np.uint8)
