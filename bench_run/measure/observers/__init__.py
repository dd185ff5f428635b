"""Observers of a round, a file each, and the table of them: all that is seen besides its clocks.

`Observer` (`base.py`) is the protocol. A person's own file joins with ``--observer FILE.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.measure.observers.energy import Energy
from bench_run.measure.observers.host import Host
from bench_run.measure.observers.own import observers_of_files
from bench_run.measure.observers.plan import PlanFacts
from bench_run.measure.observers.processors import Processors
from bench_run.measure.observers.settle import Settle
from bench_run.measure.observers.telemetry import Clocks

if TYPE_CHECKING:
    from bench_run.measure.observers.base import Observer, Round

OBSERVERS = (Host, Clocks, Processors, Energy, PlanFacts)
"""Order in which a round begins; its samples end in the other order."""


def observers_of(this: Round) -> list[Observer]:
    """Return what looks at this round: the last one is the nearest to its samples. What files do
    is around the others, which would count it."""
    return [Settle(this), *observers_of_files(this.files, this), *(o(this) for o in OBSERVERS)]
