"""The result document as values: what a run was, where it ran, and every sample it took.

Frozen dataclasses, no I/O. The JSON of a document has exactly these names. Times are integer
nanoseconds, ``None`` means "not known" (never zero), and a number that JSON cannot hold is spelled
``"NaN"``, ``"Infinity"`` or ``"-Infinity"`` where the type is `Real`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence  # noqa: TC003  annotations are read at run time
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_schema.provenance import (
    Cpu,
    Device,
    EngineRecord,
    Machine,
    Part,
    Revision,
    Run,
    Settings,
    Tool,
    Whole,
)
from bench_schema.tuning import Tuned  # noqa: TC001  annotations are read at run time

__all__ = [
    "COMPLETED",
    "INIT_PHASES",
    "PAID_ONCE",
    "SCHEMA_VERSION",
    "SERIES",
    "UNKNOWN_WORK",
    "Achieved",
    "Case",
    "Checks",
    "Cpu",
    "Device",
    "DeviceTiming",
    "Document",
    "EngineRecord",
    "GraphId",
    "Kernel",
    "Launch",
    "Machine",
    "Memory",
    "Mismatch",
    "Outcome",
    "OutputValidation",
    "Part",
    "Real",
    "Revision",
    "Round",
    "Run",
    "Samples",
    "Settings",
    "Status",
    "Summary",
    "Surroundings",
    "Telemetry",
    "Tool",
    "Validation",
    "Whole",
    "Work",
]

SCHEMA_VERSION = 3

Samples: TypeAlias = npt.NDArray[np.int64]
"""One series in time order: shape (iterations,), nanoseconds."""

Real: TypeAlias = float | Literal["NaN", "Infinity", "-Infinity"]

Status: TypeAlias = Literal["completed", "unsupported", "failed", "crashed", "timed out", "skipped"]
DeviceTiming: TypeAlias = Literal["gated events", "events", "kernel records", "queue difference"]
"""Events around each iteration, behind a closed gate or not; kernels as a profiler recorded them;
what one more execution adds to a queue."""

SERIES = ("device_ns", "e2e_ns", "submit_ns", "kernel_sum_ns", "kernel_span_ns")
"""Known series: device time by the stream's own clock, end to end (call, run, synchronise), and
the sum and the span of the kernels of one iteration as a profiler recorded them."""

INIT_PHASES = ("load_ns", "import_ns", "build_ns", "plan_ns", "search_ns", "first_run_ns")
"""Graph file to value; engine library; graph to the engine's form; plan, compilation, buffers and
inputs; where the library searches for the fastest way during a first execution, that one; first
execution else, synchronised. Their sum is the initialisation time of a case."""

PAID_ONCE = ("search_ns",)
"""Phases whose first value is their cost: later rounds find what it left in the library's cache."""


@dataclass(frozen=True, slots=True)
class GraphId:
    name: str
    path: str
    """Path that the user gave; a member of an archive is ``archive.tar.gz!member.json``."""
    sha256: str
    """Hash of the file's bytes."""
    fingerprint: str
    """Hash of the meaning: shapes, strides, types and parameters; names and uids do not matter."""
    family: str
    """Operation family, fused ones joined: ``conv_fwd+bias+relu``."""
    data_type: str
    """Type of the main operand, for tables."""
    layers: tuple[str, ...] = ()
    """Fingerprints of the graphs of a chain, in execution order."""
    op: str | None = None
    """Op spec that it was made from, as it was given; None for a graph that was read."""


@dataclass(frozen=True, slots=True)
class Outcome:
    status: Status
    reason: str | None = None
    """One sentence; always there unless completed."""
    phase: str | None = None
    """Step in which the case ended: load, import, build, plan, first_run, validate, warmup,
    measure."""
    detail: str | None = None
    """The last words of a worker, or the library's full message."""


COMPLETED = Outcome("completed")


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Readings of the device around a round; each value may be unknown."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    probed_clock_mhz: float | None = None
    """SM clock measured by a kernel that reads cycle and time counters."""
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checks:
    """Validation of samples of one round, outside the timed region. Each ran on inputs of its own.

    Parallel arrays, one entry for each iteration of the series that was checked.
    """

    iteration: tuple[int, ...]
    mismatched: tuple[int, ...]
    """Elements outside of the tolerance, all outputs together."""
    max_abs: tuple[Real, ...]
    checksum: tuple[str, ...]
    """Hash of the bytes of all outputs: equal hashes are equal results."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Other activity of the host and its devices while a round was measured."""

    window_s: float | None = None
    """Wall time that was watched."""
    others_cpu_s: float | None = None
    """Processor time of processes that are not this run's."""
    steal_s: float | None = None
    """Processor time that the hypervisor gave to other guests."""
    load: float | None = None
    """Mean number of processes that could run, over one minute."""
    involuntary_switches: int | None = None
    """Involuntary context switches of the measuring process."""
    cpu_clock_mhz: float | None = None
    cpu_temperature_c: float | None = None
    companions: tuple[str, ...] | None = None
    """Devices of the host on which this run measured at the same time: uuid, otherwise index."""
    device_processes: int | None = None
    """Processes of others that were on the device."""


@dataclass(frozen=True, slots=True)
class Extra:
    """A number of a person's own observer."""

    value: float
    better: Literal["lower", "higher"] = "lower"


@dataclass(frozen=True, eq=False, slots=True)
class Round:
    """One fresh visit to a case: the independent unit of the statistics."""

    index: int
    started: str
    pid: int
    position: int
    """Place of the case in the shuffled order of this round."""
    series: Mapping[str, Samples] = field(default_factory=dict)
    warmup: Mapping[str, Samples] = field(default_factory=dict)
    """Iterations before the samples, same names, never part of a statistic."""
    cut: Mapping[str, int] = field(default_factory=dict)
    """Number of leading samples of each series that MSER-5 counts as warm-up; the series keeps
    them."""
    not_warm: tuple[str, ...] = ()
    """Series that never got warm: the cut fell on the half-way mark."""
    checks: Checks | None = None
    executions_per_sample: int = 1
    """Each sample is the mean of so many executions, one after another."""
    device_correction_ns: float | None = None
    """Cost of the events, already subtracted from `device_ns`."""
    telemetry_before: Telemetry | None = None
    telemetry_after: Telemetry | None = None
    energy_j_per_iteration: float | None = None
    energy_window_s: float | None = None
    """Duration of the iterations whose energy was counted; these are not part of the samples."""
    notes: tuple[str, ...] = ()
    host: str | None = None
    device_uuid: str | None = None
    """The very unit that it was measured on: units of one kind are up to 18 % apart."""
    attempt: int | None = None
    """Earlier attempts at the round that ended with a lost worker or host."""
    device_timing: DeviceTiming | None = None
    """Method that measured `device_ns`."""
    device_bound_ns: float | None = None
    """Systematic error that `device_ns` may have, either way; no verdict rests on less."""
    inner_gap_ns: float | None = None
    """Average time from the end of one kernel to the start of the next within an execution;
    negative if they overlap. Present if kernel records fill `device_ns` of several kernels."""
    between_gap_ns: float | None = None
    """From one execution to the next: the same as within, except where each execution replays a
    device graph."""
    surroundings: Surroundings | None = None
    blocks: Mapping[str, Samples] = field(default_factory=dict)
    """Number of the first sample of each block, by series. Engines of a graph take turns block by
    block: blocks of one number in one round of a run lie within milliseconds of each other."""
    block_places: tuple[int, ...] = ()
    """Place of each block among those of all engines that were measured in the same turn."""
    placements: Mapping[str, Samples] = field(default_factory=dict)
    """Number of the first sample after each move of the case's buffers to another place in memory,
    by series."""
    secret: str | None = None
    """Source of the draws of the round: changes of its inputs, the bytes that were written into
    outputs, and places in memory."""
    checksum: str | None = None
    """Hash of the outputs on the usual inputs: equal hashes are equal results."""
    outside_ns: float | None = None
    """Time that an execution took at least by the clock of the run's own process."""
    extra: Mapping[str, Extra] = field(default_factory=dict)
    """Numbers of a person's own observers, by name."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of one series over all rounds, warm-up cut applied; times in nanoseconds."""

    count: int
    mean: float
    std: float | None
    """Sample standard deviation; unknown for a single sample."""
    min: float
    p5: float
    median: float
    p90: float
    p95: float
    p99: float
    max: float
    mad: float
    """Median absolute deviation from the median, not scaled."""
    median_ci_low: float | None
    median_ci_high: float | None
    """95 % confidence interval of the median (method: see `summary.py`)."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    index: tuple[int, ...]
    expected: Real
    actual: Real


@dataclass(frozen=True, slots=True)
class OutputValidation:
    uid: int
    name: str
    data_type: str
    elements: int
    mismatched: int
    max_abs: Real
    max_rel: Real
    relative_l2: Real
    rtol: float
    atol: float
    tolerance_source: str
    worst: tuple[Mismatch, ...]
    matched_ratio: float | None = None
    """Share of the elements within the tolerance, where ``--matched`` asks for one."""
    cosine: float | None = None
    """Σa·e / √(Σa²·Σe²), where ``--cosine`` asks for one."""


GOLDEN = "golden"
"""Reference of outputs that were compared with stored tensors."""


@dataclass(frozen=True, slots=True)
class Validation:
    status: Literal["passed", "failed", "not checked"]
    reference: str
    """Source of the expected outputs: ``numpy``, ``golden``, an engine's key, ``none``."""
    reason: str | None = None
    """Why it was not checked, or what is wrong, in a sentence."""
    outputs: tuple[OutputValidation, ...] = ()
    iterations_checked: int = 0
    iterations_mismatched: int = 0
    deterministic: bool | None = None
    """True if runs on the same inputs gave the same bytes; None below two of them."""
    iterations_poisoned: int | None = None
    """Checked iterations before which the outputs were overwritten: old results cannot pass."""
    inputs_unchanged: bool | None = None
    """True if the iterations left the inputs as they were."""
    reference_source: Literal["computed", "read"] | None = None
    """Origin of the float64 reference: computed by this run, or read from an earlier one's
    store."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work of the graph, computed from its shapes; unknown values stay None."""

    flops: int | None = None
    moved_bytes: int | None = None
    intensity: float | None = None
    """flops / moved_bytes."""


UNKNOWN_WORK = Work()


@dataclass(frozen=True, slots=True)
class Achieved:
    """Work over the median of `series`; unknown work gives unknown rates."""

    series: str
    tflops: float | None = None
    gbps: float | None = None
    ceiling_share: float | None = None
    """Share of the roofline at this intensity, between 0 and about 1."""


@dataclass(frozen=True, slots=True)
class Memory:
    peak_bytes: int | None = None
    """Most that the engine held at once: device allocator, otherwise growth of the process."""
    workspace_bytes: int | None = None
    buffer_bytes: int | None = None
    """Inputs and outputs."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch configuration of a kernel: its first launch in an iteration."""

    grid: tuple[int, int, int]
    """Blocks."""
    block: tuple[int, int, int]
    """Threads."""
    cluster: tuple[int, int, int]
    """Blocks that share memory; zeros: none."""
    registers: int
    """Registers of a thread."""
    static_shared_bytes: int
    dynamic_shared_bytes: int
    local_bytes: int | None = None
    """Local memory of a thread (spilled registers, arrays); None: not known."""
    occupancy_ratio: float | None = None
    """Warps that a multiprocessor can hold of those it has places for."""


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    name: str
    count: int
    """Launches in one iteration."""
    median_ns: float
    counters: Mapping[str, float] = field(default_factory=dict)
    launch: Launch | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """One graph on one engine in one run. A journal line holds one with the rounds it adds.

    What is not given is empty or not known.
    """

    id: str
    """Unique in the document."""
    graph: GraphId
    engine: str
    variant: Mapping[str, str] = field(default_factory=dict)
    outcome: Outcome = COMPLETED
    init: Mapping[str, Samples] = field(default_factory=dict)
    """Initialisation phases (`INIT_PHASES`), one value for each round."""
    rounds: Sequence[Round] = ()
    """A tuple, or `bench_schema.rounds.StoredRounds` of a document that was read."""
    summary: Mapping[str, Summary] = field(default_factory=dict)
    validation: Validation | None = None
    work: Work = UNKNOWN_WORK
    achieved: Achieved | None = None
    memory: Memory | None = None
    plan: Mapping[str, str] = field(default_factory=dict)
    """Choices of the engine: plan name, engine id that ran, math mode."""
    kernels: tuple[Kernel, ...] = ()
    stopped_by: str | None = None
    """Rule that ended the sampling: iterations, max time, precision, interrupted."""
    notes: tuple[str, ...] = ()
    implausible: str | None = None
    """A sentence on the limit of the machine that the time beats; None if it beats no known
    limit."""


@dataclass(frozen=True, eq=False, slots=True)
class Document:
    schema_version: int
    run: Run
    machine: Machine
    engines: tuple[EngineRecord, ...]
    cases: tuple[Case, ...]
    parts: tuple[Part, ...] = ()
    """The runs that were merged into this one; empty if it is a run of its own."""
    tuned: Tuned | None = None
    """Choices of a tuning, whose finalists are the cases."""


SPELLINGS: Mapping[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def spell(value: float) -> Real:
    """Return a number in the form of documents: NaN and the infinities by name."""
    value = float(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def unspell(value: Real) -> float:
    """Return the number from the form of documents."""
    return SPELLINGS[value] if isinstance(value, str) else value
