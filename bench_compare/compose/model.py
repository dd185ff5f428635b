"""Result of a composition, as frozen values: the reports only arrange it.

Times are nanoseconds of the named series, energies joules, of one pass of the pipeline; ratios are
baseline over chosen (above 1: the chosen configuration is better). ``None`` means "not known".
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  annotations are read at run time
from dataclasses import dataclass
from typing import Literal

PartKind = Literal["layer", "seam", "conversion"]
MissingKind = Literal["layer", "conversion", "seam", "energy", "cache"]
Objective = Literal["time", "energy"]
IntervalKind = Literal["rounds", "documents", "bracket", "none"]
"""Cover of an interval: rounds (or documents) of the rows and what another document is apart, not
how far a sum is off; the bracket between hot and colder caches; nothing, as no spread is known."""


@dataclass(frozen=True)
class IntervalEstimate:
    value: float
    low: float | None = None
    """95 % interval, see `IntervalKind`."""
    high: float | None = None


@dataclass(frozen=True)
class Ends:
    """The same configuration from rows of one cache state."""

    cache: str
    estimate: IntervalEstimate


@dataclass(frozen=True)
class TableSurroundings:
    """Properties that all documents share."""

    device_kind: str
    device: str
    """uuid, or ``cpu``."""
    host: str
    driver: str | None
    cache: str
    """Cache state of the rows that predict."""
    settings: Mapping[str, str]
    """timer, duty, math, replay, threads …"""
    libraries: Mapping[str, str]
    """Library versions by engine."""


@dataclass(frozen=True)
class ErrorBound:
    """Relative L2 of the layers, put together; the truth is the chain's own validation."""

    worst: float
    """The sum: all errors in one direction."""
    root_of_squares: float
    """Independent errors."""


@dataclass(frozen=True)
class PassPart:
    """A step of the waterfall: parts of a configuration add up to its time and energy."""

    kind: PartKind
    layer: str
    """Id in the pipeline; of a seam and a conversion that of the reader."""
    writer: str | None
    """Id of the layer before, for a seam or a conversion; None: the pipeline's input. A conversion
    whose `layer` is ``output`` restores an output's form."""
    name: str
    """Name of the graph; for a seam ``WRITER → READER``."""
    configuration: str
    """Engine and variant: ``cudnn plan=eng6_k2=1 layout=nhwc``."""
    count: int
    time_ns: float
    """All `count` together; of a seam it may be negative."""
    share: float
    """Share of the configuration's time."""
    energy_j: float | None
    error: float | None
    workspace_bytes: int | None
    source: str | None
    """Document that it was measured in; None: it was not measured."""
    case: str | None
    note: str | None = None
    """Remark for readers of this row: a stand-in, an energy that was not resolved."""


@dataclass(frozen=True)
class Configuration:
    """One way to run the whole pipeline."""

    name: str
    engines: tuple[str, ...]
    choices: Mapping[str, str]
    """Layer id to engine and variant."""
    time: IntervalEstimate
    energy: IntervalEstimate | None
    error: ErrorBound | None
    workspace_bytes: int | None
    """Largest workspace of a layer."""
    ends: tuple[Ends, ...]
    """Times by cache state, if there are rows of several."""
    parts: tuple[PassPart, ...]
    once: tuple[PassPart, ...] = ()
    """Conversions of weights, which happen once, before the first pass; not part of the time."""


@dataclass(frozen=True)
class OptionRow:
    """A measured way to run one layer."""

    configuration: str
    time: IntervalEstimate
    """Time of one execution."""
    energy_j: float | None
    error: float | None
    workspace_bytes: int | None
    source: str
    case: str
    is_chosen: bool
    is_baseline: bool
    excluded: str | None
    """Why it could not be chosen."""


@dataclass(frozen=True)
class LayerConversion:
    """Time and energy of the activations of a layer into another form, or back."""

    name: str
    """``float_to_half``, ``nchw_to_nhwc``: before the layer into the form, after it out of it."""
    time_ns: float | None
    """Time of one execution, all activations together; None if one was not measured."""
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
    """``asked for``, ``the only one``, ``fastest here``, ``chosen for its neighbours`` …"""
    options: tuple[OptionRow, ...]
    """Sorted by time."""
    conversions: tuple[LayerConversion, ...] = ()


@dataclass(frozen=True)
class Missing:
    """A missing measurement, and the command line that performs it."""

    kind: MissingKind
    what: str
    command: str
    blocks: bool
    """True if the answer needs it; otherwise the answer is poorer without it."""


@dataclass(frozen=True)
class Ratios:
    """The named baseline over the chosen configuration."""

    time: IntervalEstimate
    energy: IntervalEstimate | None


@dataclass(frozen=True)
class Check:
    """A prediction beside the same pipeline measured for real."""

    engine: str
    cache: str
    source: str
    case: str
    measured: IntervalEstimate
    predicted: IntervalEstimate
    log_error: float
    """log(measured / predicted)."""
    holds: bool | None
    """True if the two differ by no more than both intervals together allow; None without a
    comparison."""
    energy_measured_j: float | None = None
    energy_predicted_j: float | None = None


@dataclass(frozen=True)
class Composition:
    pipeline: str
    path: str
    about: str
    series: str
    """``device_ns`` or ``e2e_ns``."""
    documents: tuple[str, ...]
    surroundings: TableSurroundings
    baseline_name: str
    choose: Objective | None
    limits: Mapping[str, float]
    fixed: Mapping[str, str]
    """Layer id to the configuration that was asked for."""
    optimal: bool | None
    """True if no other choice of these rows is better; None if nothing was chosen."""
    method: str
    """A sentence on the method of choosing and on what the interval includes."""
    interval: IntervalKind
    baseline: Configuration | None
    chosen: Configuration | None
    """None if rows are missing."""
    others: tuple[Configuration, ...]
    """Each engine's default variant throughout, for comparison; without parts."""
    ratios: Ratios | None
    layers: tuple[LayerChoice, ...]
    missing: tuple[Missing, ...]
    checks: tuple[Check, ...]
    remarks: tuple[str, ...]
    problems: tuple[str, ...]
    """Reasons for a missing answer."""

    @property
    def holds(self) -> bool:
        """False if a measurement lies outside of its prediction's interval."""
        return all(check.holds is not False for check in self.checks)
