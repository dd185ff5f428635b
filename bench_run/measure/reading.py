"""Copies of what a plan left in its outputs, in memory that other processes read.

Outputs are copied where they lie, as far as the plan says that: from memory of the host, or of a
device whose stream copies memory. There copies stay on the device until others may use it too: a
measuring worker holds it alone, and reading takes longer than measuring. A plan on the processor
that does not tell where its inputs or outputs lie could work where it is called for them: there
that is a part of its time (`Whole`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from bench_run.errors import EngineError
from bench_run.graph.dtypes import array_type
from bench_run.streams.base import Shared
from bench_run.tensors.changes import changeable
from bench_run.tensors.layout import check_fit, plain_array, storage_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import Plan, PlanAbilities, PlanFacts
    from bench_run.graph.model import Graph, Tensor
    from bench_run.streams.base import Stream
    from bench_run.tensors.layout import Storage, Storages
    from bench_run.tensors.slots import Slots

    Places = Mapping[int, Storage | int]
    Addresses = Mapping[int, int]

ALIGNMENT = 256
"""Alignment of each output in a copy on the device."""


def told_whole(plan: Plan, stream: Stream, graph: Graph, inputs: Storages) -> Plan:
    """Return the plan, or one whose runs include what this one does without telling."""
    locate_inputs, locate_outputs = plan.abilities.locate_inputs, plan.abilities.locate_outputs
    read = set() if locate_inputs is None else locate_inputs().keys()
    written = set() if locate_outputs is None else locate_outputs(upcoming=True).keys()
    tells = read >= set(changeable(graph)), written >= {t.uid for t in graph.outputs}
    if stream.clock != "host" or all(tells):
        return plan
    whole = Whole(plan, stream, None if tells[0] else inputs, reads=not tells[1])
    whole.run()
    return whole


class Whole:
    """A plan on the processor whose runs include its upload, if it does not tell where its inputs
    lie, and its download, if it does not tell that of its outputs."""

    def __init__(self, plan: Plan, stream: Stream, inputs: Storages | None, *, reads: bool) -> None:
        """Wrap a plan. `inputs`: those that each run uploads."""
        self._plan, self._stream, self._reads = plan, stream, reads
        copies = None if inputs is None else {uid: each.copy() for uid, each in inputs.items()}
        self._inputs = copies
        self._outputs: dict[int, Storage] = {}

    @property
    def abilities(self) -> PlanAbilities:
        own = replace(self._plan.abilities, runs_of_parts=None)
        if self._reads:
            own = replace(own, locate_outputs=None)
        return own if self._inputs is None else replace(own, locate_inputs=self.locate_inputs)

    @property
    def facts(self) -> PlanFacts:
        return self._plan.facts

    def locate_inputs(self) -> dict[int, Storage | int]:
        return dict(self._inputs or {})

    def upload(self, inputs: Storages) -> None:
        for uid, copy in (self._inputs or {}).items():
            np.copyto(copy, inputs[uid])
        self._plan.upload(inputs)

    def poison(self) -> None:
        self._plan.poison()

    def run(self) -> None:
        if self._inputs is not None:
            self._plan.upload(self._inputs)
        self._plan.run()
        if self._reads:
            self._stream.synchronize()
            self._outputs = self._plan.download()

    def download(self) -> dict[int, Storage]:
        return self._outputs if self._reads else self._plan.download()

    def close(self) -> None:
        self._plan.close()


class OutputReader:
    """Copies outputs of one plan into slots."""

    def __init__(self, plan: Plan, stream: Stream, graph: Graph, slots: Slots) -> None:
        self._plan, self._stream, self._graph, self._slots = plan, stream, graph, slots
        memory = stream.abilities.memory
        self._locate = plan.abilities.locate_outputs
        self._memory = None if self._locate is None or memory is None else memory()
        self._wait_for_device = stream.abilities.wait_for_device
        self._sizes = {
            t.uid: storage_size(t) * np.dtype(array_type(t.data_type)).itemsize
            for t in graph.outputs
        }
        self._block: int | None = None
        self._rooms: list[Addresses] = []
        self._held: dict[int, Addresses] = {}
        """Copies on the device, by slot."""

    def places(self) -> Places:
        """Return where the next run writes its outputs."""
        return {} if self._locate is None else self._locate(upcoming=True)

    def take_at_once(self, slot: int, expected: Places) -> bool:
        """Copy outputs from the host's memory where they were expected, without a call of the
        engine; return False if they may lie elsewhere."""
        found = {uid: expected.get(uid) for uid in self._sizes}
        if not found or not all(isinstance(place, np.ndarray) for place in found.values()):
            return False
        targets = self._slots.slot(slot)
        for uid, place in found.items():
            raw = plain_array(place).view(np.uint8).reshape(-1)
            if raw.nbytes != targets[uid].nbytes:
                return False
            targets[uid].view(np.uint8).data[:] = raw.data
        return True

    def has_moved(self, expected: Places) -> bool:
        """Return True if the outputs of the last run lie elsewhere than expected."""
        located = {} if self._locate is None else self._locate(upcoming=False)
        return any(
            isinstance(place, int)
            or uid not in located
            or isinstance(there := located[uid], int)
            or there.ctypes.data != place.ctypes.data
            for uid, place in expected.items()
            if uid in self._sizes
        )

    def take(self, slot: int) -> None:
        """Copy the outputs of the last run; on a device with room for copies they are only held.
        Raises `EngineError` if an output does not fit its tensor."""
        if self._wait_for_device is not None and not self._rooms:
            self._wait_for_device()
        addresses = self._addresses()
        if addresses is None:
            self._store(slot, self._on_host())
        elif slot in self._held or self._rooms:
            room = self._held[slot] if slot in self._held else self._rooms.pop()
            self._held[slot] = room
            self._copy(room, addresses)
        else:
            self._fetch(slot, addresses)

    def _on_host(self) -> Storages:
        located = {} if self._locate is None else self._locate(upcoming=False)
        if located.keys() >= self._sizes.keys():
            self._stream.synchronize()  # an engine on the host may work in threads of its own
            return {t.uid: _typed(located[t.uid], t) for t in self._graph.outputs}
        return self._plan.download()

    def _store(self, slot: int, outputs: Storages) -> None:
        check_fit(self._graph, outputs)
        self._slots.store(slot, outputs)

    def _addresses(self) -> Addresses | None:
        if self._memory is None or self._locate is None:
            return None
        located = self._locate(upcoming=False)
        addresses = {uid: at for uid, at in located.items() if isinstance(at, int)}
        return addresses if addresses.keys() >= self._sizes.keys() else None

    def _copy(self, to: Addresses, source: Addresses) -> None:
        assert self._memory is not None
        for uid, size in self._sizes.items():
            if size:
                self._memory.copy(to[uid], source[uid], size)

    def _fetch(self, slot: int, addresses: Addresses) -> None:
        assert self._memory is not None
        self._stream.synchronize()
        for uid, storage in self._slots.slot(slot).items():
            if storage.nbytes:
                self._memory.copy_out(int(storage.ctypes.data), addresses[uid], storage.nbytes)
        self._stream.synchronize()

    def reserve(self, count: int) -> None:
        """Reserve device memory for `count` copies, or for one; without it outputs are read at
        once."""
        if self._addresses() is None or self._memory is None:
            return
        sizes = (-(-size // ALIGNMENT) * ALIGNMENT for size in self._sizes.values())
        begins = list(accumulate(sizes, initial=0))
        for fewer in sorted({count, 1}, reverse=True):
            if self._block is None:
                with suppress(EngineError):
                    self._block = self._memory.allocate(fewer * begins[-1])
                    self._rooms = [
                        dict(zip(self._sizes, (self._block + n * begins[-1] + b for b in begins)))  # noqa: B905
                        for n in range(fewer)
                    ]

    @property
    def room(self) -> int:
        """Return how many further copies the device can hold; one if it is not needed."""
        return len(self._rooms) if self._block is not None else 1

    def fetch(self) -> None:
        """Copy what the device holds into its slots, and give the memory back."""
        for slot, addresses in self._held.items():
            self._slots.touch(slot)
            self._fetch(slot, addresses)
        self.close()

    def share(self) -> Shared | None:
        """Return the copies that the device holds, for another process to read; None if there are
        none, or if the device does not share its memory."""
        if self._block is None or self._memory is None or not self._held:
            return None
        self._stream.synchronize()
        try:
            handle = self._memory.handle_of(self._block)
        except EngineError:
            return None
        block = self._block
        return Shared(
            handle,
            {
                slot: {uid: address - block for uid, address in addresses.items()}
                for slot, addresses in self._held.items()
            },
        )

    def close(self) -> None:
        """Give memory back."""
        self._rooms, self._held = [], {}
        block, self._block = self._block, None
        if block is not None and self._memory is not None:
            with suppress(EngineError):  # a device that failed keeps it until the process ends
                self._memory.free(block)


def _typed(place: Storage | int, tensor: Tensor) -> Storage:
    """Return the memory at a place as an array of its tensor's type, if it is as large."""
    raw = np.ascontiguousarray(plain_array(place)).reshape(-1).view(np.uint8)
    kind = np.dtype(array_type(tensor.data_type))
    return raw.view(kind) if raw.size == storage_size(tensor) * kind.itemsize else raw
