"""How long each step of hipDNN's own initialisation took."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench_run.text import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator


class Phases:
    """Nanoseconds by name, in the order of the steps."""

    def __init__(self, before: Phases | None = None) -> None:
        self.ns: dict[str, int] = {} if before is None else dict(before.ns)

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        begin = time.perf_counter_ns()
        yield
        self.ns[name] = time.perf_counter_ns() - begin

    def text(self) -> str:
        return ", ".join(f"{name} {time_text(value)}" for name, value in self.ns.items())
