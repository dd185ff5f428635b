"""A profiler as a process: run to its end, and the end of its output."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from bench_run.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def run(
    command: Sequence[str], environment: Mapping[str, str], timeout_s: float, tool: str
) -> subprocess.CompletedProcess[str]:
    """Raises `EngineError` where it does not start or does not end; its exit code is the
    caller's."""
    try:
        return subprocess.run(  # noqa: S603 - fixed words and our own files, no shell
            command, env=dict(environment), capture_output=True, text=True, timeout=timeout_s,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{tool} did not finish: {error}") from error


def output_tail(done: subprocess.CompletedProcess[str], otherwise: str = "") -> str:
    """The last line of what it said."""
    words = (done.stderr or done.stdout or otherwise).strip().splitlines()
    return words[-1] if words else "it said nothing"
