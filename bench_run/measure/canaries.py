"""Canaries: bytes written into the outputs before a sample, so that an old result does not pass.

An engine whose launch fails silently leaves the right answer of the run before standing, and is
very fast. So a canary, a few random bytes, takes the place of elements of each output before an
iteration, and is looked for after it. A place that the engine rightly leaves unchanged (rows of
padding, say) still has the poison after the first run; it is not watched.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bench_run.measure.ahead import drawn_ahead
from bench_run.tensors.layout import plain_array, poison_byte

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    import numpy.typing as npt

    from bench_run.engines.base import LocateOutputs, Plan
    from bench_run.graph.model import Graph, Tensor
    from bench_run.streams.base import DeviceWatch, Stream
    from bench_run.tensors.layout import Storage, Storages

    Bytes: TypeAlias = npt.NDArray[np.uint8]
    Places: TypeAlias = Mapping[int, Storage | int]

PLACES = 32
"""Canaries to choose from in each output."""
CANARY_BYTES = 8
"""Size of a canary: by chance a result has these bytes once in 10^19."""


class Canaries(Protocol):
    """Canaries in the outputs of one plan."""

    looked: int
    """Iterations that ran on canaries."""
    untouched: int
    """Iterations that left them as they were."""

    def write(self, places: Places | None) -> None:
        """Write them into the outputs of the next run, which will lie at `places`; None: they are
        to be found."""

    def look(self) -> None:
        """Look for them in the outputs of the last run."""

    def drain(self) -> None:
        """Read the findings of the device, which is idle."""

    def close(self) -> None:
        """Give memory back."""


class NoCanaries:
    """Canaries of engines whose outputs cannot be reached."""

    looked = untouched = 0

    def write(self, places: Places | None) -> None:  # noqa: ARG002
        return None

    def look(self) -> None:
        return None

    drain = close = look


class HostCanaries(NoCanaries):
    """One canary in each output in the host's memory, at a place that is drawn for each sample."""

    def __init__(
        self, locate: LocateOutputs, offsets: Mapping[int, list[int]], draw: Random
    ) -> None:
        """`offsets`: where canaries may lie in an output, in bytes, by uid."""
        self.looked = self.untouched = 0
        self._locate, self._offsets, self._draw = locate, offsets, draw
        self._upcoming = drawn_ahead(self._drawn)
        self._written: list[tuple[int, int, bytes]] = []

    def _drawn(self) -> list[tuple[int, int, bytes]]:
        """Draw uid, offset and bytes of each canary."""
        return [
            (uid, self._draw.choice(found), self._draw.randbytes(CANARY_BYTES))
            for uid, found in self._offsets.items()
        ]

    def write(self, places: Places | None) -> None:
        """Write. No view of an output is kept: results that are allocated anew would not lie where
        those before them did."""
        places, self._written = places or self._locate(upcoming=True), next(self._upcoming)
        for uid, begin, canary in self._written:
            _bytes(places[uid]).data[begin : begin + CANARY_BYTES] = canary

    def look(self) -> None:
        """Look. An output that moved meanwhile loses its canary."""
        places = self._locate(upcoming=False)
        self.looked += 1
        self.untouched += any(
            _bytes(places[uid]).data[begin : begin + CANARY_BYTES] == canary
            for uid, begin, canary in self._written
        )


class DeviceCanaries(NoCanaries):
    """Canaries in the largest output of a plan in a device's memory. The device stores its
    findings, so that nothing waits for the host while a gate is closed."""

    def __init__(self, locate: LocateOutputs, uid: int, canary: Bytes, watch: DeviceWatch) -> None:
        """`canary`: bytes at all watched places together."""
        self.looked = self.untouched = 0
        self._locate, self._uid, self._canary, self._watch = locate, uid, canary, watch

    def write(self, places: Places | None) -> None:  # noqa: ARG002
        self._watch.put_out(self._address(upcoming=True))

    def look(self) -> None:
        self._watch.look(self._address(upcoming=False))

    def _address(self, *, upcoming: bool) -> int:
        found = self._locate(upcoming=upcoming)[self._uid]
        assert isinstance(found, int)
        return found

    def drain(self) -> None:
        for seen in self._watch.drain():
            self.looked += 1
            survived = (seen == self._canary).reshape(-1, CANARY_BYTES)
            self.untouched += bool(survived.all(axis=1).any())

    def close(self) -> None:
        self._watch.close()


def _bytes(place: Storage | int) -> Bytes:
    return plain_array(place).view(np.uint8)


def find_places(tensor: Tensor, storage: Any, draw: np.random.Generator) -> list[int]:
    """Find where canaries may lie in an output, in bytes from its begin. `storage`: that of a run
    on poison."""
    raw = np.ascontiguousarray(storage).view(np.uint8).reshape(-1)
    width = raw.size // max(1, tensor.span)
    count = -(-CANARY_BYTES // max(1, width))
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
    plan: Plan, stream: Stream, graph: Graph, outputs: Storages, secret: str
) -> Canaries:
    """Return canaries in the plan's outputs, where the plan says where these lie. `outputs`: those
    of a run on poison. Places and values are drawn from the secret."""
    draw, locate = np.random.default_rng(list(secret.encode())), plan.abilities.locate_outputs
    places = {} if locate is None else locate(upcoming=True)
    found = {
        tensor.uid: offsets
        for tensor in graph.outputs
        if tensor.uid in places
        if (offsets := find_places(tensor, outputs[tensor.uid], draw))
    }
    if not found or locate is None:
        return NoCanaries()
    if all(not isinstance(place, int) for place in places.values()):
        return HostCanaries(locate, found, Random(f"{secret} canaries"))  # noqa: S311 - repeatable
    watch = stream.abilities.watch
    if watch is None:
        return NoCanaries()
    uid = max(found, key=lambda each: graph.by_uid[each].elements)
    canary = draw.integers(0, 256, CANARY_BYTES, np.uint8)
    watched = np.add.outer(np.array(found[uid]), np.arange(CANARY_BYTES)).reshape(-1)
    full = np.tile(canary, len(found[uid]))
    made = watch(watched, full)
    return NoCanaries() if made is None else DeviceCanaries(locate, uid, full, made)
