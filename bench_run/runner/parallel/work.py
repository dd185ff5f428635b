"""What the lanes of some rounds have still to do.

A lane begins with a round in fresh processes. Once nothing is left of it, it helps where most is
left, as long as its processes have not had that case: so no lane ends long before the others, and
still every round of a case is of a process of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from itertools import cycle, groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_run.runner.parallel.visit import Visit

    Group = Sequence[Visit]
    """The cases of a graph in a round, one for each engine."""


class Work:
    """Of `lanes` lanes; asked by their threads."""

    def __init__(self, rounds: Sequence[Sequence[Visit]], lanes: int) -> None:
        self._lock = threading.Lock()
        self._left: list[deque[Group]] = [deque(groups_of(visits)) for visits in rounds]
        groups = sum(len(left) for left in self._left)
        self.lanes = min(lanes, groups)
        begun = cycle(self._left)
        self._homes: deque[deque[Group]] = deque(next(begun) for _ in range(self.lanes))
        self._homes += self._left[self.lanes :]

    def also(self, visits: Group) -> None:
        """One more round, of these alone."""
        with self._lock:
            left: deque[Group] = deque([visits])
            self._left.append(left)
            self._homes.append(left)

    def begin(self) -> Round | None:
        """A round for fresh processes; None where every one was begun."""
        with self._lock:
            while self._homes:
                home = self._homes.popleft()
                if home:
                    return Round(self, home)
        return None

    def take(self, home: deque[Group], had: frozenset[str] | set[str]) -> Group | None:
        """The next group for processes that `had` these cases; None where there is none for
        them."""
        with self._lock:
            fullest: list[deque[Group]] = sorted(self._left, key=len, reverse=True)
            for left in (home, *fullest):
                for place, group in enumerate(left):
                    if had.isdisjoint(visit.case.id for visit in group):
                        del left[place]
                        return group
        return None


class Round:
    """What the processes of one lane do until they end."""

    def __init__(self, work: Work, home: deque[Group]) -> None:
        self._work, self._home = work, home
        self._had: set[str] = set()

    def __iter__(self) -> Iterator[Group]:
        while (group := self._work.take(self._home, self._had)) is not None:
            self._had.update(visit.case.id for visit in group)
            yield group


def _turn_of(visit: Visit) -> str:
    graph = visit.case.graph
    return graph.turns_with or graph.id.path


def groups_of(visits: Sequence[Visit]) -> Iterator[list[Visit]]:
    """Visits of one graph that follow each other, no engine twice: an engine's worker prepares one
    case at a time."""
    for _, several in groupby(visits, key=_turn_of):
        group: list[Visit] = []
        for visit in several:
            if visit.case.engine.key in {other.case.engine.key for other in group}:
                yield group
                group = []
            group.append(visit)
        yield group
