"""Changes the inputs that a plan reads (`tensors/changes.py`).

They are changed where the plan tells that they lie, and nothing of the engine is called for it. On
a device whose memory is out of reach they are uploaded.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bench_run.engines.arrange import MOST_COPIES
from bench_run.graph.dtypes import DTYPES
from bench_run.measure.ahead import drawn_ahead
from bench_run.tensors.changes import Changes, changeable
from bench_run.tensors.layout import plain_array

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import LocateInputs, Plan
    from bench_run.graph.model import Graph
    from bench_run.streams.base import DeviceMemory, Stream
    from bench_run.tensors.changes import Change
    from bench_run.tensors.layout import Storage, Storages

    Places = Mapping[int, Storage | int]


UPLOADED_SHARE = 0.25
"""Part of the samples before which inputs are uploaded that only the plan reaches."""


class OwnInputs(Protocol):
    """Inputs of one plan that change."""

    uids: tuple[int, ...]
    """Inputs that change; others stay."""
    can_queue: bool
    """True if a change does not wait for the device."""

    def find(self) -> None:
        """Find the inputs that the next run reads; this may call the engine."""

    def change(self) -> None:
        """Change a few elements of those that were found."""

    def change_much(self) -> None:
        """Change a part of each."""

    def read_by(self, executions: int) -> tuple[int, ...]:
        """Return the numbers of the changes of the inputs that the last of so many executions
        read, since those were found."""

    def moved(self) -> None:
        """Note that the buffers moved."""


class SameInputs:
    """Inputs that stay."""

    uids: tuple[int, ...] = ()
    can_queue = True

    def find(self) -> None:
        return None

    change = change_much = moved = find

    def read_by(self, executions: int) -> tuple[int, ...]:  # noqa: ARG002
        return ()


class LocatedInputs:
    """Inputs in memory that the plan tells of. Where copies of the buffers take turns, each has
    changes of its own."""

    can_queue = True

    def __init__(
        self, plan: Plan, locate: LocateInputs, changes: Changes, widths: Mapping[int, int]
    ) -> None:
        """`widths`: bytes of an element, by uid."""
        self.uids = changes.uids
        self._plan, self._locate, self._changes, self._widths = plan, locate, changes, widths
        self._numbers = iter(range(1, 1 << 62))
        self._large = iter(range(-1, -(1 << 62), -1))
        self._upcoming = drawn_ahead(self._draw)
        self._made: dict[int, list[int]] = {}
        """Numbers of the changes of each copy, by the address of its first input."""
        self._order: list[int] = []
        """Addresses of the copies in the order of their turns."""
        self._places: Places = {}
        self._key = 0

    def _draw(self) -> tuple[int, tuple[Change, ...]]:
        number = next(self._numbers)
        return number, self._changes.of(number)

    def find(self) -> None:
        self._places = self._locate()
        self._key = _address(self._places[self.uids[0]])

    def change(self) -> None:
        number, changes = next(self._upcoming)
        self._write(number, changes)

    def change_much(self) -> None:
        self.find()
        number = next(self._large)
        self._write(number, self._changes.of(number))

    def _write(self, number: int, changes: tuple[Change, ...]) -> None:
        for each in changes:
            width, memory = self._widths[each.uid], self._places[each.uid]
            assert isinstance(memory, np.ndarray)
            whole = plain_array(memory).view(np.uint8).data
            source = slice(each.source * width, (each.source + each.count) * width)
            whole[each.to * width : (each.to + each.count) * width] = whole[source]
        self._made.setdefault(self._key, []).append(number)

    def read_by(self, executions: int) -> tuple[int, ...]:
        key = self._key
        if executions > 1:
            order = self._turns()
            key = order[(order.index(key) + executions - 1) % len(order)]
        return tuple(self._made.get(key, ()))

    def _turns(self) -> list[int]:
        """Find the copies by running until the first comes round again."""
        if self._key not in self._order:
            key, self._order = self._key, []
            first = _address(self._locate()[self.uids[0]])
            while len(self._order) < MOST_COPIES:
                self._order.append(_address(self._locate()[self.uids[0]]))
                self._plan.run()
                if _address(self._locate()[self.uids[0]]) == first:
                    break
            if key not in self._order:  # an engine whose inputs lie elsewhere each time
                self._order = [key]
        return self._order

    def moved(self) -> None:
        made = list(self._made.values())
        self.find()
        self._order = []
        if len(made) == 1:
            self._made = {self._key: made[0]}


class DeviceInputs(LocatedInputs):
    """The same on a device: changes are enqueued."""

    def __init__(
        self,
        plan: Plan,
        locate: LocateInputs,
        changes: Changes,
        widths: Mapping[int, int],
        memory: DeviceMemory,
    ) -> None:
        super().__init__(plan, locate, changes, widths)
        self._memory = memory

    def _write(self, number: int, changes: tuple[Change, ...]) -> None:
        for each in changes:
            width, begin = self._widths[each.uid], self._places[each.uid]
            assert isinstance(begin, int)
            source = begin + each.source * width
            self._memory.copy(begin + each.to * width, source, each.count * width)
        self._made.setdefault(self._key, []).append(number)


class UploadedInputs(LocatedInputs):
    """Inputs on a device that only the plan reaches: a copy of ours is changed and uploaded, before
    samples that are drawn, since that takes long."""

    can_queue = False

    def __init__(
        self,
        plan: Plan,
        inputs: Storages,
        changes: Changes,
        widths: Mapping[int, int],
        draw: Random,
    ) -> None:
        copy = dict(inputs) | {uid: inputs[uid].copy() for uid in changes.uids}
        super().__init__(plan, lambda: copy, changes, widths)
        self._copy, self._lots = copy, draw

    def change(self) -> None:
        if self._lots.random() < UPLOADED_SHARE:
            super().change()

    def _write(self, number: int, changes: tuple[Change, ...]) -> None:
        super()._write(number, changes)
        self._plan.upload(self._copy)

    def read_by(self, executions: int) -> tuple[int, ...]:  # noqa: ARG002
        return super().read_by(1)


def own_inputs(
    plan: Plan, stream: Stream, graph: Graph, inputs: Storages, secret: str
) -> OwnInputs:
    """Return what changes the plan's inputs."""
    locate, memory = plan.abilities.locate_inputs, stream.abilities.memory
    widths = {t.uid: DTYPES[t.data_type].bytes for t in graph.inputs}
    places = {} if locate is None else locate()
    free = changeable(graph)
    found = [uid for uid in free if uid in places]
    on_host = [uid for uid in found if isinstance(places[uid], np.ndarray)]
    if not free:
        return SameInputs()
    if locate is not None and on_host:
        return LocatedInputs(plan, locate, Changes(graph, secret, on_host), widths)
    device = None if memory is None else memory()
    if locate is None or device is None or not found:
        draw = Random(f"{secret} uploads")  # noqa: S311 - repeatable
        return UploadedInputs(plan, inputs, Changes(graph, secret), widths, draw)
    return DeviceInputs(plan, locate, Changes(graph, secret, found), widths, device)


def _address(place: Storage | int) -> int:
    return place if isinstance(place, int) else int(place.ctypes.data)
