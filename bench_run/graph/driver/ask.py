"""What a converter is asked, and what it answers: op specs, remarks, or a reason why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Ask:
    base: str
    values: Mapping[str, Any]
    """Long flag name → value."""
    given: frozenset[str]
    """Flags that the line itself has."""
    from_log: bool
    where: str

    def error(self, flag: str, what: str) -> GraphError:
        return GraphError(self.where, f"--{flag} {self.values[flag]}: {what}")


@dataclass(frozen=True)
class Answer:
    specs: tuple[str, ...] = ()
    """Op specs of `bench_run.graph.make`, one graph each."""
    notes: tuple[str, ...] = ()
    """Where the graph differs in kind from what the driver runs."""
    reason: str | None = None
    """Why there is no graph."""


def refused(reason: str) -> Answer:
    return Answer(reason=reason)


def spec(ops: str, items: Mapping[str, Any]) -> str:
    """The op spec; items that are None are left out, tuples are joined by x."""
    shown = (f"{key}={_show(value)}" for key, value in items.items() if value is not None)
    return f"{ops}: {' '.join(shown)}"


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(str(item) for item in value)
    return str(int(value)) if isinstance(value, bool) else str(value)


def notes(rows: Iterable[tuple[bool, str]]) -> tuple[str, ...]:
    """The remarks whose condition holds."""
    return tuple(text for holds, text in rows if holds)
