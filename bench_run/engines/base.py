"""The protocols of an engine, its plans and its stream. Hardly any code.

The caller keeps every clock and every loop: an engine prepares a graph once and runs it many
times, and never times itself. Host data travels as storages (`tensors/storage.py`).

Errors. `UnsupportedGraphError` from `build` or `plan`: the graph is not for this engine.
`EngineError`: it failed. `EngineUnavailableError` from `open`: it cannot run on this machine. Every
exception of a foreign library becomes one of these in the engine's own file, its cause kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from bench_run.graph.model import Graph
    from bench_run.streams.base import Stream
    from bench_run.tensors.layout import Storage, Storages


@dataclass(frozen=True)
class EngineSpec:
    """``name[:id][+option…][+device=N][@plugin path]`` as values; see `engines/spec.py`."""

    text: str
    name: str
    id: str | None = None
    options: tuple[str, ...] = ()
    plugin_path: str | None = None
    device: int | None = None
    """Accelerator of this engine; None: that of the run. The run sees to it, not the engine."""
    threads: int | None = None
    """The same for processor threads."""
    knobs: Mapping[str, str] = field(default_factory=dict)
    """Knobs of this engine alone; the run puts them among its options."""


@dataclass(frozen=True)
class EngineOptions:
    """Choices that hold for every engine of a run."""

    device: int = 0
    near_device: bool = False
    """Whether workers keep to the processors of their device's NUMA node."""
    threads: int | None = None
    """Processor threads that an engine on the processor is held to; None: not held to a number."""
    math: str = "fp32"
    """``fp32`` (strict), ``tf32`` or ``fast``."""
    cache: str = "hot"
    pass_bytes: int | None = None
    """What a pass of the pipeline touches, in the cache state *pass*."""
    timer: str = "auto"
    """``events``, ``cupti``, ``host``; ``auto`` takes events where a device clock exists."""
    replay: bool = False
    knobs: Mapping[str, str] = field(default_factory=dict)
    plugin_paths: tuple[str, ...] = ()
    plugin_mode: str = "absolute"
    """``absolute``: only the named plugins; ``additive``: the installed ones too."""
    vendor_caches: str = "fresh"
    """``fresh``, ``shared`` (below `cache_dir`) or ``user``; see `engines/caches.py`."""
    cache_dir: str | None = None
    prefix: str | None = None
    """Installation in which the engine's library is looked for."""


@dataclass(frozen=True)
class Availability:
    """Whether an engine can run here, and if not, why and how to get it."""

    ok: bool
    reason: str
    """``ok``: what was found (version, device). Else one sentence with the remedy."""


@dataclass(frozen=True)
class EngineFacts:
    """What the document says of an engine (see `bench_schema.document.Engine`)."""

    id: str | None
    libraries: Mapping[str, str]
    device: str
    device_kind: str
    plugin_path: str | None = None
    plugin_sha256: str | None = None
    knobs: Mapping[str, str] = field(default_factory=dict)
    device_index: int | None = None
    """What ``--device`` calls it: as the engine's runtime counts the devices it shows."""
    abilities: Mapping[str, str] | None = None
    """What was found of the library's optional abilities, by name."""


@dataclass(frozen=True)
class PlanFacts:
    """What the engine chose for one graph: plan name, math mode, engine that really runs."""

    chosen: Mapping[str, str] = field(default_factory=dict)
    workspace_bytes: int | None = None
    buffer_bytes: int | None = None


class Plan(Protocol):
    """A graph compiled by an engine, with its buffers. One execution at a time."""

    @property
    def facts(self) -> PlanFacts:
        """Read after measuring: some things show only then."""

    def upload(self, inputs: Storages) -> None:
        """Copy the inputs into the plan's buffers."""

    def poison(self) -> None:
        """Fill every output buffer with bytes that are no result (NaN where the type has one)."""

    def run(self) -> None:
        """Enqueue one execution; returns without waiting where the engine can."""

    def download(self) -> dict[int, Storage]:
        """Wait, then copy the outputs (`Graph.outputs`) out, as storages by uid."""

    def close(self) -> None:
        """Give the buffers back."""


@runtime_checkable
class LocatesOutputs(Protocol):
    """Optional, of a plan: where its outputs lie. Without it it cannot be seen whether each timed
    iteration wrote them; other iterations are checked in their place."""

    def locate_outputs(self, *, upcoming: bool) -> Mapping[int, Storage | int]:
        """By uid, the memory of each output of the last run, or with `upcoming` that which the
        next run will write: in the host's memory a storage that shares it, else the address on the
        device. Empty where that is not known."""


@runtime_checkable
class KeepsInputs(Protocol):
    """Optional, of a plan: whether its inputs are still what was uploaded."""

    def changed_inputs(self, inputs: Storages) -> tuple[int, ...]:
        """Uids of the inputs whose bytes on the device are no longer these."""


@runtime_checkable
class CopiesInputs(Protocol):
    """Optional, of a plan: it takes its inputs from where another one of its graph has them."""

    def copy_inputs(self, other: Any) -> None:
        """As `upload`, from a plan of the same engine."""


@runtime_checkable
class SearchesInFirstRun(Protocol):
    """A plan whose first execution may search for the fastest way to run it."""

    searches: bool
    """Whether this one's does; it is timed as a phase of its own."""


@runtime_checkable
class SupportsWitness(Protocol):
    """A plan whose library times executions by itself."""

    def witness(self) -> Mapping[str, str]:
        """What it says, in words, asked after the samples: never one of them."""


@dataclass(frozen=True)
class Home:
    """Where a tensor lies: in the memory of a plan's tensor."""

    plan: Plan
    uid: int
    offset: int = 0
    """Elements after the start of that tensor."""


@runtime_checkable
class SharesMemory(Protocol):
    """Optional, of a plan: its tensors may lie in the memory of other plans of its engine."""

    def share(self, homes: Mapping[int, Home]) -> frozenset[int]:
        """From now on these tensors are read and written there. Returns the uids for which that is
        so. Called before anything else, and once more for a case within a pass."""


class Captured(Protocol):
    """Work of a device that was captured, to be launched as one."""

    def launch(self) -> None:
        """Enqueue it."""

    def again(self, work: Callable[[], None]) -> Captured:
        """Other work, captured in the same way."""

    def close(self) -> None:
        """Give it back."""


@runtime_checkable
class Replayable(Protocol):
    """Optional, of a plan: what it runs can be replaced by its captured form."""

    def keep(self) -> None:
        """What it enqueued was captured, maybe as a part: its results stay where they are."""

    def replay(self, captured: Captured) -> None:
        """From now on `run` launches this, and `close` closes it."""


@runtime_checkable
class RunsUncaptured(Protocol):
    """Optional, of a plan that can be captured: its work as it was before."""

    captured: Captured | None
    """What `run` launches; None: it was not captured."""

    def uncaptured(self) -> AbstractContextManager[Callable[[], None]]:
        """What enqueues one execution; afterwards the results are those of the captured work
        again."""


class Engine(Protocol):
    """What every engine can do; the protocols named `Supports…` below are what some can do.

    An engine of ours names its abilities as base classes, so that a misspelt one is a type error;
    one of a third party may just have the members.
    """

    facts: EngineFacts
    stream: Stream

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """The variants of this engine for a graph, each a case; ``({},)`` for just one."""

    def build(self, graph: Graph, variant: Mapping[str, str]) -> object:
        """The graph in the engine's own form. Refuses here what it cannot express."""

    def plan(self, built: object) -> Plan:
        """Compile, choose, allocate: everything before the first run."""

    def peak_bytes(self) -> int | None:
        """Most device memory held since `build`; None where the engine cannot tell."""

    def close(self) -> None:
        """Give everything back."""


@runtime_checkable
class SupportsChoices(Protocol):
    """An engine that lists what a person can choose from."""

    def choices(self, graph: Graph) -> Iterable[Mapping[str, str]]:
        """What `bench-run engines GRAPH` shows: engines or plans, best first, with their knobs."""


@runtime_checkable
class SupportsAlternatives(Protocol):
    """An engine that has several ways to run a graph."""

    def alternatives(self, graph: Graph) -> Sequence[Mapping[str, str]]:
        """Variants worth trying for the best one."""


@runtime_checkable
class ListsPlans(Protocol):
    """An engine that runs each of its plans beside its own choice, in one process: its `build`
    takes these variants whatever its id."""

    def plans(self, graph: Graph) -> Sequence[Mapping[str, str]]:
        """A variant for each plan of the graph, in an order that is the same every time."""


KNOB_VARIANT = "knob:"
"""Before a knob's name in a variant: ``{"knob:TILE_SIZE": "2"}``."""


def knobs_of_variant(variant: Mapping[str, str]) -> dict[str, str]:
    """The knobs that a variant sets, by name."""
    found = (key for key in variant if key.startswith(KNOB_VARIANT))
    return {key.removeprefix(KNOB_VARIANT): variant[key] for key in found}


@runtime_checkable
class ListsKnobValues(Protocol):
    """An engine that knows which values its knobs take, and takes them in a variant
    (`KNOB_VARIANT`)."""

    def knob_values(
        self, graph: Graph, variant: Mapping[str, str]
    ) -> Mapping[str, tuple[str, ...]]:
        """By knob, for the engine that the spec or the variant names."""


@runtime_checkable
class SupportsDevices(Protocol):
    """An engine that runs on one of several accelerators."""

    devices: int | None
    """How many ``--device`` chooses from; None: the engine's id leaves no choice."""


@runtime_checkable
class SupportsParts(Protocol):
    """An engine whose plans can be parts of a chain (see `engines/chain.py`)."""

    def part(self, built: object) -> Plan:
        """A plan on one set of buffers whatever the cache state, neither captured nor run."""

    def arrange(self, make: Callable[[], Plan], graph: Graph) -> Plan:
        """The plan that `make` makes of parts, in the cache state of the run: made several times
        where copies take turns, run once, and captured where the run replays."""


TraceEvent: TypeAlias = dict[str, Any]
"""A complete event of Chrome's trace format; instants in microseconds."""


@runtime_checkable
class SupportsTrace(Protocol):
    """An engine whose library has a profiler of its own."""

    def trace(self, plan: Plan, iterations: int) -> list[TraceEvent]:
        """What it recorded of some iterations of the plan."""


@runtime_checkable
class SupportsKnobs(Protocol):
    """An engine's module whose engines take ``--knob``, or ``+knob:KEY=VALUE`` in their spec."""

    KNOBS: str
    """Where the names of the knobs come from, in a few words."""


@runtime_checkable
class SupportsOracle(Protocol):
    """An engine's module whose library can search for the fastest way to run a graph."""

    ORACLE_KNOB: str
    """The knob, as ``KEY=VALUE``, that makes it search."""
    SEARCHING_IDS: tuple[str, ...]
    """Ids that search in any case: they have no default to compare with."""


class EngineModule(Protocol):
    """A row of the ENGINES table, and what the entry-point group `bench_run.engines` loads.

    A module or object with these members; importing it must be cheap and import no GPU library.
    """

    NAME: str
    SUMMARY: str
    """One line for `bench-run engines`."""
    INSTALL: str
    """What to type to get it."""

    def probe(self) -> Availability:
        """Whether it can run here, without running foreign code that the user did not name."""

    def open(self, spec: EngineSpec, options: EngineOptions) -> Engine:
        """Load the library and take the device.

        Raises `EngineUnavailableError`, and `UsageError` for an id or option it does not know.
        """


@runtime_checkable
class SupportsEnvironment(Protocol):
    """An engine's module whose library reads its settings from the environment when it loads."""

    def environment(self, spec: EngineSpec, options: EngineOptions) -> Mapping[str, str]:
        """Variables that the worker's process needs from its start."""


@runtime_checkable
class SupportsFork(Protocol):
    """An engine's module whose libraries may be imported in one process and used in forks of it."""

    def preload(self, spec: EngineSpec) -> bool:
        """Import them without touching a device. False: not for this spec, since its workers must
        be started afresh."""


@runtime_checkable
class SupportsIdProbe(Protocol):
    """An engine's module that knows of each id whether it can run here."""

    def probe_id(self, identifier: str) -> Availability:
        """As `probe`, for the spec ``NAME:identifier``."""


@runtime_checkable
class NamesProfiler(Protocol):
    """An engine's module that names its row of `profilers.PROFILERS`; without one: NVIDIA's."""

    PROFILER: str
