"""How much memory may be in use at once by what is prepared side by side."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

from bench_run.errors import StoppedError
from bench_run.graph.dtypes import DTYPES
from bench_run.machine.telemetry import free_memory_bytes
from bench_run.validate.settings import KEPT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench_run.graph.model import Graph, Tensor

HOST_SHARE, DEVICE_SHARE = 0.5, 0.8
"""Of what is free when the run begins."""
WORKSPACE_BYTES = 256 << 20
"""What a library may take beside the tensors; one that takes more runs out of memory at worst, and
is then prepared alone."""
KEPT_OUTPUTS = 8
"""Of timed iterations, besides the first and the last: as many or so as the default budget reads of
an output that takes a millisecond."""
DEVICE_BYTES = 8 << 30
"""Taken to be free on a device that does not say."""

Need = tuple[int, int]
"""Bytes of the host and of the device."""


def need_of(graph: Graph) -> Need:
    """Inputs and outputs in the process and on the device, what is kept of outputs in both, and in
    the process also in float64 while they are checked."""
    tensors, outputs = _bytes(graph.tensors), _bytes(graph.outputs)
    kept = 2 * outputs + min(KEPT_BYTES, KEPT_OUTPUTS * outputs)
    checked = 24 * sum(t.elements for t in graph.outputs)
    return 2 * tensors + checked + kept, 2 * tensors + WORKSPACE_BYTES + kept


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(t.span * DTYPES[t.data_type].bits // 8 for t in tensors)


def room_here(devices: Sequence[str]) -> Room:
    """Of this machine, for work on these devices (uuid or index)."""
    free = [free_memory_bytes(device) or DEVICE_BYTES for device in devices] or [DEVICE_BYTES]
    host = psutil.virtual_memory().available
    return Room((int(host * HOST_SHARE), int(min(free) * DEVICE_SHARE)))


class Room:
    """Lets in what fits beside what is there; whatever is larger than the room enters alone."""

    def __init__(self, total: Need) -> None:
        self._left = total
        self._inside = 0
        self._changed = threading.Condition()
        self._stopped = False

    @contextmanager
    def take(self, need: Need) -> Iterator[None]:
        """Waits until there is room. Raises `StoppedError`."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not self._inside or self.fits(need))
            if self._stopped:
                raise StoppedError
            self._change(1, need)
        try:
            yield
        finally:
            with self._changed:
                self._change(-1, need)
                self._changed.notify_all()

    def fits(self, need: Need) -> bool:
        """Whether there is so much room now, beside what is inside."""
        return all(part <= left for part, left in zip(need, self._left, strict=True))

    def _change(self, step: int, need: Need) -> None:
        self._inside += step
        self._left = (self._left[0] - step * need[0], self._left[1] - step * need[1])

    def stop(self) -> None:
        """Everybody who waits, or asks from now on, gets `StoppedError`."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
