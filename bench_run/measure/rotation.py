"""Puts another set of inputs in place for a run (`tensors/rotation.py`).

If a plan tells where its inputs lie, they are written there and nothing of the engine is called:
what it would do in `upload` is not done. Elsewhere the sets are uploaded.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bench_run.errors import EngineError
from bench_run.tensors.layout import plain_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.engines.base import LocateInputs, Plan
    from bench_run.streams.base import DeviceMemory, Stream
    from bench_run.tensors.layout import Storage, Storages

ALIGNMENT = 256
"""Alignment of each input in a copy on the device."""


class Rotation(Protocol):
    """The sets of one plan."""

    count: int

    def find(self) -> Mapping[int, Storage | int]:
        """Return where the next run reads its inputs."""

    def write(self, places: Mapping[int, Storage | int], index: int) -> None:
        """Set number `index` lies there, in the order of the stream."""

    def close(self) -> None:
        """Give memory back."""


class UploadedSets:
    """Sets of a plan that does not tell where all its inputs lie."""

    def __init__(self, plan: Plan, sets: Sequence[Storages]) -> None:
        self.count, self._plan, self._sets = len(sets), plan, sets

    def find(self) -> Mapping[int, Storage | int]:
        return {}

    def write(self, places: Mapping[int, Storage | int], index: int) -> None:  # noqa: ARG002
        if self.count > 1:
            self._plan.upload(self._sets[index])

    def close(self) -> None:
        return None


class HostSets:
    """Sets of inputs in the host's memory."""

    def __init__(self, locate: LocateInputs, sets: Sequence[Storages], varied: list[int]) -> None:
        self.count, self.find = len(sets), locate
        self._sets = [{uid: _bytes(each[uid]) for uid in varied} for each in sets]

    def write(self, places: Mapping[int, Storage | int], index: int) -> None:
        for uid, storage in self._sets[index].items():
            memory = places[uid]
            assert isinstance(memory, np.ndarray)
            np.copyto(_bytes(memory), storage)

    def close(self) -> None:
        return None


class DeviceSets:
    """Sets of inputs on a device, which keeps a copy of each."""

    def __init__(
        self,
        plan: Plan,
        memory: DeviceMemory,
        locate: LocateInputs,
        sets: Sequence[Storages],
        varied: list[int],
    ) -> None:
        """Make the sets. Raises `EngineError` if the device does not have room for them. The plan
        has the usual inputs afterwards."""
        self.count, self.find, self._memory = len(sets), locate, memory
        sizes = {uid: sets[0][uid].nbytes for uid in varied}
        aligned = (-(-size // ALIGNMENT) * ALIGNMENT for size in sizes.values())
        begins = list(accumulate(aligned, initial=0))
        self._block: int | None = memory.allocate(len(sets) * begins[-1])
        self._copies: list[list[tuple[int, int, int]]] = []
        try:
            for index, inputs in reversed(list(enumerate(sets))):
                plan.upload(inputs)
                first, places = self._block + index * begins[-1], locate()
                copies = [(uid, first + at, sizes[uid]) for uid, at in zip(sizes, begins)]  # noqa: B905
                self._copies.insert(0, copies)
                for uid, copy, size in copies:
                    memory.copy(copy, _address(places, uid), size)
        except EngineError:
            self.close()
            raise

    def write(self, places: Mapping[int, Storage | int], index: int) -> None:
        for uid, copy, size in self._copies[index]:
            self._memory.copy(_address(places, uid), copy, size)

    def close(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            with suppress(EngineError):  # a device that failed keeps it until the process ends
                self._memory.free(block)


def rotate_inputs(plan: Plan, stream: Stream, sets: Sequence[Storages]) -> Rotation:
    """Make a rotation of as many sets as there is memory for: all, two or one."""
    varied = [uid for uid in sets[0] if any(each[uid] is not sets[0][uid] for each in sets)]
    locate, memory = plan.abilities.locate_inputs, stream.abilities.memory
    places = {} if locate is None else locate()
    if locate is None or len(sets) == 1 or not places.keys() >= set(varied):
        return UploadedSets(plan, sets)
    if isinstance(places[varied[0]], np.ndarray):
        return HostSets(locate, sets, varied)
    device = None if memory is None else memory()
    if device is None:
        return UploadedSets(plan, sets)
    for count in sorted({len(sets), 2}, reverse=True):
        with suppress(EngineError):
            return DeviceSets(plan, device, locate, sets[:count], varied)
    plan.upload(sets[0])
    return UploadedSets(plan, sets[:1])


def _bytes(storage: Storage) -> Storage:
    return plain_array(storage).reshape(-1).view(np.uint8)


def _address(places: Mapping[int, Storage | int], uid: int) -> int:
    found = places[uid]
    assert isinstance(found, int)
    return found
