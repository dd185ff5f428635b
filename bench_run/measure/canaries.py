"""Whether each timed iteration wrote its outputs: canaries at a few places of them.

An engine whose launch fails silently leaves the right answer of the run before standing, and is
very fast. So a few elements of the outputs are overwritten before each iteration and looked at
after it, outside of the timed region. A canary is the complement of the element's own bytes in the
first run, so that no right result can be one. Only a few cache lines are touched, and before every
iteration alike: caches and clocks are the same for all of them.

A place that the engine leaves alone by right (rows of padding, say) still held the poison after
the first run; it is not watched.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bench_run.engines.base import LocatesOutputs
from bench_run.streams.base import WatchesMemory
from bench_run.tensors.poison import poison_byte

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy.typing as npt

    from bench_run.engines.base import Plan
    from bench_run.graph.model import Graph, Tensor
    from bench_run.streams.base import DeviceWatch, Stream
    from bench_run.tensors.storage import Storage, Storages

    Bytes: TypeAlias = npt.NDArray[np.uint8]

PLACES = 32
"""Elements watched in each output."""
NARROW_SHARE = 0.25
"""In 8-bit types a nondeterministic result may happen to be a canary: so many are needed."""


@dataclass(frozen=True)
class Watched:
    """Places of one output. `offsets` and `canaries` have the shape (places × bytes of an
    element,), element by element."""

    uid: int
    offsets: npt.NDArray[np.int64]
    canaries: Bytes
    element_bytes: int

    def untouched(self, seen: Bytes) -> bool:
        """Whether the places, as they are after a run, say that it wrote nothing there."""
        survived = np.all((seen == self.canaries).reshape(-1, self.element_bytes), axis=1)
        if self.element_bytes > 1:
            return bool(survived.any())
        return bool(np.mean(survived) > NARROW_SHARE)


class Canaries(Protocol):
    """Called by the timing loops, outside of what they time."""

    watching: bool
    looked: int
    """Iterations that ran on canaries."""
    untouched: int
    """Iterations that left them as they were."""

    @property
    def launches(self) -> int:
        """What each iteration adds to a queue."""

    def exchange(self) -> None:
        """Look at what the iteration before left, then put canaries out for the next."""

    def put_out(self) -> None:
        """Put canaries out for the next iteration."""

    def look(self) -> None:
        """Look at what the iteration left."""

    def drain(self) -> None:
        """The device is idle: take over what it saw."""

    def close(self) -> None:
        """Give memory back."""


class NoCanaries:
    """For engines whose outputs cannot be reached, and for passes that nobody relies on."""

    watching = False
    looked = untouched = launches = 0

    def exchange(self) -> None:
        return None

    put_out = look = drain = close = exchange


@dataclass
class HostCanaries:
    """In outputs that lie in the host's memory."""

    plan: LocatesOutputs
    watched: tuple[Watched, ...]
    watching: bool = True
    looked: int = 0
    untouched: int = 0
    launches: int = 0
    _out: bool = field(default=False)

    def exchange(self) -> None:
        self.look()
        self.put_out()

    def put_out(self) -> None:
        places = self.plan.locate_outputs(upcoming=True)
        for each in self.watched:
            _bytes(places[each.uid])[each.offsets] = each.canaries
        self._out = True

    def look(self) -> None:
        if not self._out:
            return
        places = self.plan.locate_outputs(upcoming=False)
        seen = [(each, _bytes(places[each.uid])[each.offsets]) for each in self.watched]
        self.looked += 1
        self.untouched += any(each.untouched(values) for each, values in seen)
        self._out = False

    def drain(self) -> None:
        return None

    def close(self) -> None:
        return None


@dataclass
class DeviceCanaries:
    """In the largest output of a plan in a device's memory. The device keeps what it saw, so that
    nothing waits for the host while a gate is closed."""

    plan: LocatesOutputs
    watched: Watched
    watch: DeviceWatch
    watching: bool = True
    looked: int = 0
    untouched: int = 0
    launches: int = 2
    _out: bool = field(default=False)

    def exchange(self) -> None:
        self._launch(look=self._out, put_out=True)

    def put_out(self) -> None:
        self._launch(look=False, put_out=True)

    def look(self) -> None:
        if self._out:
            self._launch(look=True, put_out=False)

    def _launch(self, *, look: bool, put_out: bool) -> None:
        if look:
            self.watch.look(self._address(upcoming=False))
        if put_out:
            self.watch.put_out(self._address(upcoming=True))
        self._out = put_out

    def _address(self, *, upcoming: bool) -> int:
        found = self.plan.locate_outputs(upcoming=upcoming)[self.watched.uid]
        assert isinstance(found, int)
        return found

    def drain(self) -> None:
        for seen in self.watch.drain():
            self.looked += 1
            self.untouched += self.watched.untouched(seen)

    def close(self) -> None:
        self.watch.close()


def _bytes(place: Storage | int) -> Bytes:
    assert isinstance(place, np.ndarray)
    return place.view(np.uint8)


def watch_outputs(graph: Graph, outputs: Storages, name: str) -> tuple[Watched, ...]:
    """Places of every output, drawn at random by `name`. `outputs`: those of a run on poison."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    found = (_watch(tensor, outputs[tensor.uid], draw) for tensor in graph.outputs)
    return tuple(watched for watched in found if watched is not None)


def _watch(tensor: Tensor, storage: Any, draw: np.random.Generator) -> Watched | None:
    if tensor.elements == 0:
        return None
    raw = np.ascontiguousarray(storage).view(np.uint8).reshape(-1)
    width = raw.size // tensor.span
    index = [draw.integers(0, size, PLACES) for size in tensor.dims]
    place = sum((i * s for i, s in zip(index, tensor.strides, strict=True)), np.zeros(1, np.int64))
    rows = np.unique(place)[:, None] * width + np.arange(width)
    rows = rows[~np.all(raw[rows] == poison_byte(tensor.data_type), axis=1)]
    if not len(rows):
        return None
    offsets = rows.reshape(-1)
    return Watched(tensor.uid, offsets, ~raw[offsets], width)


def canaries_of(plan: Plan, stream: Stream, graph: Graph, outputs: Storages, name: str) -> Canaries:
    """Canaries in the plan's outputs, where the plan says where these lie."""
    watched = watch_outputs(graph, outputs, name)
    if not watched or not isinstance(plan, LocatesOutputs):
        return NoCanaries()
    places = plan.locate_outputs(upcoming=True)
    if not places:
        return NoCanaries()
    if not isinstance(next(iter(places.values())), int):
        return HostCanaries(plan, watched)
    if not isinstance(stream, WatchesMemory):
        return NoCanaries()
    largest = max(watched, key=lambda each: graph.by_uid[each.uid].elements)
    watch = stream.watch(largest.offsets, largest.canaries)
    return NoCanaries() if watch is None else DeviceCanaries(plan, largest, watch)
