"""Report of a worker on the outputs that a round left (`worker/judge.py`)."""

from __future__ import annotations

import msgspec

from bench_run.measure.checks import Read  # noqa: TC001 - msgspec reads the fields' types


class Left(msgspec.Struct, frozen=True):
    """Outputs that were left, and what was seen while they were."""

    reads: tuple[Read, ...]
    uids: tuple[int, ...]
    """Inputs that changed."""
    repeats: int
    """Runs on the usual inputs and poisoned outputs, after the first."""
    changed_inputs: tuple[int, ...] | None
    looked: int
    """Iterations on canaries."""
    untouched: int
    """Iterations that left the canaries unchanged."""
