"""What a template process and the run say to each other."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGE_BYTES = 65536
FORK = b"fork"


@dataclass(frozen=True)
class Preload:
    spec: str
    """As text: `parse_spec`."""


@dataclass(frozen=True)
class Ready:
    """Everything is imported, or not: then workers have to be started afresh."""

    fit: bool


@dataclass(frozen=True)
class Forked:
    pid: int


@dataclass(frozen=True)
class Ended:
    pid: int
    code: int
    """As `subprocess.Popen.returncode`."""
