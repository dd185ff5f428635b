"""What a run and its worker processes say to each other: plain data, pickled over a pipe.

Requests go to the worker, one at a time; each has one answer. A worker that answers nothing is
dead or hung, and that is an outcome too (`worker.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_schema.document import Case, GraphId, Work

    from bench_run.engines.base import EngineFacts, EngineOptions, EngineSpec
    from bench_run.graph.model import Graph
    from bench_run.measure.ceilings import Ceilings
    from bench_run.measure.loop import SamplingBudget


@dataclass(frozen=True)
class Open:
    """Load the engine and take the device. Answered by `Opened` or `Refused`."""

    spec: EngineSpec
    options: EngineOptions


@dataclass(frozen=True)
class Opened:
    facts: EngineFacts
    clock: str
    import_ns: int
    devices: int | None = None
    """How many accelerators the engine can choose from; None where there is no choice."""


@dataclass(frozen=True)
class Refused:
    """The request cannot be met; `kind` is the name of the error class."""

    kind: str
    message: str
    detail: str | None = None


@dataclass(frozen=True)
class Data:
    """Where the inputs of a graph come from."""

    seed: int
    init: tuple[str, ...] = ()
    golden: str | None = None
    """Folder with golden tensors; their inputs are fed bit for bit."""
    graph_path: str | None = None
    kept: str | None = None
    """File that keeps seeded inputs once they are made (`tensors/kept.py`)."""


@dataclass(frozen=True)
class ValidationSettings:
    """What the outputs are held against, and how strictly."""

    reference: str
    expected: str | None
    """Folder with one ``UID.npy`` for each output; None: outputs are not checked."""
    reason: str | None = None
    """Why nothing is expected."""
    policy: str = "default"
    rtol: float | None = None
    atol: float | None = None
    mismatches: int = 5
    budget_s: float = 0.2
    save_outputs: str | None = None
    math: str = "fp32"
    sidecar: str | None = None
    """File with the graph's own tolerances."""


@dataclass(frozen=True)
class RunCase:
    """Run one case for one round. Answered by the `Case` with that one round."""

    case_id: str
    graph: Graph
    graph_id: GraphId
    engine: str
    variant: Mapping[str, str]
    work: Work
    round_index: int
    position: int
    load_ns: int
    data: Data
    validation_settings: ValidationSettings
    budget: SamplingBudget
    notes: tuple[str, ...] = ()
    energy: bool = False
    """Whether a pass after the samples counts the energy of an iteration."""


@dataclass(frozen=True)
class CaseResult:
    case: Case


@dataclass(frozen=True)
class Variants:
    """Ask for the variants of a graph. Answered by `Choices` or `Refused`.

    With ``in_full`` an engine with `choices` tells these: what a person can choose from, knobs
    included.
    """

    graph: Graph
    in_full: bool = False


@dataclass(frozen=True)
class Choices:
    variants: tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class Attempt:
    """Prepare a graph and, with data, run it once. Answered by `Taken` or `Refused`."""

    graph: Graph
    data: Data | None = None


@dataclass(frozen=True)
class Taken:
    """The engine takes the graph."""


@dataclass(frozen=True)
class Evaluate:
    """Compute the outputs once and store them as expected values in `folder`.

    With ``engine`` false the float64 reference computes; else the worker's engine does.
    """

    graph: Graph
    data: Data
    folder: str
    engine: bool = False
    write_golden: str | None = None
    stem: str = ""


@dataclass(frozen=True)
class Evaluated:
    folder: str


@dataclass(frozen=True)
class Trace:
    """Run some iterations of a case under a tracer and leave them in `folder`. Answered by
    `Traced`."""

    case_id: str
    graph: Graph
    variant: Mapping[str, str]
    data: Data
    folder: str


@dataclass(frozen=True)
class Traced:
    """It is there."""


@dataclass(frozen=True)
class MeasureCeilings:
    """Measure what the engine's device can do at most. Answered by `MeasuredCeilings`."""


@dataclass(frozen=True)
class MeasuredCeilings:
    ceilings: Ceilings


@dataclass(frozen=True)
class Close:
    """Give everything back and end."""


@dataclass(frozen=True)
class PhaseStarted:
    """Sent by the worker before each phase, so that a hang or a crash can be placed."""

    phase: str
    checked_ns: int = 0
    """Part of the phase that ends here which went into checking outputs."""


Request = Open | RunCase | Variants | Attempt | Evaluate | Trace | MeasureCeilings | Close
Answer = Opened | Refused | CaseResult | Choices | Taken | Evaluated | Traced | MeasuredCeilings
