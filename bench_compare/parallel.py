"""Work on many cases shared by processes that are forked where it begins.

A forked process has everything that was read and compared already, and only texts come back, so
nothing is copied but these. Small work stays in the process: a fork and its end take 5 to 20 ms.
"""

from __future__ import annotations

import os
import pickle
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
U = TypeVar("U")

MOST_PROCESSES = 8
"""More wait for memory, not for a processor."""
BUFFER_BYTES = 1 << 20


def process_count(items: int, least: int) -> int:
    """How many processes share the work, each with `least` items or more; 1 where forking is not
    safe."""
    if sys.platform != "linux":
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), items // least, MOST_PROCESSES))


def share_out(work: Callable[[range], list[T]], items: int, unit: int, least: int) -> list[T]:
    """What `work` makes of all items, in order. It is called with ranges that begin at multiples of
    `unit`; `least` items are worth a process."""
    return share_out_beside(work, (items, unit, least), lambda: None, 0.0)[0]


def share_out_beside(
    work: Callable[[range], list[T]],
    items_unit_least: tuple[int, int, int],
    beside: Callable[[], U],
    cost: float,
) -> tuple[list[T], U]:
    """The same, and what this process alone makes meanwhile: `cost` is its time as a share of that
    of all the work, of which this process takes less."""
    items, unit, least = items_unit_least
    ranges = list(_ranges(items, unit, process_count(items, least), cost))
    children = [_start(work, one) for one in ranges[1:]]
    try:
        more = beside()
        made = [work(one) for one in ranges[:1]]
    finally:
        parts = [_finish(child) for child in children]
    for one, found in zip(ranges[1:], parts, strict=True):
        made.append(work(one) if found is None else found)  # it was lost, or will raise here, too
    return [value for part in made for value in part], more


def side_by_side(here: Callable[[], T], there: Callable[[], U], *, worth: bool) -> tuple[T, U]:
    """What both make; the second in a process of its own where that is worth it, so that what it
    makes has to be small."""
    child = _start(lambda _: [there()], range(1)) if worth and process_count(2, 1) > 1 else None
    try:
        first = here()
    finally:
        part = _finish(child)
    return first, there() if part is None else part[0]


def _ranges(items: int, unit: int, parts: int, cost: float) -> Iterator[range]:
    """The first is smaller by what its process does beside."""
    units = -(-items // unit)
    own = max((1 + cost) / parts - cost, 0.0) if parts > 1 else 1.0
    each = (1 - own) / max(parts - 1, 1)
    edges = [0, *(round(units * (own + each * place)) for place in range(parts))]
    for first, last in pairwise(edges):
        yield range(first * unit, min(last * unit, items))


def _start(work: Callable[[range], list[T]], items: range) -> tuple[int, int] | None:
    """(pid, end of a pipe) of a process that works on some items; None where there is none."""
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return None
    if pid == 0:
        _work(work, items, writer)
    os.close(writer)
    return pid, reader


def _work(work: Callable[[range], list[T]], items: range, writer: int) -> None:
    """In the child. Whatever happens it ends here: the parent does again what was not done."""
    code = 1
    try:
        with os.fdopen(writer, "wb", BUFFER_BYTES) as pipe:
            pickle.dump(work(items), pipe, pickle.HIGHEST_PROTOCOL)
        code = 0
    finally:
        os._exit(code)


def _finish(child: tuple[int, int] | None) -> Any:
    """What it made; None where it was lost."""
    if child is None:
        return None
    pid, reader = child
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        return None
    return pickle.loads(data)  # noqa: S301 - from our own process
