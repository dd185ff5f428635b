"""Result of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_compare.model import Comparison, Conclusion


@dataclass(frozen=True)
class CommandResult:
    text: str
    """Text for stdout."""
    conclusion: Conclusion | None = None
    """None of a text that answers no question, such as help."""
    remarks: tuple[str, ...] = ()
    """Lines for stderr: files that were passed over, and reasons for a missing answer."""
    is_document: bool = False
    """True if `text` is a complete report in its own format; nothing is added to it."""
    comparison: Comparison | None = None
    """The comparison, for callers from Python."""
