"""What a command answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    text: str
    """For stdout; empty for nothing."""
    exit_code: int = 0
    remarks: tuple[str, ...] = ()
    """For stderr, after the text, one line each."""
