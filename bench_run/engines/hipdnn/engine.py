"""The engine: an open handle, its stream, and how graphs become plans."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_run.engines.arrange import ROTATE, WEIGHTS_COLD, arrange, copies
from bench_run.engines.base import (
    EngineAbilities,
    EngineFacts,
    PlanFacts,
    knobs_of_variant,
)
from bench_run.engines.hipdnn.choosing import (
    Chooser,
    EngineChoice,
    Selection,
    all_values,
    descriptions,
    offered,
    parse_choice,
)
from bench_run.engines.hipdnn.dialect import deserialise, refuse_undefined, refuse_unwritable
from bench_run.engines.hipdnn.plan import Buffers, Compiled, HipdnnPlan, buffer_bytes
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.graph.chain import weights_of
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.text import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_run.engines.base import EngineOptions, Plan
    from bench_run.engines.hipdnn.loading import Library
    from bench_run.graph.model import Graph
    from bench_run.streams.base import Stream
    from bench_run.streams.hip import HipStream


# ``hipdnn:autotune``: hipDNN's own tuner picks the plan, and its claimed times stand beside ours.
#
# Of its two tuners this is `Graph.autotune` over every engine that takes the graph, in its standard
# mode; the exhaustive sweep is not used. It executes the graph many times before anything is
# measured here. A time that it reports is from its own clock and rules: it is recorded as
# text and never becomes a sample.

TUNER, SIZE = "Graph.autotune", "Graph.get_estimated_max_workspace_size"
HOW = f"{TUNER}, standard mode, over every engine that takes the graph"
SEED = 0
LEAST_BYTES = 1 << 20
"""hipDNN's estimate of the workspace is a lower bound: twice that, and no less than this."""


def autotune(
    library: Library, native: Any, handle: Any, buffers: Buffers, graph: Graph
) -> tuple[int, dict[str, str]]:
    """Let hipDNN tune, on seeded inputs; its winner stays active on the graph. Return the id of the
    engine that it reports as fastest, and its report on the candidates."""
    buffers.upload(make_inputs(graph, SEED))
    with library.calling(SIZE):
        size = max(2 * int(native.get_estimated_max_workspace_size()), LEAST_BYTES)
    with library.calling(f"DeviceBuffer of {size} bytes for the tuner's workspace"):
        workspace = library.module.DeviceBuffer(size)
        pointer = int(workspace.ptr())
    with library.calling(TUNER):
        results = list(native.autotune(handle, buffers.pack, pointer, workspace_size=size))
    if not results:
        raise UnsupportedGraphError(f"hipdnn: {TUNER}: no candidates: no engine took the graph")
    done = sorted((row for row in results if _is_measured(row)), key=lambda row: row.rank)
    if not done:
        raise EngineError(f"hipdnn: {TUNER}: none of {len(results)} candidates succeeded")
    texts = [_claim(result) for result in done]
    claims = {
        "autotune's winner claims": texts[0],
        "autotune's candidates": f"{len(results)}, of which {len(done)} were timed",
    }
    if len(texts) > 1:
        claims["autotune's others claim"] = "; ".join(texts[1:])
    return done[0].engine_id, claims


def hold_winner(winner: int, running: int, chooser: Chooser) -> None:
    """Raise `EngineError` if another engine is active than the one that hipDNN reports as fastest:
    the reported time would be that of another engine."""
    if winner != running:
        claimed, real = chooser.name_of(winner), chooser.name_of(running)
        raise EngineError(
            f"hipdnn: {TUNER} names {claimed} its winner, and {real} is active after it; not "
            "measured under the wrong name"
        )


def _is_measured(result: Any) -> bool:
    """Return True if it was timed: rows of candidates that were left out have rank and time 0."""
    tried = result.succeeded and result.benchmarked and not result.excluded_by_caller
    return bool(tried and result.rank >= 0)


def _claim(result: Any) -> str:
    """Return the engine with its least and mean time."""
    least, mean = (time_text(ms * 1e6) for ms in (result.min_time_ms, result.avg_time_ms))
    return f"{result.engine_name or result.engine_id}, least {least}, mean {mean}"


class Phases:
    """Nanoseconds by name, in the order of the steps."""

    def __init__(self, before: Phases | None = None) -> None:
        self.ns: dict[str, int] = {} if before is None else dict(before.ns)

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        begin = time.perf_counter_ns()
        yield
        self.ns[name] = time.perf_counter_ns() - begin

    def text(self) -> str:
        return ", ".join(f"{name} {time_text(value)}" for name, value in self.ns.items())


CAPTURE = "SUPPORTS_GRAPH_CAPTURE"
"""The behaviour note of engines whose work can be captured and replayed."""
BENCHMARKING, FORCED = "global.benchmarking", "HIPDNN_FORCE_BENCHMARKING"
TRUE = ("1", "true", "on", "yes", "enable", "enabled")
"""Values of a variable that hipDNN reads as yes."""
CACHE_BYTES = 1 << 28
"""The largest last-level cache there is (MI300)."""


@dataclass(frozen=True)
class Opened:
    """Everything that opening the engine gave."""

    library: Library
    handle: Any
    stream: HipStream
    choice: EngineChoice
    options: EngineOptions
    facts: EngineFacts
    phases: Phases
    devices: int
    """Number of devices that HIP had when the engine took its own."""


@dataclass(frozen=True)
class CompiledGraph:
    """Result of compiling, with its facts for the document."""

    compiled: Compiled
    chosen: Mapping[str, str]
    workspace_bytes: int


@dataclass(frozen=True)
class PreparedGraph:
    """hipDNN's graph with its plans made, not yet compiled."""

    graph: Graph
    native: Any
    selection: Selection
    phases: Phases


class HipdnnEngine:
    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._chooser = Chooser(opened.library, opened.handle)
        self._parts: dict[int, tuple[PreparedGraph, CompiledGraph]] = {}
        self.facts = opened.facts
        self.stream: Stream = opened.stream

    @property
    def abilities(self) -> EngineAbilities:
        return EngineAbilities(
            choices=self.choices,
            plans=self.plans,
            knob_values=self.knob_values,
            devices=self._opened.devices,
            part=self.part,
            arrange=self.arrange,
        )

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """Return the variants; with ``all`` one for each engine that accepts the graph."""
        return self.plans(graph) if self._opened.choice.every else ({},)

    def plans(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """Return one plan for each engine that accepts the graph."""
        native = self._operation_graph(graph, Phases())
        return tuple({"engine": self._chooser.name_of(i)} for i in self._chooser.ranked(native))

    def choices(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """Return the engines that accept the graph, best first, with hipDNN's notes and their
        knobs."""
        native = self._operation_graph(graph, Phases())
        found = []
        for engine in self._chooser.ranked(native):
            row = {"engine": self._chooser.name_of(engine), "id": str(engine)}
            row["notes"] = " ".join(self._chooser.notes(native, engine)) or "none"
            found.append({**row, **descriptions(offered(self._opened.library, native, engine))})
        return tuple(found)

    def knob_values(
        self, graph: Graph, variant: Mapping[str, str]
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the values of knobs of the engine that the spec or the variant names."""
        choice = self._choice(variant)
        if choice.id is None:
            raise UnsupportedGraphError("hipdnn: name the engine whose knobs are varied: hipdnn:ID")
        native = self._operation_graph(graph, Phases())
        return all_values(offered(self._opened.library, native, choice.id))

    def build(self, graph: Graph, variant: Mapping[str, str]) -> PreparedGraph:
        refuse_unwritable(graph)
        refuse_undefined(graph)
        choice = self._choice(variant)
        phases = Phases(self._opened.phases)
        native = self._operation_graph(graph, phases, choice)
        if choice.tuned or choice.every:
            accepting = self._chooser.ranked(native)
            if choice.every or not accepting:  # each of them is a variant: here is none
                why = self._chooser.why_none or "its engines were not listed"
                raise UnsupportedGraphError(f"hipdnn: no engine accepts this graph: {why}")
        if choice.tuned:
            library = self._opened.library
            library.step(native, "add_all_engines", library.modes)
            return PreparedGraph(graph, native, Selection(None, HOW), phases)
        with phases.time("plans"):
            knobs = {**self._opened.options.knobs, **knobs_of_variant(variant)}
            selection = self._chooser.select(native, choice, knobs)
        with phases.time("support"):
            self._opened.library.step(native, "check_support")
        return PreparedGraph(graph, native, selection, phases)

    def _choice(self, variant: Mapping[str, str]) -> EngineChoice:
        return parse_choice(variant["engine"]) if "engine" in variant else self._opened.choice

    def _operation_graph(
        self, graph: Graph, phases: Phases, choice: EngineChoice | None = None
    ) -> Any:
        free = choice is not None and choice.id is None
        with phases.time("deserialise"):
            native = deserialise(self._opened.library, graph, keep_preference=free)
        with phases.time("validate"):
            self._opened.library.step(native, "validate")
        with phases.time("operation graph"):
            self._opened.library.step(native, "build_operation_graph", self._opened.handle)
        return native

    def plan(self, built: object) -> HipdnnPlan:
        assert isinstance(built, PreparedGraph)
        with built.phases.time("buffers"):
            first = Buffers(self._opened.library, built.graph)
        compiled = self._compile(built, first)
        with built.phases.time("copies"):
            sets = [first, *self._copies(built.graph, first)]
        plan = self._executable(built, compiled, sets)
        if self._opened.options.replay:
            plan.capture()
        return plan

    def part(self, built: object) -> Plan:
        """Make a plan that shares the compiled graph with others of its graph."""
        assert isinstance(built, PreparedGraph)
        buffers = Buffers(self._opened.library, built.graph)
        if id(built) not in self._parts:
            self._parts[id(built)] = built, self._compile(built, buffers)
        return self._executable(built, self._parts[id(built)][1], [buffers])

    def arrange(self, make: Callable[[], Plan], graph: Graph) -> Plan:
        if self._opened.options.replay:
            raise UnsupportedGraphError("hipdnn: --replay: single graphs only, no chains")
        self._parts.clear()
        cache = self._opened.options.cache
        return arrange(make, graph, cache, CACHE_BYTES, lambda p: self._opened.stream.attach(p.run))

    def _compile(self, built: PreparedGraph, buffers: Buffers) -> CompiledGraph:
        """Compile the graph; `buffers` are the memory on which a tuner runs candidates."""
        native, phases, opened = built.native, built.phases, self._opened
        winner: int | None = None
        claims: dict[str, str] = {}
        with phases.time("build"):
            if opened.choice.tuned:
                winner, claims = autotune(
                    opened.library, native, opened.handle, buffers, built.graph
                )
            else:
                opened.library.step(native, "build_plans")
        engine = self._chooser.confirm(native, built.selection)
        if opened.options.replay and CAPTURE not in self._chooser.notes(native, engine):
            raise UnsupportedGraphError(
                f"hipdnn: --replay: {self._chooser.name_of(engine)} does not note {CAPTURE}"
            )
        if winner is not None:
            hold_winner(winner, engine, self._chooser)
        with phases.time("workspace"):
            workspace_bytes, workspace = self._workspace(native)
        chosen = {**self._chosen(built, engine), **claims}
        compiled = Compiled(opened.library, native, opened.handle, workspace)
        return CompiledGraph(compiled, chosen, workspace_bytes)

    def _executable(
        self, built: PreparedGraph, made: CompiledGraph, sets: Sequence[Buffers]
    ) -> HipdnnPlan:
        held = sum(buffers.bytes for buffers in sets)
        facts = PlanFacts(made.chosen, made.workspace_bytes, held)
        # The first call looks for the fastest algorithm. The knob is a whole number.
        forced = os.environ.get(FORCED, "").strip().lower() in TRUE
        searches = forced or int(built.selection.knobs.get(BENCHMARKING, "0"), 0) != 0
        return HipdnnPlan(made.compiled, sets, facts, self._opened.stream, searches=searches)

    def _workspace(self, native: Any) -> tuple[int, Any]:
        library = self._opened.library
        with library.calling("Graph.get_workspace_size"):
            size = int(native.get_workspace_size())
        if size == 0:
            return 0, None
        with library.calling(f"DeviceBuffer of {size} bytes for the workspace"):
            return size, library.module.DeviceBuffer(size)

    def _copies(self, graph: Graph, first: Buffers) -> Iterator[Buffers]:
        """Yield further sets of buffers, so many that no cache holds them all: of every tensor, or
        with *weights-cold* of the weights alone."""
        library, cache = self._opened.library, self._opened.options.cache
        if cache == ROTATE:
            for _ in range(copies(first.bytes, CACHE_BYTES) - 1):
                yield Buffers(library, graph)
        weights = weights_of(graph)
        if cache == WEIGHTS_COLD and weights:
            held = sum(buffer_bytes(graph.by_uid[uid]) for uid in weights)
            for _ in range(copies(held, CACHE_BYTES) - 1):
                yield Buffers(library, graph, first, weights)

    def _chosen(self, built: PreparedGraph, engine: int) -> dict[str, str]:
        """Return the plan's facts for the document, as text."""
        selection, native, chooser = built.selection, built.native, self._chooser
        found = {"selection": selection.how, "attribution": "confirmed"}
        found |= {"engine": chooser.name_of(engine), "engine_id": str(engine)}
        found["engine name"] = chooser.lie_of(engine) or ""
        if selection.wanted is None and built.graph.preferred_engine_id is not None:
            found["preferred_by_file"] = chooser.name_of(built.graph.preferred_engine_id)
        found["plan"] = chooser.plan_name(native)
        found["notes"] = ", ".join(chooser.notes(native, engine))
        found.update({f"knob {name}": value for name, value in selection.knobs.items()})
        found["init"] = built.phases.text()
        return {name: value for name, value in found.items() if value}

    def peak_bytes(self) -> int | None:
        return None

    def close(self) -> None:
        """Close the gate and the handle, after all plans."""
        self._opened.stream.close()
        with self._opened.library.calling("destroy_handle"):
            self._opened.library.module.destroy_handle(self._opened.handle)
