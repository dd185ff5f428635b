"""From a graph and a space to candidates: each is a case that the ordinary runner can run.

What an axis turns into: ``engine`` and ``math`` another engine of the run, ``dtype`` and ``layout``
another graph, ``plan``, ``knob:…`` and ``fusion`` entries of the case's variant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from bench_run.engines.base import KNOB_VARIANT
from bench_run.engines.spec import parse_spec
from bench_run.errors import BenchRunError, GraphError, UsageError
from bench_run.graph.hipdnn_json import write_graph
from bench_run.graph.variants import with_data_type, with_layout
from bench_run.plan.cases import (
    BUILD_EVERY_S,
    EVERY,
    PlannedCase,
    PlannedEngine,
    PlannedGraph,
    plan_engines,
    plan_graph,
)
from bench_run.tune.space import ALL, Space

if TYPE_CHECKING:
    from bench_run.graph.model import Graph
    from bench_run.options import Options
    from bench_run.worker.pool import WorkerPool

MOST_CANDIDATES = 1000
"""Of one graph; a larger space is a mistake in its axes."""
Variant = Mapping[str, str]
GRAPH_AXES: Mapping[str, Callable[[Graph, str], Graph | None]] = {
    "dtype": with_data_type,
    "layout": with_layout,
}


@dataclass(frozen=True)
class Option:
    """One way to run a graph, or why it is none."""

    variant: Variant
    """By axis, as in the record."""
    case: PlannedCase
    problem: str | None = None
    status: str = "ok"
    """Of the record: what is known before anything is built."""

    @property
    def key(self) -> str:
        """Names it among the options of its graph, in journals."""
        return " ".join(f"{axis}={value}" for axis, value in sorted(self.variant.items()))


def tuned_engines(options: Options, space: Space, specs: Sequence[str]) -> list[PlannedEngine]:
    """Each engine in each math of the space; the first is the default's."""
    engines = plan_engines(options, [parse_spec(text) for text in specs])
    return [in_math(e, math) for e, math in product(engines, space.values("math") or ("",))]


def in_math(engine: PlannedEngine, math: str) -> PlannedEngine:
    """The engine with float32 arithmetic of its own; as it is where that is the run's."""
    if math in ("", engine.options.math):
        return engine
    options = replace(engine.options, math=math)
    return replace(engine, key=f"{engine.key} math={math}", options=options)


def every_plan(engine: PlannedEngine) -> PlannedEngine:
    """The engine as it lists its plans and takes each by name (``cudnn:all``)."""
    spec = engine.spec
    if spec.id == EVERY:
        return engine
    if spec.id is not None:
        raise UsageError(f"--space plan: {spec.text} names a plan or an engine already")
    text = spec.text.replace(spec.name, f"{spec.name}:{EVERY}", 1)
    limit = engine.build_timeout_s or BUILD_EVERY_S
    key = engine.key.replace(spec.text, text, 1)
    return replace(engine, key=key, spec=parse_spec(text), build_timeout_s=limit)


class Lister:
    """Enumerates the options of graphs; asks engines for their plans and knobs."""

    def __init__(
        self, space: Space, default: PlannedEngine, engines: Sequence[PlannedEngine],
        pool: WorkerPool,
    ) -> None:  # fmt: skip
        self._space, self._pool = space, pool
        self._default, self._engines = default, engines

    def options(self, graph: PlannedGraph) -> list[Option]:
        """The default first; what means the same as one before is marked as a duplicate."""
        first = Option({}, _case(graph, self._default, {}))
        found = [first, *self._others(graph)]
        if len(found) > MOST_CANDIDATES:
            raise UsageError(
                f"{graph.id.name}: {len(found)} combinations, at most {MOST_CANDIDATES} are tried: "
                "leave out axes or values"
            )
        return list(_without_duplicates(found))

    def _others(self, graph: PlannedGraph) -> Iterator[Option]:
        for values, made in self._graphs(graph):
            for engine in self._engines:
                named = self._named(engine)
                if isinstance(made, str):
                    case = _case(graph, engine, values)
                    yield Option({**named, **values}, case, made, "unsupported")
                    continue
                yield from self._on_engine(made, engine, {**named, **values})

    def _named(self, engine: PlannedEngine) -> dict[str, str]:
        """What the record says of an engine: its axes, where they are varied."""
        named = {}
        if len(self._space.engines) > 1:
            named["engine"] = engine.spec.text
        if self._space.values("math"):
            named["math"] = engine.options.math
        return named

    def _graphs(self, graph: PlannedGraph) -> Iterator[tuple[Variant, PlannedGraph | str]]:
        """The graph in each type and layout; why not, where there is no such graph."""
        axes = [axis for axis in GRAPH_AXES if self._space.values(axis)]
        for values in product(*(self._space.values(axis) for axis in axes)):
            variant = dict(zip(axes, values, strict=True))
            yield variant, rewritten(graph, variant)

    def _on_engine(
        self, graph: PlannedGraph, engine: PlannedEngine, outer: Variant
    ) -> Iterator[Option]:
        for fusion in self._space.values("fusion") or ("",):
            inner = {"fusion": fusion} if fusion else {}
            if fusion == "off":  # each of its graphs has plans of its own: the engine chooses
                yield _option(graph, engine, outer, inner)
                continue
            yield from self._in_engine(graph, engine, outer, inner)

    def _in_engine(
        self, graph: PlannedGraph, engine: PlannedEngine, outer: Variant, inner: Variant
    ) -> Iterator[Option]:
        plans = self._space.values("plan")
        if plans:
            yield from self._plans(graph, engine, outer, inner, plans)
        elif self._space.knobs:
            yield from self._knobs(graph, engine, outer, inner)
        else:
            yield _option(graph, engine, outer, inner)

    def _plans(
        self, graph: PlannedGraph, engine: PlannedEngine, outer: Variant, inner: Variant,
        plans: Sequence[str],
    ) -> Iterator[Option]:  # fmt: skip
        every = every_plan(engine)
        try:
            listed = self._pool.variants(every, graph.loaded.graph)
        except BenchRunError as error:
            option = _option(graph, engine, outer, inner)
            yield replace(option, problem=str(error), status="unsupported")
            return
        for variant in listed:
            name = " ".join(variant.values())
            if name and (plans == (ALL,) or name in plans):
                yield _option(graph, every, {**outer, "plan": name}, {**inner, **variant})

    def _knobs(
        self, graph: PlannedGraph, engine: PlannedEngine, outer: Variant, inner: Variant
    ) -> Iterator[Option]:
        asked = self._space.knobs
        try:
            known = self._pool.knob_values(engine, graph.loaded.graph, inner)
            lists = [_knob_values(engine, name, values, known) for name, values in asked.items()]
        except BenchRunError as error:
            option = _option(graph, engine, outer, inner)
            yield replace(option, problem=str(error), status="unsupported")
            return
        for values in product(*lists):
            chosen = {KNOB_VARIANT + n: v for n, v in zip(asked, values, strict=True)}
            yield _option(graph, engine, {**outer, **chosen}, {**inner, **chosen})


def _knob_values(
    engine: PlannedEngine, name: str, values: tuple[str, ...], known: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    if values != (ALL,):
        return values
    if name not in known:
        names = ", ".join(known) or "none with a list of values"
        raise GraphError(engine.key, f"it has no knob {name!r} to list; it has {names}")
    return known[name]


def rewritten(graph: PlannedGraph, variant: Variant) -> PlannedGraph | str:
    """The graph in the type and layout that a variant names; why not, as a sentence."""
    made: Graph = graph.loaded.graph
    for axis, rewrite in GRAPH_AXES.items():
        if axis in variant:
            try:
                changed = rewrite(made, variant[axis])
            except GraphError as error:
                return f"not valid with {axis}={variant[axis]}: {error}"
            made = made if changed is None else changed  # the axis means nothing to this graph
    if made == graph.loaded.graph:
        return graph
    return _renamed(graph, made, variant)


def _renamed(graph: PlannedGraph, made: Graph, variant: Variant) -> PlannedGraph:
    """Identified anew: references, inputs and fingerprints are those of the new graph."""
    axes = ",".join(f"{axis}={variant[axis]}" for axis in GRAPH_AXES if axis in variant)
    text = write_graph(made)
    loaded = replace(
        graph.loaded,
        graph=made,
        path=f"{graph.loaded.path}#{axes}",
        text=text,
        sha256=hashlib.sha256(text).hexdigest(),
        golden=None,
    )
    planned = plan_graph(loaded)
    same = planned.id.fingerprint == graph.id.fingerprint
    if same:
        return graph
    named = replace(planned.id, name=graph.id.name)
    return replace(planned, id=named, namesake=graph.namesake, turns_with=graph.id.path)


def _option(graph: PlannedGraph, engine: PlannedEngine, outer: Variant, inner: Variant) -> Option:
    shown = {axis: value for axis, value in outer.items() if axis != "engine"}
    return Option({**outer, **inner} if "plan" not in outer else {**inner, **outer},
                  _case(graph, engine, {**shown, **inner}))  # fmt: skip


def _case(graph: PlannedGraph, engine: PlannedEngine, variant: Variant) -> PlannedCase:
    extra = "".join(f" {key}={value}" for key, value in sorted(variant.items()))
    number = f" #{graph.namesake}" if graph.namesake > 1 else ""
    name = f"{graph.id.name} on {engine.key}{extra}{number}"
    return PlannedCase(name, graph, engine, dict(variant))


def _without_duplicates(options: Sequence[Option]) -> Iterator[Option]:
    """Those that would run the same graph on the same engine in the same way are marked."""
    seen: dict[tuple[object, ...], str] = {}
    for option in options:
        case = option.case
        inner = {k: v for k, v in case.variant.items() if k not in (*GRAPH_AXES, "math")}
        if inner.get("fusion") == "on":
            del inner["fusion"]
        engine = (case.engine.spec.text, case.engine.options.math)
        key = (case.graph.id.fingerprint, engine, tuple(sorted(inner.items())))
        if option.problem is None and key in seen:
            yield replace(option, problem=f"the same as {seen[key]}", status="duplicate")
            continue
        if option.problem is None:
            seen[key] = option.key or "the default"
        yield option
