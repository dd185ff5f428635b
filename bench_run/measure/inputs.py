"""Changes the inputs that a plan reads (`tensors/changes.py`).

They are changed where the plan tells that they lie, and nothing of the engine is called for it. On
a device whose memory is out of reach they are uploaded.
"""

from __future__ import annotations

from itertools import count
from random import Random
from typing import TYPE_CHECKING

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

UPLOADED_SHARE = 0.25
"""Part of the samples before which inputs are uploaded that only the plan reaches."""


class OwnInputs:
    """Inputs of one plan. Where copies of the buffers take turns, each has changes of its own."""

    can_queue = True
    """True if a change does not wait for the device."""

    def __init__(
        self,
        plan: Plan,
        graph: Graph,
        changes: Changes,
        locate: LocateInputs,
        memory: DeviceMemory | None = None,
    ) -> None:
        """Prepare. `changes`: of inputs that `locate` finds; `memory`: the device's, if they lie
        there."""
        self.uids = changes.uids
        self._plan, self._locate, self._changes, self._memory = plan, locate, changes, memory
        self._widths = {t.uid: DTYPES[t.data_type].bytes for t in graph.inputs}
        self.fewest = min((graph.by_uid[uid].elements for uid in self.uids), default=0)
        """Number of elements of the smallest input that changes: after as many changes its values
        are few."""
        self._numbers, self._large = count(1), count(-1, -1)
        self._upcoming = drawn_ahead(self._draw)
        self._made: dict[int, list[int]] = {}
        """Numbers of the changes by the address of the input: copies may share some of them."""
        self._order: list[tuple[int, ...]] = []
        """Addresses of the copies in the order of their turns."""
        self._seen: set[tuple[int, ...]] = set()
        self._places: Mapping[int, Storage | int] = {}
        self._key: tuple[int, ...] = ()
        """Addresses of the inputs that were found, in the order of `uids`."""

    def _draw(self) -> tuple[int, tuple[Change, ...]]:
        number = next(self._numbers)
        return number, self._changes.of(number)

    def find(self) -> None:
        """Find the inputs that the next run reads; this may call the engine."""
        if self.uids:
            self._places = self._locate()
            self._key = self._addresses_in(self._places)
            self._seen.add(self._key)

    def _addresses_in(self, places: Mapping[int, Storage | int]) -> tuple[int, ...]:
        found = (places[uid] for uid in self.uids)
        return tuple(p if isinstance(p, int) else int(p.ctypes.data) for p in found)

    def change(self) -> None:
        """Change a few elements of those that were found."""
        if self.uids:
            self._write(*next(self._upcoming))

    def change_much(self) -> None:
        """Find the inputs, and change a part of each."""
        self.find()
        if self.uids:
            number = next(self._large)
            self._write(number, self._changes.of(number))

    def _write(self, number: int, changes: tuple[Change, ...]) -> None:
        for each in changes:
            width, place = self._widths[each.uid], self._places[each.uid]
            to, source, size = (n * width for n in (each.to, each.source, each.count))
            if isinstance(place, int):
                assert self._memory is not None
                self._memory.copy(place + to, place + source, size)
            else:
                whole = plain_array(place).view(np.uint8).data
                whole[to : to + size] = whole[source : source + size]
            made = self._made.setdefault(self._key[self.uids.index(each.uid)], [])
            if not made or made[-1] != number:
                made.append(number)

    def read_by(self, executions: int) -> tuple[tuple[int, ...], ...]:
        """Return the numbers of the changes of each input, in the order of `uids`, that the last of
        so many executions read, since those were found."""
        key = self._key
        if executions > 1 and self.uids:
            order = self._turns()
            key = order[(order.index(key) + executions - 1) % len(order)]
        return tuple(tuple(self._made.get(address, ())) for address in key)

    @property
    def take_turns(self) -> bool:
        """True if several copies of the buffers were found."""
        return len(self._seen) > 1

    def _turns(self) -> list[tuple[int, ...]]:
        """Find the copies by running until the first comes round again."""
        if self._key not in self._order:
            first = found = self._addresses_in(self._locate())
            self._order = []
            while len(self._order) < MOST_COPIES:
                self._order.append(found)
                self._plan.run()
                found = self._addresses_in(self._locate())
                if found == first:
                    break
            if self._key not in self._order:  # an engine whose inputs lie elsewhere each time
                self._order = [self._key]
        return self._order

    def moved(self) -> None:
        """Note that the buffers moved."""
        before, made = self._key, self._made
        self._order, self._seen = [], set()
        self.find()
        pairs = zip(before, self._key, strict=False)
        self._made = {now: made[then] for then, now in pairs if then in made}


class UploadedInputs(OwnInputs):
    """Inputs on a device that only the plan reaches: a copy of ours is changed and uploaded, before
    samples that are drawn, since that takes long."""

    can_queue = False

    def __init__(self, plan: Plan, graph: Graph, inputs: Storages, secret: str) -> None:
        changes = Changes(graph, secret)
        self._copy = dict(inputs) | {uid: inputs[uid].copy() for uid in changes.uids}
        super().__init__(plan, graph, changes, lambda: self._copy)
        self._lots = Random(f"{secret} uploads")  # noqa: S311 - repeatable

    def change(self) -> None:
        if self._lots.random() < UPLOADED_SHARE:
            super().change()

    def _write(self, number: int, changes: tuple[Change, ...]) -> None:
        super()._write(number, changes)
        self._plan.upload(self._copy)

    def read_by(self, executions: int) -> tuple[tuple[int, ...], ...]:  # noqa: ARG002
        return super().read_by(1)


def own_inputs(
    plan: Plan, stream: Stream, graph: Graph, inputs: Storages, secret: str, *, stay: bool
) -> OwnInputs:
    """Return what changes the plan's inputs. `stay`: True if none is to change."""
    locate, memory = plan.abilities.locate_inputs, stream.abilities.memory
    places = {} if locate is None else locate()
    free = [] if stay else changeable(graph)
    on_host = [uid for uid in free if isinstance(places.get(uid), np.ndarray)]
    device = None if memory is None else memory()
    found = on_host or [uid for uid in free if uid in places and device is not None]
    if free and not found:
        return UploadedInputs(plan, graph, inputs, secret)
    changes = Changes(graph, secret, found)
    return OwnInputs(plan, graph, changes, locate or dict, None if on_host else device)
