"""Candidates of a graph in a space: each is a case for the ordinary runner.

The axes: ``engine``, ``threads`` and ``math`` select another engine of the run, ``dtype``,
``layout``, ``approx`` and ``fusion`` another graph, ``plan`` and ``knob:…`` entries of the case's
variant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from bench_run.engines.base import KNOB_VARIANT
from bench_run.engines.spec import parse_spec, with_option
from bench_run.errors import BenchRunError, GraphError, UsageError
from bench_run.graph.chain import ChainGraph
from bench_run.options import Engines, grouped
from bench_run.plan.engines import BUILD_EVERY_S, EVERY, plan_engines
from bench_run.plan.tuned import GRAPH_AXES, in_math, rewritten, variant_case
from bench_run.tune.settings import ALL, THREADS, Space
from bench_run.worker.messages import KnobValues, Plans, Variants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_schema.tuning import Fate

    from bench_run.options import Options
    from bench_run.plan.cases import PlannedCase, PlannedGraph
    from bench_run.plan.engines import PlannedEngine
    from bench_run.worker.parent.pool import WorkerPool


MOST_CANDIDATES = 1000
"""Candidate limit of one graph; a larger space is a mistake in its axes."""
Variant = Mapping[str, str]


@dataclass(frozen=True)
class Option:
    """A candidate before it ran."""

    variant: Variant
    case: PlannedCase
    problem: str | None = None
    """Why it cannot run, or need not."""
    status: Fate = "ok"
    same_as: int | None = None
    """Index of the option that this one is a duplicate of."""

    @property
    def key(self) -> str:
        return key_of(self.variant)


def key_of(variant: Variant) -> str:
    """Return the variant as text; empty for the default."""
    return " ".join(f"{axis}={value}" for axis, value in sorted(variant.items()))


def duplicate(option: Option, options: Sequence[Option], index: int) -> Option:
    """Return the option as a duplicate of the one at `index`."""
    problem = f"the same as {options[index].key or 'the default'}"
    return replace(option, problem=problem, status="duplicate", same_as=index)


@dataclass(frozen=True)
class Varied:
    """An engine with its values of the axes that engines stand for."""

    engine: PlannedEngine
    named: Variant


def tuned_engines(options: Options, space: Space, specs: Sequence[str]) -> list[Varied]:
    """Return each engine with each number of threads and each arithmetic of the space."""
    made = []
    axes = (space.values(THREADS) or ("",), space.values("math") or ("",))
    for text, threads, math in product(specs, *axes):
        spec = with_option(text, f"{THREADS}={threads}") if threads else text
        (planned,) = plan_engines(grouped(Engines, options), [parse_spec(spec)])
        engine = in_math(planned, math)
        named = {"engine": text} if len(space.engines) > 1 else {}
        named |= {THREADS: threads} if threads else {}
        named |= {"math": engine.options.math} if math else {}
        made.append(Varied(engine, named))
    return made


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
        self, space: Space, default: PlannedEngine, engines: Sequence[Varied], pool: WorkerPool
    ) -> None:
        self._space, self._pool = space, pool
        self._default, self._engines = default, engines

    def options(self, graph: PlannedGraph) -> list[Option]:
        """Return the options, the default first; what means the same as one before is marked as a
        duplicate."""
        every = [Option({}, variant_case(graph, self._default, {})), *self._others(graph)]
        if len(every) > MOST_CANDIDATES:
            raise UsageError(
                f"{graph.id.name}: {len(every)} combinations, at most {MOST_CANDIDATES} are tried: "
                "leave out axes or values"
            )
        seen: dict[str, int] = {}
        options: list[Option] = []
        for index, option in enumerate(every):
            first = index if option.problem else seen.setdefault(_meaning(option.case), index)
            options.append(option if first == index else duplicate(option, options, first))
        return options

    def _others(self, graph: PlannedGraph) -> Iterator[Option]:
        axes = [axis for axis in GRAPH_AXES if self._space.values(axis)]
        for chosen in product(*(self._space.values(axis) for axis in axes)):
            values = dict(zip(axes, chosen, strict=True))
            made = rewritten(graph, values)
            for varied in self._engines:
                engine, variant = varied.engine, {**varied.named, **values}
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
            # The engine itself runs its plans, next to its own choice, or the engine whose
            # variants they are does.
            home = every_plan(engine)
            own = None if home is engine else self._pool.ask(engine, Plans(graph.loaded.graph))
            if own is not None:
                home = replace(engine, build_timeout_s=home.build_timeout_s)
            listed = self._pool.ask(home, Variants(graph.loaded.graph)) if own is None else own
        except BenchRunError as error:
            # Of an engine without a list its one way is tried; of others that tells what is wrong.
            problem = None if wanted == (ALL,) else str(error)
            yield _option(graph, engine, variant, problem=problem)
            return
        named = {" ".join(each.values()): each for each in listed}
        for name, each in named.items():
            if name and (wanted == (ALL,) or name in wanted):
                yield _option(graph, home, {**variant, "plan": name}, each)
        for name in () if wanted == (ALL,) else wanted:
            if name not in named:
                names = [each for each in named if each]
                some = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
                problem = (
                    f"{home.key} lists no plan {name!r} for this graph; it lists {some or 'none'}"
                )
                yield _option(graph, home, {**variant, "plan": name}, {"plan": name}, problem)

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
            yield _option(graph, engine, variant, problem=str(error))
            return
        for values in product(*lists):
            chosen = {KNOB_VARIANT + n: v for n, v in zip(wanted, values, strict=True)}
            yield _option(graph, engine, {**variant, **chosen})


def _meaning(case: PlannedCase) -> str:
    """Return a text that is equal for cases that run the same."""
    spec, options = case.engine.spec, case.engine.options
    inner = {k: v for k, v in case.variant.items() if k not in (*GRAPH_AXES, "math")}
    engine = spec.name, spec.id, spec.options, spec.plugin_path, options
    return repr((case.graph.id.fingerprint, engine, sorted(inner.items())))


def _option(
    graph: PlannedGraph,
    engine: PlannedEngine,
    variant: Variant,
    chosen: Variant | None = None,
    problem: str | None = None,
) -> Option:
    """`chosen`: what the engine has to know next to the axes; `problem`: why it cannot run."""
    shown = {axis: value for axis, value in variant.items() if axis not in ("engine", THREADS)}
    case = variant_case(graph, engine, {**shown, **(chosen or {})})
    return Option(dict(variant), case, problem, "ok" if problem is None else "unsupported")
