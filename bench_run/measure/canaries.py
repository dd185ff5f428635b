"""Whether each timed iteration wrote its outputs: canaries at a few places of them.

An engine whose launch fails silently leaves the right answer of the run before standing, and is
very fast. So a few elements of the outputs are overwritten before an iteration and looked at after
it, outside of the timed region. A canary is the complement of the element's own bytes in the first
run, so that no right result can be one. Only a few cache lines are touched.

A place that the engine leaves alone by right (rows of padding, say) still held the poison after
the first run; it is not watched.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bench_run.tensors.layout import plain_array, poison_byte

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    import numpy.typing as npt

    from bench_run.engines.base import LocateOutputs, Plan
    from bench_run.graph.model import Graph, Tensor
    from bench_run.streams.base import DeviceWatch, Stream
    from bench_run.tensors.layout import Storage, Storages

    Bytes: TypeAlias = npt.NDArray[np.uint8]

PLACES = 32
"""Elements watched in each output."""
LONG_NS = 500_000
"""From here on 0.3 µs are below a thousandth."""
WATCHED_SHARE = 0.7
"""So many iterations on canaries as samples, times this: of 100, 70 find a tenth of lazy ones with
probability 1 - 0.9**70 = 0.9994."""
AGAIN_SHARE = 0.3
"""So many samples of short iterations on the host are preceded by one more run."""
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
    def queue_share(self) -> float:
        """Of what fits behind a closed gate, how much is left for samples."""

    def choose(self, estimate_ns: int) -> None:
        """An iteration takes about so long, from end to end."""

    def before(self) -> None:
        """A sample comes next."""

    def after(self) -> None:
        """A sample was taken."""

    def overwrite(self) -> None:
        """The next run finds canaries, and nobody looks what became of them."""

    def drain(self) -> None:
        """The device is idle: take over what it saw."""

    def close(self) -> None:
        """Give memory back."""


class NoCanaries:
    """For engines whose outputs cannot be reached, and for passes whose outputs are not used."""

    watching = False
    looked = untouched = 0
    queue_share = 1.0

    def choose(self, estimate_ns: int) -> None:  # noqa: ARG002
        return None

    def before(self) -> None:
        return None

    after = overwrite = drain = close = before


@dataclass
class HostCanaries:
    """In outputs that lie in the host's memory, for every sample.

    Reaching for them takes a microsecond or two each and fills the processor's own caches with code
    and data of ours, which made a chain of eleven layers of 155 µs in all 13 % longer. So where
    iterations are short one on canaries comes before each sample, untimed, and another one or two
    without: these leave the caches as a sample expects them, and no rhythm of an engine escapes.
    Where other layers run before each sample (`runs_before`) they do so before these runs too, and
    a part of the samples does without.
    """

    locate_outputs: LocateOutputs
    run: Callable[[], None]
    stream: Stream
    runs_before: Callable[[], bool] | None
    watched: tuple[Watched, ...]
    draw: Random
    watching: bool = True
    looked: int = 0
    untouched: int = 0
    queue_share: float = 1.0
    beside: bool = False

    def choose(self, estimate_ns: int) -> None:
        self.beside = estimate_ns < LONG_NS * max(1, len(self.watched))

    def before(self) -> None:
        if not self.beside:
            self.overwrite()
        elif self.runs_before is None or not self.runs_before():
            self._watch(self.run)
            if self.draw.random() < AGAIN_SHARE:
                self.run()
        elif self.draw.random() < WATCHED_SHARE:
            self._watch(self._in_pass)

    def _watch(self, run: Callable[[], None]) -> None:
        """An iteration on canaries and one without."""
        self.overwrite()
        run()
        self.stream.synchronize()  # an engine on the host may work in threads of its own
        self._look()
        run()
        self.stream.synchronize()

    def _in_pass(self) -> None:
        self.stream.flush()
        self.run()

    def after(self) -> None:
        if not self.beside:
            self._look()

    def overwrite(self) -> None:
        places = self.locate_outputs(upcoming=True)
        for each in self.watched:
            _bytes(places[each.uid])[each.offsets] = each.canaries

    def _look(self) -> None:
        places = self.locate_outputs(upcoming=False)
        seen = [(each, _bytes(places[each.uid])[each.offsets]) for each in self.watched]
        self.looked += 1
        self.untouched += any(each.untouched(values) for each, values in seen)

    def drain(self) -> None:
        return None

    def close(self) -> None:
        return None


@dataclass
class DeviceCanaries:
    """In the largest output of a plan in a device's memory. The device keeps what it saw, so that
    nothing waits for the host while a gate is closed.

    A kernel of ours right before an iteration makes it 0.1 to 0.3 µs longer on an H200 (another
    kernel's code and shared memory are in place). Long iterations do not show that: each sample
    runs on canaries. Short ones would by percents: there most samples are preceded by an iteration
    on canaries that is not timed, and by another without but between marks, which leaves the device
    as a sample expects it. Which samples are is drawn at random, so no rhythm of an engine escapes.
    """

    locate_outputs: LocateOutputs
    run: Callable[[], None]
    mark: Callable[[], object]
    watched: Watched
    watch: DeviceWatch
    draw: Random
    watching: bool = True
    looked: int = 0
    untouched: int = 0
    beside: bool = False

    @property
    def queue_share(self) -> float:
        """A third of the runs are samples; or two launches come to three at least."""
        return 1 / 3 if self.beside else 3 / 5

    def choose(self, estimate_ns: int) -> None:
        self.beside = estimate_ns < LONG_NS

    def before(self) -> None:
        if not self.beside:
            self.overwrite()
        elif self.draw.random() < WATCHED_SHARE:
            self.overwrite()
            self.run()
            self._look()
            self.mark()
            self.run()
            self.mark()

    def after(self) -> None:
        if not self.beside:
            self._look()

    def overwrite(self) -> None:
        self.watch.put_out(self._address(upcoming=True))

    def _look(self) -> None:
        self.watch.look(self._address(upcoming=False))

    def _address(self, *, upcoming: bool) -> int:
        found = self.locate_outputs(upcoming=upcoming)[self.watched.uid]
        assert isinstance(found, int)
        return found

    def drain(self) -> None:
        for seen in self.watch.drain():
            self.looked += 1
            self.untouched += self.watched.untouched(seen)

    def close(self) -> None:
        self.watch.close()


def _bytes(place: Storage | int) -> Bytes:
    return plain_array(place).view(np.uint8)


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
    locate, abilities = plan.abilities.locate_outputs, stream.abilities
    if not watched or locate is None:
        return NoCanaries()
    places = locate(upcoming=True)
    if not places:
        return NoCanaries()
    draw = Random(name)  # noqa: S311
    if not isinstance(next(iter(places.values())), int):
        return HostCanaries(locate, plan.run, stream, abilities.runs_before, watched, draw)
    if abilities.watch is None:
        return NoCanaries()
    largest = max(watched, key=lambda each: graph.by_uid[each.uid].elements)
    watch = abilities.watch(largest.offsets, largest.canaries)
    if watch is None:
        return NoCanaries()
    return DeviceCanaries(locate, plan.run, stream.mark, largest, watch, draw)
