"""Canaries: bytes written right before an iteration, so that neither an old result nor a stored one
passes.

An engine whose launch fails silently leaves the right answer of the run before standing, and is
very fast. So a canary, a few random bytes, takes the place of elements of each output before an
iteration, and is looked for after it. A place that the engine rightly leaves unchanged (rows of
padding, say) still has the poison after the first run; it is not watched.

And one element of an input takes another value, so that no two samples run on the same contents: an
engine that knows its inputs again has to compute each time.

Both are done outside of the timed region, and nothing of the engine is called between them and the
run itself.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bench_run.graph.dtypes import DTYPES
from bench_run.tensors.layout import plain_array, poison_byte

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    import numpy.typing as npt

    from bench_run.engines.base import LocateInputs, LocateOutputs, Plan
    from bench_run.graph.model import Graph, Tensor
    from bench_run.streams.base import DeviceWatch, Stream
    from bench_run.tensors.layout import Storage, Storages

    Bytes: TypeAlias = npt.NDArray[np.uint8]

PLACES = 32
"""Canaries to choose from in each output."""
POOL = 64
"""Places and values that are drawn before."""
CANARY_BYTES = 8
"""Size of a canary: by chance a result has these bytes once in 10^19."""
LONG_NS = 500_000
"""Duration from which 0.3 µs are below a thousandth."""
WATCHED, WATCHED_SHARE = 30, 0.7
"""Iterations on canaries for the samples of a round, and their largest ratio to these: 70 in five
rounds find a tenth of lazy ones with probability 1 - 0.9**70 = 0.9994."""


class Canaries(Protocol):
    """Called by the timing loops, outside of what they time."""

    looked: int
    """Iterations that ran on canaries."""
    untouched: int
    """Iterations that left them as they were."""

    @property
    def queue_share(self) -> float:
        """Return the share of the gate's queue that is left for samples."""

    def choose(self, estimate_ns: int, count: int) -> None:
        """Choose the samples on canaries, of so many of this duration, end to end."""

    def before(self) -> None:
        """Prepare for a sample, before the caches are brought into their state."""

    def touch(self) -> None:
        """Change an element of an input right before the sample, if the canaries include that."""

    def after(self) -> None:
        """Note that a sample was taken."""

    def restore(self) -> None:
        """Restore the inputs."""

    def moved(self, locate: LocateInputs | None) -> None:
        """Note that the buffers moved; `locate` gives the places of the inputs."""

    def drain(self) -> None:
        """Read the findings of the device, which is idle."""

    def close(self) -> None:
        """Give memory back."""


class NoCanaries:
    """Canaries for engines whose outputs cannot be reached, and for passes whose outputs are not
    used."""

    looked = untouched = 0
    queue_share = 1.0

    def choose(self, estimate_ns: int, count: int) -> None:  # noqa: ARG002
        return None

    def before(self) -> None:
        return None

    def moved(self, locate: LocateInputs | None) -> None:
        """Note that the buffers moved; `locate` gives the places of the inputs."""

    touch = after = restore = drain = close = before


class HostCanaries(NoCanaries):
    """Canaries in the host's memory: one in each output, and one new value in an input.

    Whatever runs between samples takes room in the processor's own caches, and makes a sample of
    15 µs some percents longer: all is drawn before, and little is done here.
    """

    def __init__(
        self,
        locate_outputs: LocateOutputs | None,
        offsets: dict[int, list[int]],
        inputs: dict[int, Bytes],
        widths: dict[int, int],
        draw: Random,
    ) -> None:
        """`offsets`: where canaries may lie in an output, in bytes. `inputs`: memory whose elements
        of `widths` bytes take other values of the same memory. All by uid."""
        self.looked = self.untouched = 0
        self._locate = locate_outputs if offsets else None
        self._pool = [
            [(uid, at, at + CANARY_BYTES, draw.randbytes(CANARY_BYTES)) for uid, at in each]
            for each in zip(
                *([(u, draw.choice(found)) for _ in range(POOL)] for u, found in offsets.items()),
                strict=True,
            )
        ]
        self._widths, self._draw, self._changed = widths, draw, inputs.keys()
        self._to = [_element(inputs, widths, draw) for _ in range(POOL) if inputs]
        self._values = [draw.randrange(1 << 30) for _ in range(POOL - 3)]
        self._turn = 0
        self._was: tuple[memoryview, int, int, bytes] | None = None
        """Memory, begin, end and value that put the last input back."""

    def before(self) -> None:
        """Write the canaries. No view of an output is kept: results that are allocated anew would
        not lie where those before them did."""
        self._turn += 1
        if self._locate is not None:
            places = self._locate(upcoming=True)
            for uid, begin, end, canary in self._pool[self._turn % POOL]:
                _bytes(places[uid]).data[begin:end] = canary

    def touch(self) -> None:
        if self._to:
            self.restore()
            # The two lengths have no common factor: 3904 iterations without the same contents.
            self._was = memory, begin, end, _ = self._to[self._turn % POOL]
            width = end - begin
            source = self._values[self._turn % len(self._values)] % (len(memory) // width) * width
            memory[begin:end] = memory[source : source + width]

    def moved(self, locate: LocateInputs | None) -> None:
        if self._to and locate is not None:
            places = locate()
            inputs = {uid: _bytes(places[uid]) for uid in self._changed}
            self._to = [_element(inputs, self._widths, self._draw) for _ in range(POOL)]

    def restore(self) -> None:
        if self._was is not None:
            memory, begin, end, value = self._was
            memory[begin:end] = value
            self._was = None

    def after(self) -> None:
        """Look for the canaries. An output that moved meanwhile loses its canary."""
        if self._locate is None:
            return
        places = self._locate(upcoming=False)
        self.looked += 1
        self.untouched += any(
            _bytes(places[uid]).data[begin:end] == canary
            for uid, begin, end, canary in self._pool[self._turn % POOL]
        )


def _element(
    inputs: dict[int, Bytes], widths: dict[int, int], draw: Random
) -> tuple[memoryview, int, int, bytes]:
    """Draw an element of any input: its memory, where it begins and ends, and its value."""
    uid = draw.choice(list(inputs))
    memory, width = inputs[uid].data, widths[uid]
    begin = draw.randrange(len(memory) // width) * width
    return memory, begin, begin + width, bytes(memory[begin : begin + width])


@dataclass
class DeviceCanaries(NoCanaries):
    """Canaries in the largest output of a plan in a device's memory. The device stores its
    findings, so that nothing waits for the host while a gate is closed.

    A kernel of ours right before an iteration makes it 0.1 to 0.3 µs longer on an H200 (another
    kernel's code and shared memory are in place). Long iterations do not show that: each sample
    runs on canaries. Short ones would by percents: there some samples are preceded by an iteration
    on canaries that is not timed, and by another without but between marks, which leaves the device
    as a sample expects it. Those samples are drawn at random, so no rhythm of an engine escapes.
    """

    locate_outputs: LocateOutputs
    run: Callable[[], None]
    mark: Callable[[], object]
    uid: int
    canary: Bytes
    watch: DeviceWatch
    draw: Random
    looked: int = 0
    untouched: int = 0
    beside: bool = False
    share: float = WATCHED_SHARE
    """Share of the samples that an iteration on canaries precedes."""

    @property
    def queue_share(self) -> float:  # type: ignore[override]
        """A third of the runs are samples; or two launches come to three at least."""
        return 1 / 3 if self.beside else 3 / 5

    def choose(self, estimate_ns: int, count: int) -> None:
        self.beside = estimate_ns < LONG_NS
        self.share = min(WATCHED_SHARE, WATCHED / max(1, count))

    def before(self) -> None:
        if not self.beside:
            self._overwrite()
        elif self.draw.random() < self.share:
            self._overwrite()
            self.run()
            self._look()
            self.mark()
            self.run()
            self.mark()

    def after(self) -> None:
        if not self.beside:
            self._look()

    def _overwrite(self) -> None:
        self.watch.put_out(self._address(upcoming=True))

    def _look(self) -> None:
        self.watch.look(self._address(upcoming=False))

    def _address(self, *, upcoming: bool) -> int:
        found = self.locate_outputs(upcoming=upcoming)[self.uid]
        assert isinstance(found, int)
        return found

    def drain(self) -> None:
        for seen in self.watch.drain():
            self.looked += 1
            survived = (seen == self.canary).reshape(-1, CANARY_BYTES)
            self.untouched += bool(survived.all(axis=1).any())

    def close(self) -> None:
        self.watch.close()


def _bytes(place: Storage | int) -> Bytes:
    return plain_array(place).view(np.uint8)


def find_places(tensor: Tensor, storage: Any, draw: np.random.Generator) -> list[int]:
    """Find where canaries may lie in an output, in bytes from its begin. `storage`: that of a run
    on poison."""
    raw = np.ascontiguousarray(storage).view(np.uint8).reshape(-1)
    width = raw.size // tensor.span
    count = -(-CANARY_BYTES // width)
    inner = [d for d, stride in zip(tensor.dims, tensor.strides, strict=True) if stride == 1 < d]
    if tensor.elements == 0 or tensor.span < count or max(inner, default=1) < count:
        return []
    index = [
        draw.integers(0, size - (count - 1) * (stride == 1 < size), PLACES)
        for size, stride in zip(tensor.dims, tensor.strides, strict=True)
    ]
    first = sum((i * s for i, s in zip(index, tensor.strides, strict=True)), np.zeros(1, np.int64))
    places = np.unique(first) * width
    rows = raw[places[:, None] + np.arange(CANARY_BYTES)].reshape(len(places), -1, width)
    is_written = ~np.any(np.all(rows == poison_byte(tensor.data_type), axis=2), axis=1)
    return [int(at) for at in places[is_written]]


def canaries_of(
    plan: Plan, stream: Stream, graph: Graph, outputs: Storages, name: str, *, may_change: bool
) -> Canaries:
    """Return canaries in the plan's outputs, where the plan says where these lie. `outputs`: those
    of a run on poison; `name` is what places are drawn by. `may_change`: inputs too, on the
    host."""
    number = zlib.crc32(name.encode())
    draw, locate = np.random.default_rng(number), plan.abilities.locate_outputs
    places = {} if locate is None else locate(upcoming=True)
    found = {
        tensor.uid: offsets
        for tensor in graph.outputs
        if tensor.uid in places
        if (offsets := find_places(tensor, outputs[tensor.uid], draw))
    }
    locate_inputs = plan.abilities.locate_inputs if may_change else None
    inputs = {} if locate_inputs is None else _host_inputs(graph, locate_inputs)
    on_host = all(not isinstance(place, int) for place in places.values())
    if on_host and (found or inputs):
        widths = {t.uid: DTYPES[t.data_type].bytes for t in graph.inputs}
        return HostCanaries(locate, found, inputs, widths, Random(name))  # noqa: S311
    watch = stream.abilities.watch
    if on_host or not found or watch is None or locate is None:
        return NoCanaries()
    uid = max(found, key=lambda each: graph.by_uid[each].elements)
    canary = draw.integers(0, 256, CANARY_BYTES, np.uint8)
    watched = np.add.outer(np.array(found[uid]), np.arange(CANARY_BYTES)).reshape(-1)
    full = np.tile(canary, len(found[uid]))
    made = watch(watched, full)
    if made is None:
        return NoCanaries()
    return DeviceCanaries(locate, plan.run, stream.mark, uid, full, made, Random(name))  # noqa: S311


def _host_inputs(graph: Graph, locate: LocateInputs) -> dict[int, Bytes]:
    """Return the memory of the inputs whose elements can take each other's values."""
    places = locate()
    return {
        tensor.uid: _bytes(place)
        for tensor in graph.inputs
        if isinstance(place := places.get(tensor.uid), np.ndarray)
        and DTYPES[tensor.data_type].kind == "float"
        and DTYPES[tensor.data_type].bits >= 8
        and tensor.elements > 1
    }
