"""Draws that are made before they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

CHUNK = 512
"""Draws at a time. Whatever runs between samples takes room in the processor's own caches, and
makes a sample of 15 µs some percents longer."""


def drawn_ahead(draw: Callable[[], T]) -> Iterator[T]:
    """Yield draws, made a chunk at a time."""
    while True:
        yield from [draw() for _ in range(CHUNK)]
