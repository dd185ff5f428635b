"""The protocols of an engine and its plans, and the records of what some can do beside.

Every engine, plan and stream (`streams/base.py`) satisfies a small protocol. Its `abilities` are a
frozen record of optional functions: None is an ability that it does not have. Records are made
when they are asked for, so that plans and the memory they hold are not tied to themselves.

The caller keeps every clock and every loop: an engine prepares a graph once and runs it many
times, and never times itself. Host data travels as storages (`tensors/layout.py`).

Errors. `UnsupportedGraphError` from `build` or `plan`: the graph is not for this engine.
`EngineError`: it failed. `EngineUnavailableError` from `open`: it cannot run on this machine. Every
exception of a foreign library becomes one of these in the engine's own file, its cause kept.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the fields' types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from bench_run.graph.model import Graph
    from bench_run.streams.base import Stream
    from bench_run.tensors.layout import Storage, Storages


FORKED = "BENCH_RUN_FORKED"
"""Variable: workers may be forked on a processor as well. Their address layout is then the same in
all rounds, which a final measurement avoids."""


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
    python: str | None = None
    """Python interpreter that its workers run on; None: that of the run."""
    knobs: Mapping[str, str] = field(default_factory=dict)
    """Knobs of this engine alone; the run puts them among its options."""


@dataclass(frozen=True)
class EngineOptions:
    """Choices that hold for every engine of a run."""

    device: int = 0
    near_device: bool = False
    """Whether workers keep to the processors of their device's NUMA node."""
    threads: int | None = None
    """Threads that an engine's libraries on the CPU start; None: as many as they like."""
    hold_threads: bool = False
    """True if an engine on the CPU is pinned to `threads` cores."""
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
    python: str | None = None
    """Python interpreter of its workers; None: that of the run."""
    prefix: str | None = None
    """Installation in which the engine's library is looked for."""


@dataclass(frozen=True)
class Availability:
    """Whether an engine can run here, and if not, why and how to get it."""

    ok: bool
    reason: str
    """``ok``: what was found (version, device). Else one sentence with the remedy."""


NVIDIA_DEVICES = "/dev/nvidia[0-9]*"


def probe_nvidia(module: str, package: str, called: str, install: str) -> Availability:
    """Report whether a package is installed and a device file exists; load neither. `called`: what
    messages call the package."""
    from glob import glob
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    if find_spec(module) is None:
        return Availability(False, f"{called} is not installed; {install}")
    try:
        release = version(package)
    except PackageNotFoundError:
        release = "of unknown version"
    if not glob(NVIDIA_DEVICES):
        why = f"is installed, but no NVIDIA GPU is visible on this machine ({NVIDIA_DEVICES})"
        return Availability(False, f"{called} {release} {why}")
    return Availability(True, f"{called} {release} and an NVIDIA GPU is visible")


@dataclass(frozen=True)
class EngineFacts:
    """What the document says of an engine (see `bench_schema.document.EngineRecord`)."""

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


@dataclass(frozen=True)
class Home:
    """Where a tensor lies: in the memory of a plan's tensor."""

    plan: Plan
    uid: int
    offset: int = 0
    """Elements after the start of that tensor."""


class Captured(Protocol):
    """Work of a device that was captured, to be launched as one."""

    def launch(self) -> None:
        """Enqueue it."""

    def again(self, work: Callable[[], None]) -> Captured:
        """Other work, captured in the same way."""

    def close(self) -> None:
        """Give it back."""


class LocateOutputs(Protocol):
    """The type of `PlanAbilities.locate_outputs`."""

    def __call__(self, *, upcoming: bool) -> Mapping[int, Storage | int]:
        """By uid, the memory of each output of the last run, or with `upcoming` that which the
        next run will write: in the host's memory a storage that shares it, else the address on the
        device. Empty where that is not known."""


class LocateInputs(Protocol):
    """The type of `PlanAbilities.locate_inputs`."""

    def __call__(self) -> Mapping[int, Storage | int]:
        """By uid, the memory from which the next run reads an input: in the host's memory a storage
        that shares it, else the address on the device. Inputs that lie elsewhere are left out."""


@dataclass(frozen=True)
class PlanAbilities:
    """What some plans can do."""

    locate_outputs: LocateOutputs | None = None
    """Tells where its outputs lie. Without it it cannot be seen whether each timed iteration wrote
    them; other iterations are checked in their place."""
    locate_inputs: LocateInputs | None = None
    """Tells where its inputs lie. Without it changed inputs are uploaded, so that runs on these
    follow a call that the engine sees."""
    changed_inputs: Callable[[Storages], tuple[int, ...]] | None = None
    """Uids of the inputs whose bytes on the device are no longer these, which were uploaded."""
    copy_inputs: Callable[[Any], None] | None = None
    """As `upload`, from another plan of its graph, by the same engine."""
    share: Callable[[Mapping[int, Home]], frozenset[int]] | None = None
    """From now on these tensors are read and written in the memory of other plans of its engine.
    Returns the uids for which that is so. Called before anything else, and once more for a case
    within a pass."""
    move: Callable[[int], None] | None = None
    """From now on its buffers begin so many bytes after where an allocator puts them. Called once,
    of a plan that is not captured and shares no memory; inputs are uploaded again."""
    relocate: Callable[[int], None] | None = None
    """From now on its buffers lie elsewhere, with their contents, behind a gap of so many bytes if
    the allocator leaves one. None for a plan that is captured or shares memory. `run` stays what it
    is."""
    searches: bool = False
    """Its first execution searches for the fastest way to run it, and is timed as a phase of its
    own."""
    witness: Callable[[], Mapping[str, str]] | None = None
    """What its library, which times executions by itself, says in words; asked after the samples:
    never one of them."""
    runs_of_parts: Callable[[], tuple[Callable[[], None], ...]] | None = None
    """What `run` of a plan made of plans calls, one after another."""
    keep: Callable[[], None] | None = None
    """What it enqueued was captured, maybe as a part: its results stay where they are."""
    replay: Callable[[Captured], None] | None = None
    """From now on `run` launches this, and `close` closes it."""
    captured: Callable[[], Captured | None] | None = None
    """What `run` launches; None: it was not captured."""
    uncaptured: Callable[[], AbstractContextManager[Callable[[], None]]] | None = None
    """Gives what enqueues one execution as it was before the capture; afterwards the results are
    those of the captured work again."""


class Plan(Protocol):
    """A graph compiled by an engine, with its buffers. One execution at a time."""

    @property
    def facts(self) -> PlanFacts:
        """Read after measuring: some things show only then."""

    @property
    def abilities(self) -> PlanAbilities:
        """What it can do beside."""

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


TraceEvent: TypeAlias = dict[str, Any]
"""A complete event of Chrome's trace format; instants in microseconds."""

KNOB_VARIANT = "knob:"
"""Before a knob's name in a variant: ``{"knob:TILE_SIZE": "2"}``."""


def knobs_of_variant(variant: Mapping[str, str]) -> dict[str, str]:
    """The knobs that a variant sets, by name."""
    found = (key for key in variant if key.startswith(KNOB_VARIANT))
    return {key.removeprefix(KNOB_VARIANT): variant[key] for key in found}


@dataclass(frozen=True)
class EngineAbilities:
    """What some engines can do."""

    choices: Callable[[Graph], Iterable[Mapping[str, str]]] | None = None
    """Lists what a person can choose from, as `bench-run engines GRAPH` shows it: engines or
    plans, best first, with their knobs."""
    alternatives: Callable[[Graph], Sequence[Mapping[str, str]]] | None = None
    """Variants worth trying for the best way to run a graph."""
    plans: Callable[[Graph], Sequence[Mapping[str, str]]] | None = None
    """A variant for each plan of the graph, in an order that is the same every time. The engine
    runs each beside its own choice, in one process: its `build` takes these variants whatever its
    id."""
    knob_values: Callable[[Graph, Mapping[str, str]], Mapping[str, tuple[str, ...]]] | None = None
    """By knob, the values that it takes, for the engine that the spec or the variant names. The
    engine takes them in a variant (`KNOB_VARIANT`)."""
    devices: int | None = None
    """How many accelerators ``--device`` chooses from; None: there is no choice, or the engine's id
    leaves none."""
    part: Callable[[object], Plan] | None = None
    """A plan of what was built that can be a part of a chain (see `engines/chain.py`): on one set
    of buffers whatever the cache state, neither captured nor run."""
    arrange: Callable[[Callable[[], Plan], Graph], Plan] | None = None
    """The plan that a function makes of parts, in the cache state of the run: made several times
    where copies take turns, run once, and captured where the run replays."""
    trace: Callable[[Plan, int], list[TraceEvent]] | None = None
    """What a profiler of the library's own recorded of so many iterations of a plan."""


class Engine(Protocol):
    """What every engine can do."""

    facts: EngineFacts
    stream: Stream

    @property
    def abilities(self) -> EngineAbilities:
        """What it can do beside."""

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


@dataclass(frozen=True)
class Oracle:
    """How a library is made to search for the fastest way to run a graph."""

    knob: str
    """The knob, as ``KEY=VALUE``, that makes it search."""
    searching_ids: tuple[str, ...]
    """Ids that search in any case: they have no default to compare with."""


@dataclass(frozen=True)
class ModuleAbilities:
    """What the modules of some engines have beside."""

    environment: Callable[[EngineSpec, EngineOptions], Mapping[str, str]] | None = None
    """Variables that the worker's process needs from its start: the library reads its settings
    from the environment when it loads."""
    preload: Callable[[EngineSpec], bool] | None = None
    """Imports the libraries in one process, without touching a device, to be used in forks of it.
    False: not for this spec, since its workers must be started afresh."""
    probe_id: Callable[[str], Availability] | None = None
    """As `probe`, for the spec ``NAME:identifier``."""
    lists_variants: bool = False
    """True if the variants of a graph are a case each for a specification without an id."""
    profiler: str | None = None
    """Its row of `profilers.PROFILERS`; None: NVIDIA's."""
    knobs: str | None = None
    """Where the names of the knobs come from, in a few words, of engines that take ``--knob``, or
    ``+knob:KEY=VALUE`` in their spec."""
    oracle: Oracle | None = None
    workspace: Callable[[Graph, EngineSpec, str], int] | None = None
    """Bytes that an execution takes at most beside inputs and outputs, in the memory of the device
    (the third value: ``cpu``, or as `EngineFacts.device` says), as it is estimated before any
    library is loaded. Without it there is a general rule (`bench_run/runner/memory.py`)."""


class EngineModule(Protocol):
    """A row of the ENGINES table, and what the entry-point group `bench_run.engines` loads.

    A module or object with these members; importing it must be cheap and import no GPU library.
    """

    NAME: str
    SUMMARY: str
    """One line for `bench-run engines`."""
    INSTALL: str
    """What to type to get it."""
    ABILITIES: ModuleAbilities

    def probe(self) -> Availability:
        """Whether it can run here, without running foreign code that the user did not name."""

    def open(self, spec: EngineSpec, options: EngineOptions) -> Engine:
        """Load the library and take the device.

        Raises `EngineUnavailableError`, and `UsageError` for an id or option it does not know.
        """
