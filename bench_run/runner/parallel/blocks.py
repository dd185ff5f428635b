"""The blocks in which the sides of a graph are measured in turn.

Every side is prepared before the first block. In each turn every side measures one block, in an
order that is drawn anew, so that whatever is slower than a turn of some milliseconds (clocks,
temperature, other programs) hits all sides alike. Blocks of one turn are compared with each other.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

from bench_run.errors import StoppedError

if TYPE_CHECKING:
    from collections.abc import Iterable


class BlockTurns:
    """Turns of the sides of one graph in one round. Thread-safe."""

    def __init__(self, sides: Iterable[int], seed: str) -> None:
        self._changed = threading.Condition()
        self._awaited = set(sides)
        """Sides that take part, or may still come."""
        self._ready: dict[int, bool] = {}
        """Sides that wait for their block, and whether they need no further one."""
        self._order: list[int] = []
        """Sides that have no block yet in this turn; the first one measures now or next."""
        self._done = 0
        """Blocks that were given in this turn."""
        self._over = self._stopped = False
        self._draw = random.Random(seed)  # noqa: S311 - an order, not a secret

    def next(self, side: int, *, enough: bool) -> int | None:
        """Wait for a block; its place in the turn, or None after the last turn. All sides have the
        last turn together: it comes when none of them needs more. Raises `StoppedError`."""
        with self._changed:
            if self._order[:1] == [side]:
                self._order.pop(0)
                self._done += 1
            self._ready[side] = enough
            self._look()
            self._changed.wait_for(lambda: self._stopped or self._over or self._order[:1] == [side])
            if self._stopped:
                raise StoppedError
            if self._over:
                return None
            del self._ready[side]
            return self._done

    def leave(self, side: int) -> None:
        """End a side: it takes no further block."""
        with self._changed:
            self._awaited.discard(side)
            self._ready.pop(side, None)
            if side in self._order:
                self._order.remove(side)
            self._look()

    def stop(self) -> None:
        """Raise `StoppedError` in each thread that waits, and at each later request."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _look(self) -> None:
        """Draw the order of a turn once all awaited sides are ready; end the turns once all of them
        are done."""
        if not self._order and self._awaited and self._ready.keys() >= self._awaited:
            if all(self._ready.values()):
                self._over = True
            else:
                self._order = sorted(self._awaited)
                self._draw.shuffle(self._order)
                self._done = 0
        self._changed.notify_all()
