"""The protocol of observers, and what they know of a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_schema.document import Extra

    from bench_run.measure.loop import Measured
    from bench_run.measure.prepared import Prepared, Steps


@dataclass(frozen=True)
class Round:
    """A round of a case, before it is measured."""

    engine: str
    """Key of the engine."""
    prepared: Prepared
    steps: Steps
    settle: str | None = None
    energy: bool = False
    threads: int | None = None
    """Threads, and processors, that the worker is held to; None: as many as there are."""
    guardian: int | None = None
    """Id of the process below which everything stays that the worker starts."""
    files: tuple[str, ...] = ()
    """Paths of the observers that are files."""
    peak_bytes: int | None = None
    """Most memory that planning and the first run took in this process."""


@dataclass(frozen=True)
class Results:
    """Findings of an observer, for the document."""

    round: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the round."""
    case: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the case."""
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Extra] = field(default_factory=dict)
    """Numbers that have no field of their own."""


class Observer:
    """Looks at one round. An observer has those of these methods that it needs."""

    def __init__(self, this: Round) -> None:
        self.this = this

    def before_round(self) -> None:
        """Begin: the device is the case's alone, and samples follow."""

    def after_sample_block(self, measured: Measured) -> None:
        """Hear of the samples that were just taken."""

    def after_round(self) -> None:
        """Use the plan: the passes over kernels are over, and the device is the case's alone."""

    def results(self) -> Results:
        """Return what was seen; the device is free again."""
        return Results()
