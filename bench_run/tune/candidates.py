"""Candidates of a graph in a space: each is a case for the ordinary runner.

The axes: ``engine`` and ``math`` select another engine of the run, ``dtype``, ``layout`` and
``fusion`` another graph, ``plan`` and ``knob:…`` entries of the case's variant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from bench_run.engines.base import KNOB_VARIANT
from bench_run.engines.spec import parse_spec
from bench_run.errors import BenchRunError, GraphError, UsageError
from bench_run.graph.chain import ChainGraph
from bench_run.options import Engines, grouped
from bench_run.plan.engines import BUILD_EVERY_S, EVERY, plan_engines
from bench_run.plan.tuned import GRAPH_AXES, in_math, rewritten, variant_case
from bench_run.tune.racing import Option
from bench_run.tune.settings import ALL, Space
from bench_run.worker.messages import KnobValues, Plans, Variants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.options import Options
    from bench_run.plan.cases import PlannedGraph
    from bench_run.plan.engines import PlannedEngine
    from bench_run.worker.parent.pool import WorkerPool


MOST_CANDIDATES = 1000
"""Candidate limit of one graph; a larger space is a mistake in its axes."""
Variant = Mapping[str, str]


def tuned_engines(options: Options, space: Space, specs: Sequence[str]) -> list[PlannedEngine]:
    """Return each engine in each math of the space; the first is the default's."""
    engines = plan_engines(grouped(Engines, options), [parse_spec(text) for text in specs])
    return [in_math(e, math) for e, math in product(engines, space.values("math") or ("",))]


def every_plan(engine: PlannedEngine) -> PlannedEngine:
    """Return the engine in the form that lists its plans and takes each by name (``cudnn:all``)."""
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
        self,
        space: Space,
        default: PlannedEngine,
        engines: Sequence[PlannedEngine],
        pool: WorkerPool,
    ) -> None:
        self._space, self._pool = space, pool
        self._default, self._engines = default, engines

    def options(self, graph: PlannedGraph) -> list[Option]:
        """Return the options, the default first; what means the same as one before is marked as a
        duplicate."""
        first = Option({}, variant_case(graph, self._default, {}))
        every = [first, *self._others(graph)]
        if len(every) > MOST_CANDIDATES:
            raise UsageError(
                f"{graph.id.name}: {len(every)} combinations, at most {MOST_CANDIDATES} are tried: "
                "leave out axes or values"
            )
        seen: dict[tuple[object, ...], str] = {}
        options = []
        for option in every:
            case = option.case
            inner = {k: v for k, v in case.variant.items() if k not in (*GRAPH_AXES, "math")}
            engine = (case.engine.spec.text, case.engine.options.math)
            key = (case.graph.id.fingerprint, engine, tuple(sorted(inner.items())))
            if option.problem is None and key in seen:
                problem = f"the same as {seen[key]}"
                options.append(replace(option, problem=problem, status="duplicate"))
                continue
            if option.problem is None:
                seen[key] = option.key or "the default"
            options.append(option)
        return options

    def _others(self, graph: PlannedGraph) -> Iterator[Option]:
        axes = [axis for axis in GRAPH_AXES if self._space.values(axis)]
        for chosen in product(*(self._space.values(axis) for axis in axes)):
            values = dict(zip(axes, chosen, strict=True))
            made = rewritten(graph, values)  # why not, where there is no such graph
            for engine in self._engines:
                # The axes of engines are part of the variant where they are varied.
                named = {}
                if len(self._space.engines) > 1:
                    named["engine"] = engine.spec.text
                if self._space.values("math"):
                    named["math"] = engine.options.math
                variant = {**named, **values}
                if isinstance(made, str):
                    case = variant_case(graph, engine, values)
                    yield Option(variant, case, made, "unsupported")
                elif isinstance(made.loaded.graph, ChainGraph):
                    yield _option(made, engine, variant)  # each of its graphs has plans of its own
                elif self._space.values("plan"):
                    yield from self._plans(made, engine, variant)
                elif self._space.knobs:
                    yield from self._knobs(made, engine, variant)
                else:
                    yield _option(made, engine, variant)

    def _plans(
        self, graph: PlannedGraph, engine: PlannedEngine, variant: Variant
    ) -> Iterator[Option]:
        wanted = self._space.values("plan")
        try:
            # What runs the plans: the engine itself, so that they race in one process with its own
            # choice, else the engine whose variants they are.
            home = every_plan(engine)
            beside = None if home is engine else self._pool.ask(engine, Plans(graph.loaded.graph))
            if beside is not None:
                home = replace(engine, build_timeout_s=home.build_timeout_s)
            listed = (
                self._pool.ask(home, Variants(graph.loaded.graph)) if beside is None else beside
            )
        except BenchRunError as error:
            option = _option(graph, engine, variant)
            yield replace(option, problem=str(error), status="unsupported")
            return
        named = {" ".join(each.values()): each for each in listed}
        for name, each in named.items():
            if name and (wanted == (ALL,) or name in wanted):
                yield _option(graph, home, {**variant, "plan": name}, each)
        for name in () if wanted == (ALL,) else wanted:
            if name not in named:
                option = _option(graph, home, {**variant, "plan": name}, {"plan": name})
                names = [each for each in named if each]
                some = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
                problem = (
                    f"{home.key} lists no plan {name!r} for this graph; it lists {some or 'none'}"
                )
                yield replace(option, problem=problem, status="unsupported")

    def _knobs(
        self, graph: PlannedGraph, engine: PlannedEngine, variant: Variant
    ) -> Iterator[Option]:
        wanted = self._space.knobs
        try:
            known = self._pool.ask(engine, KnobValues(graph.loaded.graph, {}))
            for name, values in wanted.items():
                if values == (ALL,) and name not in known:
                    names = ", ".join(known) or "none with a list of values"
                    problem = f"it has no knob {name!r} to list; it has {names}"
                    raise GraphError(engine.key, problem)
            lists = [known[name] if v == (ALL,) else v for name, v in wanted.items()]
        except BenchRunError as error:
            option = _option(graph, engine, variant)
            yield replace(option, problem=str(error), status="unsupported")
            return
        for values in product(*lists):
            chosen = {KNOB_VARIANT + n: v for n, v in zip(wanted, values, strict=True)}
            yield _option(graph, engine, {**variant, **chosen})


def _option(
    graph: PlannedGraph, engine: PlannedEngine, variant: Variant, chosen: Variant | None = None
) -> Option:
    """`chosen`: what the engine has to know beside the axes."""
    shown = {axis: value for axis, value in variant.items() if axis != "engine"}
    return Option(dict(variant), variant_case(graph, engine, {**shown, **(chosen or {})}))
