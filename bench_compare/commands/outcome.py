"""What a command has to say, and its exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_compare.model import Comparison


@dataclass(frozen=True)
class CommandResult:
    text: str
    """For stdout."""
    remarks: tuple[str, ...]
    """For stderr, before the text."""
    problems: tuple[str, ...]
    """For stderr, after it: why there is no answer."""
    exit_code: int
    comparison: Comparison | None = None
    """What was compared, for callers from Python."""
