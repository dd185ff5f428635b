"""Parts of an operation on several threads: NumPy lets other threads run while it computes.

Threads of our own rather than those of BLAS: all of an operation is spread, not its products alone,
and a thread that waits sleeps. Those of OpenBLAS spin, which takes nine tenths of the processor
where several processes compute at the same time.

How an operation is cut into parts never depends on the number of threads, and neither do results.
"""

from __future__ import annotations

import threading
from collections import deque
from math import prod
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor

Part = tuple[slice, ...]
"""Index of an array's part."""
PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")

_pool: ThreadPoolExecutor | None = None
_count = 1
_is_reference = False


class _Thread(threading.local):
    busy = False
    """True in a thread of the pool."""


_here = _Thread()


def each(function: Callable[[PartT], ResultT], parts: Iterable[PartT]) -> Iterator[ResultT]:
    """Yield the results in the order of the parts, which are asked for as threads become free."""
    if _pool is None or _here.busy:
        yield from map(function, parts)
        return
    waiting: deque[Future[ResultT]] = deque()
    for part in parts:
        waiting.append(_pool.submit(function, part))
        if len(waiting) > _count:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def do_each(
    function: Callable[[PartT], object], parts: Iterable[PartT], *, alone: bool = False
) -> None:
    """Call `function` for parts that write their results to separate places; `alone`: one after the
    other, as they share some."""
    for _ in map(function, parts) if alone else each(function, parts):
        pass


def cut(dims: tuple[int, ...], most: int) -> Iterator[Part]:
    """Yield parts of an array of these dims, each of at most so many elements (but of at least one
    index of the last axis that is cut), whole along its last axes as far as possible."""
    axis = next((i for i, length in enumerate(dims) if length > 1), None)
    if axis is None or prod(dims) <= most:
        yield (slice(None),) * len(dims)
        return
    rest = prod(dims[axis + 1 :])
    step = max(1, most // max(1, rest))
    for start in range(0, dims[axis], step):
        head = (*(slice(None) for _ in range(axis)), slice(start, start + step))
        for tail in cut(dims[axis + 1 :], most) if rest > most else ((),):
            yield (*head, *tail)


def in_parts() -> bool:
    """Return True in a process that computes references: it also cuts operations that do not need
    parts themselves. The parts do not depend on the number of threads. In other processes BLAS has
    threads."""
    return _is_reference


def use_threads(count: int) -> None:
    """Use `count` threads in a process that only computes references; its BLAS must have been
    started with one. Without this call references use one thread, and BLAS its default."""
    from concurrent.futures import ThreadPoolExecutor

    global _pool, _count, _is_reference
    _is_reference = True
    _count = max(1, count)
    _pool = None if _count == 1 else ThreadPoolExecutor(_count, "reference", _enter)


def _enter() -> None:
    """Silence overflows, which NumPy reports by thread."""
    _here.busy = True
    np.seterr(all="ignore")
