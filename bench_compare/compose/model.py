"""A composition as a value: what a pipeline takes, its parts, its choices, and what is missing.

Frozen dataclasses, no I/O; `bench-compare compose --json` writes them. Times are nanoseconds and
energies joules of one pass, ratios are baseline / chosen, and ``None`` means "not known".
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  annotations make the schema
from dataclasses import dataclass
from typing import Literal, TypeAlias

Goal: TypeAlias = Literal["time", "energy"]
Kind: TypeAlias = Literal["layer", "conversion", "seam"]


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Part:
    """A step of a pass. The parts of a configuration add up to its time and energy."""

    kind: Kind
    layer: str
    writer: str | None
    """Layer whose output is converted, or that runs right before; None: an input of the
    pipeline."""
    name: str
    configuration: str
    count: int
    """Executions in one pass."""
    time_ns: float
    share: float
    """Share of the time of the pass."""
    energy_j: float | None = None
    error: float | None = None
    """Relative L2 error of the layer's outputs."""
    workspace_bytes: int | None = None
    source: str | None = None
    """Document with the case."""
    case: str | None = None
    note: str | None = None
    ceiling_ratio: float | None = None
    """Rate of the layer over the measured ceiling of the device."""
    gain_ratio: float | None = None
    """Time of the pass over that with all alike layers at `answer.REACHABLE` of the ceiling."""


@dataclass(frozen=True)
class ErrorBound:
    """Relative L2 errors of the layers, put together. The truth is the chain's own validation."""

    worst: float
    root_of_squares: float


@dataclass(frozen=True)
class Configuration:
    """One way to run the whole pipeline."""

    name: str
    engines: tuple[str, ...]
    choices: Mapping[str, str]
    time: Estimate
    energy: Estimate | None
    error: ErrorBound | None
    workspace_bytes: int | None
    """The largest of all layers."""
    parts: tuple[Part, ...]
    once: tuple[Part, ...] = ()
    """Conversions of weights, which no pass repeats."""


@dataclass(frozen=True)
class Option:
    """A measured way to run one layer."""

    configuration: str
    time: Estimate
    energy_j: float | None
    error: float | None
    workspace_bytes: int | None
    source: str
    case: str
    is_chosen: bool = False
    is_baseline: bool = False
    excluded: str | None = None
    """Why it cannot be chosen."""


@dataclass(frozen=True)
class Conversion:
    """Conversion of the activations of a layer into another form, or back."""

    name: str
    """``float_to_half``, ``nchw_to_nhwc``: before the layer into the form, after it out of it."""
    time_ns: float | None
    """Time of all activations together; None if one was not measured."""
    energy_j: float | None


@dataclass(frozen=True)
class LayerChoice:
    layer: str
    name: str
    family: str
    repeat: int
    chosen: str
    baseline: str | None
    reason: str
    options: tuple[Option, ...]
    conversions: tuple[Conversion, ...] = ()


@dataclass(frozen=True)
class Ratios:
    """The named baseline over the chosen configuration."""

    time: Estimate
    energy: Estimate | None = None


@dataclass(frozen=True)
class Missing:
    """Rows that were not measured, and the command line that measures them."""

    kind: Literal["layer", "conversion", "seam", "energy", "chain"]
    what: str
    command: str
    blocks: bool
    """True if the answer needs them."""


@dataclass(frozen=True)
class Check:
    """A prediction next to the same pipeline, measured as a chain."""

    engine: str
    cache: str
    source: str
    case: str
    measured: Estimate
    predicted: Estimate
    log_error: float
    """log(measured / predicted)."""
    holds: bool | None
    """True if they differ by no more than `against.APART` and both intervals together."""
    energy_measured_j: float | None = None
    energy_predicted_j: float | None = None


@dataclass(frozen=True)
class Surroundings:
    """Properties that all documents share."""

    device_kind: str
    device: str
    host: str
    driver: str | None
    cache: str
    """Cache state of the rows that predict."""
    settings: Mapping[str, str]
    libraries: Mapping[str, str]
    """Libraries of each engine."""


@dataclass(frozen=True)
class Composition:
    pipeline: str
    path: str
    about: str
    series: str
    """Series that the times are of."""
    documents: tuple[str, ...]
    surroundings: Surroundings
    baseline_name: str
    choose: Goal | None
    limits: Mapping[str, float]
    fixed: Mapping[str, str]
    optimal: bool | None
    """True if no other choice of these rows is better; None if nothing was to be chosen."""
    interval: Literal["bracket", "documents", "rounds", "none"]
    """Ends of the times: hot rows and those of another cache state, or how far documents or rounds
    are apart."""
    known_error_ratio: float | None
    """The largest |measured / predicted - 1| of the chains that were run; None: none was."""
    baseline: Configuration | None
    chosen: Configuration | None
    ratios: Ratios | None
    layers: tuple[LayerChoice, ...]
    missing: tuple[Missing, ...]
    checks: tuple[Check, ...]
    remarks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Reasons for a missing answer."""
    types: Mapping[str, str] | None = None
    """Data type of each layer's main operand."""

    @property
    def holds(self) -> bool:
        """False if a measured chain lies outside of its prediction."""
        return all(check.holds is not False for check in self.checks)
