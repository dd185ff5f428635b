"""Which devices measured at the same time."""

from __future__ import annotations

import threading


class Overlaps:
    """Everybody who measures says when. Of several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: dict[int, tuple[str, set[str]]] = {}
        self._next = 0

    def begin(self, device: str) -> int:
        with self._lock:
            seen = set()
            for other, beside in self._active.values():
                if other != device:
                    seen.add(other)
                    beside.add(device)
            self._next += 1
            self._active[self._next] = device, seen
            return self._next

    def end(self, token: int) -> set[str]:
        """The others that measured meanwhile."""
        with self._lock:
            return self._active.pop(token)[1]
