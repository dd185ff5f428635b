"""What a command answers."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    text: str
    """For stdout; empty for nothing."""
    exit_code: int = 0
    remarks: tuple[str, ...] = ()
    """For stderr, after the text, one line each."""


def command_line() -> tuple[str, ...]:
    """How this process was called, program name shortened."""
    return (os.path.basename(sys.argv[0]), *sys.argv[1:])
