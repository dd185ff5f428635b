"""Messages between a run and its worker processes: plain data (`wire.py` has them as bytes).

Requests go to the worker, one at a time. Each names the type of its answer, and gets either that
(`Answered`) or the error which stands in its way (`Refusal`). A worker that answers nothing is dead
or hung, and that is an outcome too (`parent/process.py`).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import msgspec
from bench_schema.document import Case, Checks, GraphId, Outcome, Validation, Work

from bench_run.engines.base import EngineFacts, EngineOptions, EngineSpec
from bench_run.errors import (
    EngineError,
    UnsupportedGraphError,
    message_of,
    optional_text,
)
from bench_run.graph.chain import PassContext
from bench_run.graph.model import Graph
from bench_run.measure.budget import Ceilings, SamplingBudget
from bench_run.streams.base import DeviceUse, Shared
from bench_run.tensors.data import Data
from bench_run.validate.settings import ValidationSettings

if TYPE_CHECKING:
    from bench_run.errors import BenchRunError

    AnyGraph: TypeAlias = Graph
else:

    class AnyGraph(ABC):  # noqa: B024 - a name for what `register` adds
        """A graph or a chain: `wire.py` tells them apart by their fields."""

    AnyGraph.register(Graph)

AnswerT = TypeVar("AnswerT")


class Request(msgspec.Struct, Generic[AnswerT], frozen=True):
    """A request to a worker; `AnswerT` is the type of its answer."""

    activity: ClassVar[str] = "listing"
    """Activity of the run until the answer comes, for `TimeBreakdown`."""


class Answered(msgspec.Struct, Generic[AnswerT], frozen=True):
    value: AnswerT
    worn: bool = False
    """Something that a new process has is lost in this one: it should serve no other request."""


class Refusal(msgspec.Struct, frozen=True):
    """The request cannot be met; the asking side raises `error`."""

    error: BenchRunError


class PhaseStarted(msgspec.Struct, frozen=True, tag=True):
    """Sent by the worker before each phase, so that a hang or a crash can be placed."""

    phase: str
    checked_ns: int = 0
    """Part of the phase that ends here which went into checking outputs."""


class Uncaught(msgspec.Struct, frozen=True, tag=True):
    """Sent by a worker that ends with an unexpected exception."""

    text: str
    """Its type and message, in one line."""


class Claim(msgspec.Struct, frozen=True, tag=True):
    """Wait until the device may be used otherwise than so far; asked where it is shared."""

    use: DeviceUse


class AskBlock(msgspec.Struct, frozen=True, tag=True):
    """Wait for the next block: its place among the sides that take one block each, given once no
    other side is measured; None after the last one."""

    enough: bool
    """True if it needs no further block."""


class AskRead(msgspec.Struct, frozen=True, tag=True):
    """Let another process read outputs from the device; False if it could not."""

    shared: Shared


class AskBurst(msgspec.Struct, frozen=True, tag=True):
    """Wait for the iterations that the run times next: their number, and what they are. For the
    fields see `measure.bursts.NextBurst`."""

    claimed_ns: float
    executions: int
    marked_ns: int | None
    doubt: str | None


Question: TypeAlias = Claim | AskBlock | AskRead | AskBurst
"""Question of a worker to its run while it is at work; answered by `Told`."""


class Told(msgspec.Struct, frozen=True):
    """Answer to a question, as plain data."""

    value: Any = None


class Close(msgspec.Struct, frozen=True):
    """Give everything back and end. Not answered."""


class Reply(msgspec.Struct, frozen=True, tag=True):
    """`Answered`, as it travels."""

    number: int
    """Number of the request."""
    value: msgspec.Raw
    """Answer of the request's own type."""
    worn: bool


class Refused(msgspec.Struct, frozen=True, tag=True):
    """`Refusal`, as it travels."""

    number: int
    kind: str
    """The error's class in `bench_run.errors`."""
    text: str
    fields: dict[str, str | None]


Outgoing: TypeAlias = Reply | Refused | PhaseStarted | Uncaught | Question
"""Messages from a worker."""


class EngineOpened(msgspec.Struct, frozen=True):
    facts: EngineFacts
    clock: str
    import_ns: int
    devices: int | None = None
    """Number of accelerators that the engine can choose from; None without a choice."""
    notes: tuple[str, ...] = ()
    """Notes on values that the engine reported of itself in a wrong form, which were left out or
    make it unusable."""


class Open(Request[EngineOpened], frozen=True):
    """Load the engine and take the device."""

    spec: EngineSpec
    options: EngineOptions


class RunCase(Request[Case], frozen=True):
    """Run one case for one round. The answer is the case with that one round, or with the reason
    why there is none."""

    activity = "building"

    case_id: str
    graph: AnyGraph
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
    """True if a pass after the samples counts the energy of an iteration."""
    observers: tuple[str, ...] = ()
    """Files that look at the round, too."""
    no_gate: str | None = None
    """Why the device's times are to be taken without a gate; None: with one if there is one."""
    shares_device: bool = False
    """True if other workers use the device: it is then claimed first (`Claim`)."""
    settle: str | None = None
    """Window of temperatures that is waited for."""
    placements: int = 1
    """Places in memory where the buffers lie, one after the other."""
    in_blocks: bool = False
    """True if it is measured in blocks that alternate with those of other sides (`AskBlock`)."""
    surroundings: PassContext | None = None
    """Layers that run before each iteration, as in a pass of the pipeline."""
    is_pass: bool = False
    """True if it leaves the caches in their state itself: nothing is touched before its
    iterations."""
    secret: str = ""
    """Source of the draws: changes of inputs, canaries and places."""
    outputs_file: str | None = None
    """File for its outputs (`tensors/slots.py`); None: they are not compared."""
    slots: int = 0
    """Number of slots in it."""
    strict: bool = False
    """True if outputs on a device are to be read by another process, where the device allows it."""
    outside: bool = False
    """True if the run is to time iterations by its own clock (`AskBurst`)."""


class KnobValues(Request[Mapping[str, tuple[str, ...]]], frozen=True):
    """List the values that knobs of the engine can take for a graph."""

    graph: AnyGraph
    variant: Mapping[str, str]


class Variants(Request[tuple[Mapping[str, str], ...]], frozen=True):
    """List the variants of a graph that are a case each."""

    graph: AnyGraph


class Plans(Request[tuple[Mapping[str, str], ...] | None], frozen=True):
    """List the plans of a graph that the engine runs beside its own choice; None if it cannot, or
    lists none."""

    graph: AnyGraph


class Choices(Request[tuple[Mapping[str, str], ...]], frozen=True):
    """List the choices for a graph, knobs included; the variants if the engine lacks such a
    list."""

    graph: AnyGraph


class Attempt(Request[None], frozen=True):
    """Prepare a graph and, with data, run it once."""

    activity = "trying"

    graph: AnyGraph
    data: Data | None = None
    variant: Mapping[str, str] = {}


class Evaluated(msgspec.Struct, frozen=True):
    """Origin of expected outputs."""

    source: Literal["computed", "read"] | None = None
    """Origin of the float64 reference: computed now, or read from an earlier run's store."""
    not_kept: str | None = None
    """Why they could not be kept for later runs."""
    damaged: bool = False
    """True if those of an earlier run were there and damaged."""
    sums: Mapping[str, str] = {}
    """Hash of each file in the folder, by name."""


class Evaluate(Request[Evaluated], frozen=True):
    """Compute the outputs once and store them as expected values in `folder`.

    With ``engine`` false the float64 reference computes; otherwise the worker's engine does.
    `kept`: the folder in which references are kept across runs, at most `kept_bytes` of them.
    `exact`: the graph that `graph` approximates; how far its outputs are off is stored, too.
    `math`: the mode in which the noise of the reference is measured.
    """

    activity = "reference"

    graph: AnyGraph
    data: Data
    folder: str
    engine: bool = False
    kept: str | None = None
    kept_bytes: int = 0
    write_golden: str | None = None
    stem: str = ""
    exact: AnyGraph | None = None
    math: str = "fp32"


class Judged(msgspec.Struct, frozen=True):
    """Judgement of a round's outputs."""

    validation: Validation
    checks: Checks | None
    checksum: str | None
    """Hash of the outputs on the usual inputs."""


class Judge(Request[Judged], frozen=True):
    """Compare the outputs that a round of a case left in a file (`RunCase.outputs_file`)."""

    activity = "validating"

    case_id: str
    graph: AnyGraph
    fingerprint: str
    data: Data
    settings: ValidationSettings
    secret: str
    outputs_file: str
    slots: int
    engine: bool = False
    """True if the worker's engine computes the reference."""
    samples: bool = True
    """False if only runs on the usual inputs are to be compared."""
    round_index: int = 0


class ReadDevice(Request[None], frozen=True):
    """Copy outputs from memory of a device into a round's file."""

    activity = "validating"

    graph: AnyGraph
    device: str
    """Uuid of the device."""
    shared: Shared
    outputs_file: str
    slots: int


class Trace(Request[None], frozen=True):
    """Run some iterations of a case under a tracer and leave their events in `folder`."""

    activity = "tracing"

    case_id: str
    graph: AnyGraph
    variant: Mapping[str, str]
    data: Data
    folder: str


READ = 2
"""Samples of a round whose outputs are read; of a device one of them in a block."""
FIRST, LAST, SAMPLES = 0, 1, 2
"""Slots of `RunCase.outputs_file`: of the first run, of the last one, and the first of samples."""
BURST = SAMPLES + READ
"""Slot of the last iteration that the run timed."""
NOT_CHECKED = "not checked: "
"""Words of a note on adversarial inputs if the reference or the comparison failed, and not the
engine."""


class Attacked(msgspec.Struct, frozen=True):
    """Results of a plan on adversarial inputs."""

    kinds: tuple[str, ...] = ()
    """Kinds on which it is right."""
    findings: tuple[str, ...] = ()
    """Kinds on which it is wrong, with the reason."""
    notes: tuple[str, ...] = ()
    deterministic: bool = True
    """False if two runs on the same inputs differ in a bit."""

    def with_kind(self, name: str) -> Attacked:
        return msgspec.structs.replace(self, kinds=(*self.kinds, name))

    def with_finding(self, text: str) -> Attacked:
        return msgspec.structs.replace(self, findings=(*self.findings, text))

    def with_note(self, text: str) -> Attacked:
        return msgspec.structs.replace(self, notes=(*self.notes, text))

    def as_varying(self) -> Attacked:
        return msgspec.structs.replace(self, deterministic=False)


class Attack(Request[Attacked], frozen=True):
    """Run a case on adversarial inputs, and compare the outputs."""

    activity = "adversarial inputs"

    case_id: str
    graph: AnyGraph
    variant: Mapping[str, str]
    data: Data
    math: str


class MeasureCeilings(Request[Ceilings], frozen=True):
    """Measure what the engine's device can do at most."""

    activity = "ceilings"


def case_of(request: RunCase, outcome: Outcome, **parts: Any) -> Case:
    """Return a `Case` of this request; what is not given is empty or unknown."""
    return Case(
        id=request.case_id,
        graph=request.graph_id,
        engine=request.engine,
        variant=request.variant,
        outcome=outcome,
        work=request.work,
        **{"notes": request.notes, **parts},
    )


def outcome_of(error: EngineError | UnsupportedGraphError | MemoryError, phase: str) -> Outcome:
    """Return the outcome of a case for an engine's error, whatever words it has."""
    message, detail = message_of(error), None
    if isinstance(error, UnsupportedGraphError):
        return Outcome("unsupported", message or "no reason was given", phase)
    if isinstance(error, EngineError):
        detail = optional_text(error.detail)
    elif not message:
        message = "out of memory on the host"
    return Outcome("failed", message or "no reason was given", phase, detail)
