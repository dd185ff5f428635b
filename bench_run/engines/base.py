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
    """True if workers stay on the processors of their device's NUMA node."""
    threads: int | None = None
    """Threads that an engine's libraries on the CPU start; None: as many as they like."""
    hold_threads: bool = False
    """True if an engine on the CPU is pinned to `threads` cores."""
    math: str = "fp32"
    """``fp32`` (strict), ``tf32`` or ``fast``."""
    cache: str = "hot"
    pass_bytes: int | None = None
    """Bytes that a pass of the pipeline touches, for the cache state *pass*."""
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
    """Availability of an engine here; if it cannot run, the reason and a remedy."""

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
    """Facts of an engine for the document (see `bench_schema.document.EngineRecord`)."""

    id: str | None
    libraries: Mapping[str, str]
    device: str
    device_kind: str
    plugin_path: str | None = None
    plugin_sha256: str | None = None
    knobs: Mapping[str, str] = field(default_factory=dict)
    device_index: int | None = None
    """Index for ``--device``, in the order of the engine's runtime."""
    abilities: Mapping[str, str] | None = None
    """Answer for each optional ability of the library, by name: ``yes`` or ``no``."""


@dataclass(frozen=True)
class PlanFacts:
    """Choices of the engine for one graph: plan name, math mode, engine that runs."""

    chosen: Mapping[str, str] = field(default_factory=dict)
    workspace_bytes: int | None = None
    buffer_bytes: int | None = None


@dataclass(frozen=True)
class Home:
    """Place of a tensor: the memory of a plan's tensor."""

    plan: Plan
    uid: int
    offset: int = 0
    """Elements after the start of that tensor."""


class Captured(Protocol):
    """Work of a device that was captured, to be launched as one."""

    def launch(self) -> None:
        """Enqueue it."""

    def again(self, work: Callable[[], None]) -> Captured:
        """Capture other work in the same way."""

    def close(self) -> None:
        """Give it back."""


class LocateOutputs(Protocol):
    """The type of `PlanAbilities.locate_outputs`."""

    def __call__(self, *, upcoming: bool) -> Mapping[int, Storage | int]:
        """Return the memory of each output of the last run by uid, or with `upcoming` of the next
        run: in host memory a storage that shares it, otherwise the address on the device. Empty if
        unknown."""


class LocateInputs(Protocol):
    """The type of `PlanAbilities.locate_inputs`."""

    def __call__(self) -> Mapping[int, Storage | int]:
        """Return the memory from which the next run reads each input, by uid: in host memory a
        storage that shares it, otherwise the address on the device. Inputs elsewhere are left
        out."""


@dataclass(frozen=True)
class PlanAbilities:
    """Optional abilities of a plan."""

    locate_outputs: LocateOutputs | None = None
    """Tells where its outputs lie. Without it it cannot be seen whether each timed iteration wrote
    them; other iterations are checked in their place."""
    locate_inputs: LocateInputs | None = None
    """Tells where its inputs lie. Without it changed inputs are uploaded, so that runs on these
    follow a call that the engine sees."""
    changed_inputs: Callable[[Storages], tuple[int, ...]] | None = None
    """Return the uids of inputs whose bytes on the device differ from these, which were
    uploaded."""
    copy_inputs: Callable[[Any], None] | None = None
    """Do what `upload` does, from another plan of the same graph and engine."""
    share: Callable[[Mapping[int, Home]], frozenset[int]] | None = None
    """Read and write these tensors in the memory of other plans of the engine from now on. Returns
    the uids for which that succeeded. Called before anything else, and again for a case within a
    pass."""
    move: Callable[[int], None] | None = None
    """Move the start of its buffers this many bytes after an allocator's address. Called once, for
    a plan that is not captured and shares no memory; inputs are uploaded again."""
    relocate: Callable[[int], None] | None = None
    """Move its buffers with their contents to other memory, behind a gap of this many bytes if the
    allocator leaves one. None for a plan that is captured or shares memory. `run` does not
    change."""
    searches: bool = False
    """Its first execution searches for the fastest way to run it, and is timed as a phase of its
    own."""
    witness: Callable[[], Mapping[str, str]] | None = None
    """Return, in words, the executions that its library timed itself. Called after the samples, of
    which it is not one."""
    runs_of_parts: Callable[[], tuple[Callable[[], None], ...]] | None = None
    """Return the calls that `run` of a plan made of plans makes, in order."""
    keep: Callable[[], None] | None = None
    """Keep results in place from now on: its work was captured, alone or as a part of another
    plan's."""
    replay: Callable[[Captured], None] | None = None
    """Make `run` launch this capture from now on; `close` then closes it."""
    captured: Callable[[], Captured | None] | None = None
    """Return the capture that `run` launches; None if there is none."""
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
        """Optional abilities of the plan."""

    def upload(self, inputs: Storages) -> None:
        """Copy the inputs into the plan's buffers."""

    def poison(self) -> None:
        """Fill every output buffer with bytes that are not a result (NaN if the type has one)."""

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
    """Return the knobs that a variant sets, by name."""
    found = (key for key in variant if key.startswith(KNOB_VARIANT))
    return {key.removeprefix(KNOB_VARIANT): variant[key] for key in found}


@dataclass(frozen=True)
class EngineAbilities:
    """Optional abilities of an engine."""

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
    """Return the values that each knob takes, for the engine of the spec or the variant. The engine
    takes them in a variant (`KNOB_VARIANT`)."""
    devices: int | None = None
    """Number of accelerators that ``--device`` chooses from; None without a choice, or if the
    engine's id makes it."""
    part: Callable[[object], Plan] | None = None
    """A plan of what was built that can be a part of a chain (see `engines/chain.py`): on one set
    of buffers whatever the cache state, neither captured nor run."""
    arrange: Callable[[Callable[[], Plan], Graph], Plan] | None = None
    """The plan that a function makes of parts, in the cache state of the run: made several times
    where copies take turns, run once, and captured where the run replays."""
    trace: Callable[[Plan, int], list[TraceEvent]] | None = None
    capture: Callable[[Callable[[], None]], Captured] | None = None
    """Capture what a function enqueues, without running it. Raises `EngineError`."""
    """Return the library's own profile of this many iterations of a plan."""


class Engine(Protocol):
    """Methods of every engine."""

    facts: EngineFacts
    stream: Stream

    @property
    def abilities(self) -> EngineAbilities:
        """Optional abilities of the engine."""

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """Return the variants of this engine for a graph, each a case; ``({},)`` for just one."""

    def build(self, graph: Graph, variant: Mapping[str, str]) -> object:
        """Return the graph in the engine's own form. Refuses here what it cannot express."""

    def plan(self, built: object) -> Plan:
        """Compile, choose, allocate: everything before the first run."""

    def peak_bytes(self) -> int | None:
        """Return the most device memory held since `build`, in bytes; None if the engine cannot
        tell."""

    def close(self) -> None:
        """Give everything back."""


@dataclass(frozen=True)
class Oracle:
    """Settings that make a library search for the fastest way to run a graph."""

    knob: str
    """The knob, as ``KEY=VALUE``, that makes it search."""
    searching_ids: tuple[str, ...]
    """Ids that search in any case: they have no default to compare with."""


@dataclass(frozen=True)
class ModuleAbilities:
    """Optional members of engine modules."""

    environment: Callable[[EngineSpec, EngineOptions], Mapping[str, str]] | None = None
    """Variables that the worker's process needs from its start: the library reads its settings
    from the environment when it loads."""
    preload: Callable[[EngineSpec], bool] | None = None
    """Imports the libraries in one process, without touching a device, to be used in forks of it.
    False: not for this spec, since its workers must be started afresh."""
    runs_on_host: bool = False
    """True if its workers are forked only where a processor's may be (`FORKED`)."""
    probe_id: Callable[[str], Availability] | None = None
    """Return the availability, as `probe`, for the spec ``NAME:identifier``."""
    lists_variants: bool = False
    """True if the variants of a graph are a case each for a specification without an id."""
    profiler: str | None = None
    """Its row of `profilers.PROFILERS`; None: NVIDIA's."""
    knobs: str | None = None
    """Origin of the knobs' names, in a few words, for engines that take ``--knob``, or
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
    """Command that installs it."""
    ABILITIES: ModuleAbilities

    def probe(self) -> Availability:
        """Return the availability here, without running foreign code that the user did not name."""

    def open(self, spec: EngineSpec, options: EngineOptions) -> Engine:
        """Load the library and take the device.

        Raises `EngineUnavailableError`, and `UsageError` for an id or option it does not know.
        """
