"""Content of a run: graphs and engines of the options, and their cases.

Cases are planned once (`plan_run`), when engines are known with their devices and variants; if
these are not needed, no engine is opened.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from bench_schema.units import count_text

from bench_run.engines.spec import parse_spec
from bench_run.engines.within_pass import read_pass, with_surroundings
from bench_run.errors import BenchRunError, EngineUnavailableError, UsageError, WorkerError
from bench_run.graph.chain import ChainGraph
from bench_run.machine.affinity import available_cpus
from bench_run.machine.devices import devices
from bench_run.options import cut
from bench_run.plan.cases import (
    PlannedCase,
    PlannedGraph,
    number_namesakes,
    plan_cases,
    plan_graph,
    with_oracles,
)
from bench_run.plan.checks import check_data, partly_taken
from bench_run.plan.engines import (
    PlannedEngine,
    asks_several,
    engine_texts,
    lists_variants,
    on_devices,
    plan_engines,
)
from bench_run.plan.load import Gathered, gather, graphs_of, note_missing_weights
from bench_run.plan.rerun import (
    Wanted,
    narrow_options,
    read_wanted,
    select_wanted,
    wanted_graphs,
)
from bench_run.plan.shard import describe_whole, take_shard
from bench_run.plan.tuned import (
    Here,
    Record,
    default_engine,
    read_record,
    record_engines,
    tuned_cases,
)
from bench_run.runner.bundles import ENGINE as CLAIMING
from bench_run.runner.bundles import claimed_variants, unheld_claims, with_own_golden
from bench_run.worker.messages import Variants as ListVariants
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench_schema.document import Whole

    from bench_run.options import Engines, Options

    Variants = Mapping[tuple[str, str], Sequence[Mapping[str, str]]]
    """Variants by graph's path and engine's key; a pair that is not listed has one."""


@dataclass(frozen=True)
class Outline:
    """Content of the options, before any engine is open."""

    chosen: Engines
    engines: tuple[PlannedEngine, ...]
    graphs: tuple[PlannedGraph, ...]
    gathered: Gathered
    reason: str | None
    """Why the engine was chosen, when the user left the choice to us."""
    wanted: Wanted | None
    """The pairs of graph and engine that are to be run; None for all."""
    whole: Whole | None = None
    """Content of all shards; None if the run is not sharded."""

    @property
    def devices(self) -> tuple[int, ...]:
        """Numbers of the devices that were asked for."""
        return self.chosen.devices or (0,)


@dataclass(frozen=True)
class Planned:
    """A run before anything is measured."""

    engines: tuple[PlannedEngine, ...]
    cases: tuple[PlannedCase, ...]
    gathered: Gathered
    whole: Whole | None = None
    notes: tuple[str, ...] = ()
    """Notes that need open engines, such as on options without effect."""


def outline_run(options: Options) -> Outline:
    """Return the graphs and engines of a run. Raises `UsageError` and `GraphError`."""
    wanted = None if options.rerun_from is None else read_wanted(options.rerun_from)
    if wanted is not None:
        options = narrow_options(options, wanted)
    given = cut(options)
    sources, chosen = given.sources, given.engines
    gathered = note_missing_weights(gather(sources), chosen.cache)
    notes = check_data(given.validation, gathered.graphs)
    loaded, golden_notes = with_own_golden(gathered.graphs)
    notes = (*gathered.notes, *notes, *golden_notes)
    gathered = replace(gathered, graphs=loaded, notes=notes)
    texts: tuple[str, ...]
    reason: str | None
    if chosen.tuned is not None and chosen.a is None and not chosen.engine:
        spec = default_engine(read_record(chosen.tuned))
        texts, reason = (spec,), f"{spec}: the default of {chosen.tuned}"
    else:
        texts, reason = engine_texts(chosen)
    specs = [parse_spec(text) for text in texts]
    engines = plan_engines(chosen, list(with_oracles(specs)) if chosen.oracle else specs)
    if chosen.cache == "pass":
        whole_pass = read_pass(sources.graphs, graphs_of)
        size, placed = whole_pass.bytes, (with_surroundings(g, whole_pass) for g in gathered.graphs)
        gathered = replace(gathered, graphs=tuple(placed))
        engines = tuple(replace(e, options=replace(e.options, pass_bytes=size)) for e in engines)
    graphs, gathered = _once(map(plan_graph, gathered.graphs), gathered)
    if chosen.a is not None:  # on both sides, whatever ran the open cases
        graphs, wanted = wanted_graphs(graphs, wanted), None
    whole = None
    if options.shard is not None:  # what this process has of the run
        graphs = wanted_graphs(graphs, wanted)
        whole = describe_whole(graphs, engines, gathered)
        graphs, gathered = take_shard(options.shard, graphs, gathered, engines)
        note = f"shard {options.shard}: {len(graphs)} of {whole.graphs} graphs"
        gathered = replace(gathered, notes=(*gathered.notes, note))
    return Outline(chosen, engines, graphs, gathered, reason, wanted, whole)


NAMED = 3
"""Graphs that a note lists."""


def _once(
    planned: Iterable[PlannedGraph], gathered: Gathered
) -> tuple[tuple[PlannedGraph, ...], Gathered]:
    """Return each graph once: a second one of the same name, meaning, data and path would be the
    same case, which no comparison, shard or export could tell from the first."""
    kept: list[PlannedGraph] = []
    known: dict[tuple[object, ...], list[tuple[str, ...]]] = {}
    dropped: list[str] = []
    for number, graph in enumerate(planned):
        loaded = graph.loaded
        own = None if loaded.golden is None else number
        key = (graph.id.name, graph.id.fingerprint, loaded.init, own)
        parts, before = PurePath(graph.id.path).parts, known.setdefault(key, [])
        # The ends of their paths tell equal files in two folders apart.
        if any(parts[-len(other) :] == other[-len(parts) :] for other in before):
            dropped.append(graph.id.path)
        else:
            before.append(parts)
            kept.append(graph)
    if not dropped:
        return number_namesakes(kept), gathered
    named = ", ".join(dropped[:NAMED]) + (", …" if len(dropped) > NAMED else "")
    what = "is the same graph as one before it" if len(dropped) == 1 else "are graphs given before"
    note = f"{named}: {what} ({count_text(len(dropped), 'graph')} left out)"
    graphs = tuple(graph.loaded for graph in kept)
    return number_namesakes(kept), replace(gathered, graphs=graphs, notes=(*gathered.notes, note))


def plan_run(outline: Outline, engines: Sequence[PlannedEngine], variants: Variants) -> Planned:
    """Return the cases of a run on these engines. Raises `UsageError` if none is wanted."""
    cases = plan_cases(outline.graphs, engines, variants)
    if outline.whole is None or cases:  # a shard may be empty
        cases = select_wanted(cases, outline.wanted)
    return Planned(tuple(engines), cases, outline.gathered, outline.whole)


def plan_dry(options: Options) -> tuple[Planned, str | None]:
    """Plan a run without its variants, and return the reason why it would end before anything is
    measured; None if it would begin, or begins on other hosts. Raises `UsageError` for what the run
    refuses."""
    if options.ray is not None:
        return plan_closed(options), None
    outline = outline_run(options)
    pool = WorkerPool(options.timeout_s)
    problem = None
    engines: Sequence[PlannedEngine] = outline.engines
    try:
        engines = open_engines(outline, pool)
        _check_engines(outline.chosen, engines, pool)
    except EngineUnavailableError as error:
        problem = str(error)
    finally:
        pool.close()
    return plan_run(outline, engines, {}), problem


def _check_engines(chosen: Engines, engines: Sequence[PlannedEngine], pool: WorkerPool) -> None:
    """Raise `UsageError` if no open engine has what the options need."""
    if chosen.timer in ("events", "cupti"):  # they need an engine with a device
        names = [engine.key for engine in engines]
        if {opened.clock for opened in pool.opened.values()} == {"host"}:
            listed = ", ".join(names)
            raise UsageError(
                f"--timer {chosen.timer}: no engine of this run has a device clock ({listed})"
            )
    check_threads(
        chosen.threads if chosen.hold_threads else None,
        [(e, pool.facts(e).device) for e in engines],
    )


def plan_closed(options: Options) -> Planned:
    """Plan a run without its variants; engines are opened only to count devices."""
    outline = outline_run(options)
    if not asks_several(outline.devices):
        return plan_run(outline, outline.engines, {})
    pool = WorkerPool(options.timeout_s)
    try:
        return plan_run(outline, open_engines(outline, pool), {})
    finally:
        pool.close()


def plan_opened(outline: Outline, pool: WorkerPool) -> Planned:
    """Plan a run and open each engine once before anything is measured, so that a missing one ends
    the run. Raises `EngineUnavailableError`."""
    engines, chosen = open_engines(outline, pool), outline.chosen
    _check_engines(chosen, engines, pool)
    planned = plan_run(outline, engines, list_variants(outline, engines, pool))
    if chosen.tuned is not None:
        planned = _with_winners(planned, read_record(chosen.tuned), chosen, pool)
    devices = {key: opened.devices for key, opened in pool.opened.items()}
    clocks = {key: opened.clock for key, opened in pool.opened.items()}
    places = {pool.facts(e).device for e in engines if e.spec.name == CLAIMING}
    loaded = [graph.loaded for graph in outline.graphs]
    notes = (*partly_taken(chosen, engines, devices, clocks), *unheld_claims(loaded, places))
    if all(each.options.math != chosen.math for each in engines):
        notes = (*notes, f"--math has no effect: {engines[0].spec.name} has one kind of arithmetic")
    return replace(planned, notes=(*planned.notes, *notes))


def _with_winners(planned: Planned, record: Record, chosen: Engines, pool: WorkerPool) -> Planned:
    """Return the cases as a record of a tuning says, where it holds here."""
    engines = record_engines(record, chosen)
    facts = {}
    for key, engine in engines.items():
        with suppress(EngineUnavailableError):
            facts[key] = pool.facts(engine)
    here = Here(facts, devices() if record.device is not None else (), chosen)
    cases, notes = tuned_cases(record, planned.cases, engines, here)
    used = tuple({case.engine.key: case.engine for case in cases}.values())
    return replace(planned, engines=used, cases=cases, notes=notes)


def check_threads(wanted: int | None, engines: Sequence[tuple[PlannedEngine, str]]) -> None:
    """Require an engine on the processor, and processors, for requested threads. `engines` come
    with their devices. Raises `UsageError`."""
    if wanted is not None and all(device != "cpu" for _, device in engines):
        raise UsageError(f"--threads {wanted}: no engine of this run is on the CPU")
    for engine, device in engines:
        if engine.spec.threads is not None and device != "cpu":
            raise UsageError(f"engine {engine.key}: it is not on the CPU, where threads count")
        if (engine.options.threads or 0) > available_cpus():
            raise UsageError(
                f"engine {engine.key}: {engine.options.threads} threads, and this process may use "
                f"{available_cpus()} processors"
            )


def open_engines(outline: Outline, pool: WorkerPool) -> tuple[PlannedEngine, ...]:
    """Return each engine on each of the devices asked for, as many as it sees: copies of an engine
    at the same time."""
    for engine in outline.engines:
        _open(engine, pool)
    visible = {engine.key: pool.opened[engine.key].devices for engine in outline.engines}
    engines = on_devices(outline.devices, outline.engines, visible)
    for engine in outline.engines:
        copy = next((c for c in engines if c.is_copy_of(engine)), None)
        if copy is not None:
            pool.rename(engine, copy)
    pool.open_side_by_side(engines)
    for engine in engines:
        _open(engine, pool)
    return engines


def _open(engine: PlannedEngine, pool: WorkerPool) -> None:
    try:
        pool.facts(engine)
    except (EngineUnavailableError, WorkerError) as error:
        reason = str(error)
        for name in (engine.key, engine.spec.text, engine.spec.name):
            reason = reason.removeprefix(f"{name}: ")  # several engines report their own identity
        raise EngineUnavailableError(f"engine {engine.key}: {reason}") from None


def list_variants(outline: Outline, engines: Sequence[PlannedEngine], pool: WorkerPool) -> Variants:
    """Return the variants of engines with a request for every one (``cudnn:all``)."""
    variants: dict[tuple[str, str], Sequence[Mapping[str, str]]] = {}
    for engine in engines:
        for graph in outline.graphs if lists_variants(engine.spec) else ():
            if not isinstance(graph.loaded.graph, ChainGraph):  # each layer has a list of its own
                try:
                    listed = pool.ask(engine, ListVariants(graph.loaded.graph))
                except BenchRunError:
                    listed = ()
                # Where there is none, running the graph says why.
                variants[graph.id.path, engine.key] = listed or ({},)
    return {**variants, **_claimed(outline, engines, variants, pool)}


def _claimed(
    outline: Outline, engines: Sequence[PlannedEngine], variants: Variants, pool: WorkerPool
) -> Variants:
    """Return the variants with those in a graph's support claims that its engine does not offer:
    running them reports it."""
    found: dict[tuple[str, str], Sequence[Mapping[str, str]]] = {}
    claiming = [graph for graph in outline.graphs if graph.loaded.bundle.claims]
    for engine in engines if claiming else ():
        lists = [rows for (_, key), rows in variants.items() if key == engine.key]
        offered = {row.get("engine", "") for rows in lists for row in rows}
        device = pool.facts(engine).device
        for graph in claiming:
            key = graph.id.path, engine.key
            listed = variants.get(key, ())
            claimed = claimed_variants(graph.loaded.bundle, offered, device)
            more = [row for row in claimed if row not in listed]
            if more:
                found[key] = [*(row for row in listed if row), *more]
    return found
