"""What a command has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_compare.model import Comparison, Conclusion


@dataclass(frozen=True)
class CommandResult:
    text: str
    """For stdout."""
    conclusion: Conclusion | None = None
    """None of a text that answers no question, such as help."""
    remarks: tuple[str, ...] = ()
    """For stderr: files that were passed over, and why there is no answer."""
    is_document: bool = False
    """Whether `text` is a report in a format of its own, to which nothing is added."""
    comparison: Comparison | None = None
    """What was compared, for callers from Python."""
