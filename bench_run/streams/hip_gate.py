"""hipDNN's stall gate, in each of its generations, with a timeout.

The first generation has no watchdog: an engine that waits for the device inside `execute` would
wait behind a closed gate for ever, so a thread of ours opens it after `LIMIT_S`. Later ones open by
themselves and say so (`timed_out`); ours watches them too, a while later, since a release that
binds `timed_out` need not have a watchdog that works. Either way what was enqueued behind that gate
is void. Newer still, a gate that opened by force refuses to close again in that process
(`GateGoneError`).
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT_S = 2.0
"""No block of launches takes the host that long; the bindings' own watchdog waits as long."""


class StallGate(Protocol):
    def arm(self, stream: int, /) -> None: ...

    def release(self) -> None: ...


class GateGoneError(Exception):
    """The gate cannot be closed any more; the words are the bindings'."""


class Gate:
    """Closes the stream; opens when the block ends or, at the latest, after the limit.

    `timed_out` is the gate's own word on whether its watchdog opened it. With it ours waits twice
    as long, so that theirs comes first.
    """

    def __init__(
        self,
        gate: StallGate,
        stream: int,
        timed_out: Callable[[], bool] | None = None,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._gate, self._stream = gate, stream
        self._limit_s = limit_s if timed_out is None else 2 * limit_s
        self._timed_out = timed_out
        self._lock = threading.Lock()
        self._closed = self._forced = False

    @contextmanager
    def closed(self) -> Iterator[None]:
        self._forced = False
        try:
            self._gate.arm(self._stream)
        except Exception as error:  # foreign: sticky gates and drivers without stream waits
            raise GateGoneError(str(error) or type(error).__name__) from error
        self._closed = True
        watchdog = self._watch()
        try:
            yield
        finally:
            watchdog.cancel()
            self._open(forced=False)

    def _watch(self) -> threading.Timer:
        watchdog = threading.Timer(self._limit_s, self._open, kwargs={"forced": True})
        watchdog.daemon = True
        watchdog.start()
        return watchdog

    def _open(self, *, forced: bool) -> None:
        """Once for each closing, by the first caller."""
        with self._lock:
            if self._closed:
                self._closed, self._forced = False, forced
                self._gate.release()

    def was_forced(self) -> bool:
        """Whether the last gate opened before its block ended; asked once its work is done."""
        return self._forced or (self._timed_out is not None and bool(self._timed_out()))
