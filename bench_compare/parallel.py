"""Work on many cases shared by processes that are forked where it begins.

A forked process has everything that was read and compared already, and only texts come back, so
nothing is copied but these. Small work stays in the process: a fork and its end take 5 to 20 ms.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
U = TypeVar("U")

MOST_PROCESSES = 8
"""More wait for memory, not for a processor."""
BUFFER_BYTES = 1 << 20
TURNS = 4
"""In which a process takes its share, on average."""
TOKEN_BYTES = 4
MOST_TOKENS = (1 << 12) // TOKEN_BYTES
"""What every pipe holds at a time, even one of a user who has so many that theirs are small."""


def process_count(items: int, least: int) -> int:
    """How many processes share the work, each with `least` items or more; 1 where forking is not
    safe."""
    if sys.platform != "linux":
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), items // least, MOST_PROCESSES))


def share_out(work: Callable[[range], list[T]], items: int, unit: int, least: int) -> list[T]:
    """What `work` makes of all items, in order. It is called with ranges that begin at multiples of
    `unit`; `least` items are worth a process."""
    return share_out_beside(work, items, unit, least, lambda: None)[0]


def share_out_beside(
    work: Callable[[range], list[T]],
    items: int,
    unit: int,
    least: int,
    beside: Callable[[], U],
) -> tuple[list[T], U]:
    """The same, and what this process alone makes before it takes part."""
    processes = process_count(items, least)
    units = -(-items // unit)
    count = min(processes * TURNS if processes > 1 else 1, units)
    edges = [units * place // count for place in range(count + 1)] if count else []
    ranges = [range(first * unit, min(last * unit, items)) for first, last in pairwise(edges)]
    found, more = take_turns(
        lambda _, turns: {turn: work(ranges[turn]) for turn in turns},
        len(ranges),
        processes,
        beside,
    )
    made = {turn: values for some in found if some is not None for turn, values in some.items()}
    for turn, one in enumerate(ranges):
        if turn not in made:  # its process was lost, or it will raise here, too
            made[turn] = work(one)
    return [value for turn in range(len(ranges)) for value in made[turn]], more


def take_turns(
    work: Callable[[int, Iterator[int]], T],
    turns: int,
    processes: int,
    beside: Callable[[], U],
) -> tuple[list[T | None], U]:
    """What each process made of the turns that it took: one after another, each as soon as it was
    free, so that nobody waits for one that has more to do, or less of a processor.

    `work` is called with the number of its process, 0 in this one, which does `beside` first. None
    for a process that was lost together with what it took.
    """
    reader, writer = os.pipe()
    step = max(1, -(-turns // MOST_TOKENS))
    firsts = range(0, turns, step)
    os.write(writer, b"".join(first.to_bytes(TOKEN_BYTES, "little") for first in firsts))
    os.close(writer)

    def free() -> Iterator[int]:
        """The turns that nobody has taken yet; what a pipe holds it gives to one process only."""
        while token := os.read(reader, TOKEN_BYTES):
            first = int.from_bytes(token, "little")
            yield from range(first, min(first + step, turns))

    children = [
        _start(partial(work, number, free())) for number in range(1, min(processes, turns + 1))
    ]
    try:
        more = beside()
        own = work(0, free())
    finally:
        deque(free(), maxlen=0)  # after an error nobody has to do the rest
        os.close(reader)
        parts = [_finish(child) for child in children]
    return [own, *parts], more


def side_by_side(
    here: Callable[[], T], anywhere: Sequence[Callable[[], U]], *, worth: bool
) -> tuple[T, list[U]]:
    """What `here` makes, and what all others do, by other processes too where that is worth it, so
    that what they make has to be small."""
    least = 1 if worth else len(anywhere) + 1
    made, first = share_out_beside(
        lambda some: [anywhere[place]() for place in some], len(anywhere), 1, least, here
    )
    return first, made


def _start(work: Callable[[], object]) -> tuple[int, int] | None:
    """(pid, end of a pipe) of a process that works; None where there is none."""
    try:
        reader, writer = os.pipe()
    except OSError:
        return None
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return None
    if pid == 0:  # whatever happens the child ends here: the parent does again what was not done
        code = 1
        try:
            with os.fdopen(writer, "wb", BUFFER_BYTES) as pipe:
                pickle.dump(work(), pipe, pickle.HIGHEST_PROTOCOL)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    return pid, reader


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
