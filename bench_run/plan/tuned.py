"""``--tuned``: the winners of a record in place of the defaults, graph by graph.

A winner is taken where the graph's meaning, the libraries, the kind of device, its driver and the
arithmetic are those of the record. If they are not, the default runs and its case says why.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.errors import DocumentError
from bench_schema.files import read
from bench_schema.identity import TUNED_NOTE
from bench_schema.merge import find_device
from bench_schema.units import count_text

from bench_run.engines.spec import parse_spec
from bench_run.errors import GraphError, UsageError
from bench_run.graph.approximate import with_approximation, with_int8
from bench_run.graph.chain import ChainGraph
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.variants import with_data_type, with_fusion, with_layout
from bench_run.options import names_graphs
from bench_run.plan.cases import PlannedCase, plan_graph
from bench_run.plan.engines import plan_engines
from bench_run.plan.load import gather

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bench_schema.document import Device, Document, EngineRecord
    from bench_schema.tuning import Candidate, Tuned, TunedEntry

    from bench_run.engines.base import EngineFacts
    from bench_run.graph.model import Graph
    from bench_run.options import Engines, Sources
    from bench_run.plan.cases import PlannedGraph
    from bench_run.plan.engines import PlannedEngine


# What a variant of a tuning means for a run: which graph, which engine, and what is left for the
# engine itself.

INT8 = "int8"


def _typed(graph: Graph, kind: str) -> Graph | None:
    return None if kind == INT8 else with_data_type(graph, kind)


def _rounded(graph: Graph, kind: str) -> Graph | None:
    return with_int8(graph) if kind == INT8 else None


STEPS: tuple[tuple[str, Callable[[Graph, str], Graph | None]], ...] = (
    ("dtype", _typed),
    ("layout", with_layout),
    ("approx", with_approximation),
    ("dtype", _rounded),
    ("fusion", with_fusion),
)
"""Changes of a graph by axis, in their order. Approximations come after the layout: what they add
takes the layout of the tensors next to it."""
APPROXIMATING = (with_approximation, _rounded)
"""Changes after which the graph computes something else."""
GRAPH_AXES = tuple(dict.fromkeys(axis for axis, _ in STEPS))


def rewritten(graph: PlannedGraph, variant: Mapping[str, str]) -> PlannedGraph | str:
    """Return the graph in the type, layout and fusion that a variant names, or a sentence with the
    reason why that is impossible. An axis that means nothing to a graph leaves it unchanged."""
    made: Graph = graph.loaded.graph
    exact: Graph | None = None
    for axis, rewrite in STEPS:
        if axis in variant:
            try:
                changed = rewrite(made, variant[axis])
            except GraphError as error:
                return f"not valid with {axis}={variant[axis]}: {error}"
            if changed is not None and rewrite in APPROXIMATING:
                exact = graph.loaded.graph
            made = made if changed is None else changed
    if made is graph.loaded.graph:
        return graph
    # References, inputs and fingerprints are those of the new graph; its name stays.
    axes = ",".join(f"{axis}={variant[axis]}" for axis in GRAPH_AXES if axis in variant)
    text = write_graph(made.places[0].graph if isinstance(made, ChainGraph) else made)
    loaded = replace(
        graph.loaded,
        graph=made,
        path=f"{graph.loaded.path}#{axes}",
        text=text,
        sha256=hashlib.sha256(text).hexdigest(),
        golden=None,
    )
    planned = plan_graph(loaded)
    if planned.id.fingerprint == graph.id.fingerprint:
        return graph
    named = replace(planned.id, name=graph.id.name)
    return replace(
        planned, id=named, namesake=graph.namesake, turns_with=graph.id.path, exact=exact
    )


def in_math(engine: PlannedEngine, math: str) -> PlannedEngine:
    """Return the engine with float32 arithmetic of its own; as it is where that is the run's."""
    if math in ("", engine.options.math):
        return engine
    options = replace(engine.options, math=math)
    return replace(engine, key=f"{engine.key} math={math}", options=options)


def variant_case(
    graph: PlannedGraph, engine: PlannedEngine, variant: Mapping[str, str]
) -> PlannedCase:
    number = f" #{graph.namesake}" if graph.namesake > 1 else ""
    name = _case_name(graph.id.name, engine.key, variant)
    return PlannedCase(f"{name}{number}", graph, engine, dict(variant))


def _case_name(graph: str, engine: str, variant: Mapping[str, str]) -> str:
    extra = "".join(f" {key}={value}" for key, value in sorted(variant.items()))
    return f"{graph} on {engine}{extra}"


ERROR = "error"
"""``--tuned-mismatch``: refuse what does not fit, instead of running it by default."""
Facts = Mapping[str, "EngineFacts"]
"""Facts of opened engines, by key."""


@dataclass(frozen=True)
class Record:
    """A document with the choices of a tuning; files are named as seen from here."""

    document: Document
    tuned: Tuned

    @property
    def engines(self) -> Mapping[str, EngineRecord]:
        """Engines of its cases, by key."""
        return {engine.key: engine for engine in self.document.engines}

    @property
    def device(self) -> Device | None:
        """The accelerator that it was tuned on; None for a processor."""
        used = next((e for e in self.document.engines if e.device != "cpu"), None)
        return None if used is None else find_device(self.document.machine, used.device)


@dataclass(frozen=True)
class Here:
    """Machine and run that would use a record."""

    facts: Facts
    devices: tuple[Device, ...]
    chosen: Engines


def read_record(path: str, flag: str = "--tuned") -> Record:
    """Read a record. Raises `UsageError` with the reason why it cannot be used. An unchanged file
    is read once: a run needs it several times."""
    try:
        state = os.stat(path)
        document = _read(path, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise UsageError(f"{flag}: {path}: {error.strerror}") from None
    except DocumentError as error:
        raise UsageError(f"{flag}: {error}") from None
    if document.tuned is None:
        raise UsageError(f"{flag}: {path}: is not a record of bench-run tune: it names no winners")
    record = Record(document, from_folder(document.tuned, Path(path).parent))
    for entry in record.tuned.entries:
        _refuse_edited(path, flag, entry)
    return record


@functools.lru_cache(maxsize=1)
def _read(path: str, _changed_ns: int, _bytes: int) -> Document:
    return read(path)


def _refuse_edited(path: str, flag: str, entry: TunedEntry) -> None:
    """Refuse a winner that names an engine or a variant that was not measured as its case."""
    winner = entry.chosen
    name = _case_name(entry.name, winner.engine, winner.case_variant)
    case = winner.case
    if case is not None and case != name and not case.startswith(f"{name} #"):
        raise UsageError(
            f"{flag}: {path}: the winner of {entry.name} was measured as {case!r}, and "
            f"the record has it as {name!r}: tune again"
        )


def in_folder(tuned: Tuned, folder: Path) -> Tuned:
    """Return the choices with the files that are seen from here named as seen from a folder."""

    def named(path: str) -> str:
        is_fixed = os.path.isabs(path) or not Path(path).exists()
        return path if is_fixed else os.path.relpath(path, folder)

    return _renamed(tuned, named)


def from_folder(tuned: Tuned, folder: Path) -> Tuned:
    """Return the choices with the files of a folder as seen from here; others as they are."""

    def named(path: str) -> str:
        below = folder / path
        return os.path.relpath(below) if not os.path.isabs(path) and below.exists() else path

    return _renamed(tuned, named)


def _renamed(tuned: Tuned, named: Callable[[str], str]) -> Tuned:
    def spec(text: str) -> str:
        path = parse_spec(text).plugin_path if "@" in text else None
        return text if path is None else named(path).join(text.rsplit(path, 1))

    return replace(
        tuned,
        engines=tuple(replace(engine, spec=spec(engine.spec)) for engine in tuned.engines),
        entries=tuple(replace(entry, path=named(entry.path)) for entry in tuned.entries),
    )


def record_graphs(path: str, sources: Sources) -> tuple[Record, dict[str, Graph]]:
    """Return the record, and its graphs by fingerprint: those that the sources name, otherwise the
    files that it was made from."""
    record = read_record(path, "the record")
    if not names_graphs(sources):
        sources = replace(sources, graphs=files_of(path, record.tuned.entries))
    graphs = (plan_graph(loaded) for loaded in gather(sources).graphs)
    return record, {graph.id.fingerprint: graph.loaded.graph for graph in graphs}


def files_of(path: str, entries: Iterable[TunedEntry]) -> tuple[str, ...]:
    """Return the graphs of these entries. Those of ``--op`` and of a driver's lines were not files:
    raises `UsageError`."""
    files = tuple(entry.path for entry in entries)
    missing = [file for file in files if not Path(file).exists()]
    if missing:
        raise UsageError(
            f"{path}: the graph {missing[0]} is not there: name its graphs again, as files, --op, "
            "--miopen-driver or --benchdnn"
        )
    return files


def default_engine(record: Record) -> str:
    """Return the spec of the engine that the record's defaults ran on."""
    known = {engine.key: engine.spec for engine in record.tuned.engines}
    for entry in record.tuned.entries:
        spec = known.get(entry.default.engine)
        if spec is not None:
            return spec
    raise UsageError("--tuned: no entry of the record has a default that ran")


def record_engines(record: Record, chosen: Engines) -> dict[str, PlannedEngine]:
    """Return engines of winners, by their key in the record."""
    winners = {entry.chosen.engine for entry in record.tuned.entries}
    made = {}
    for engine in record.tuned.engines:
        if engine.key in winners:
            (planned,) = plan_engines(chosen, [parse_spec(engine.spec)])
            made[engine.key] = in_math(planned, engine.math)
    return made


def tuned_cases(
    record: Record,
    cases: Sequence[PlannedCase],
    engines: Mapping[str, PlannedEngine],
    here: Here,
) -> tuple[tuple[PlannedCase, ...], tuple[str, ...]]:
    """Return the cases with winners in place of defaults, and what should be said of it. Raises
    `UsageError` if ``--tuned-mismatch error`` does not allow for what does not fit."""
    outer = environment_problem(record, here)
    made: dict[str, PlannedCase] = {}
    replaced: dict[str, PlannedCase] = {}
    taken = 0
    left: dict[str, int] = {}
    for case in cases:
        entry = find_entry(record, case)
        tuned = outer or _winner(record, entry, case, engines, here)
        if isinstance(tuned, str):
            left[tuned] = left.get(tuned, 0) + 1
            tuned = with_note(case, f"{NOT_TUNED}{tuned}")
        else:
            taken += 1
            first = replaced.setdefault(tuned.id, case)
            if first.engine.key != case.engine.key:
                raise UsageError(
                    f"--tuned: {first.id} and {case.id} would both run as {tuned.id}: "
                    "give one engine, on one device"
                )
        made.setdefault(tuned.id, tuned)  # an engine's plans have one winner
    if left and here.chosen.tuned_mismatch == ERROR:
        raise UsageError(f"--tuned: {next(iter(left))}")
    notes = [f"--tuned: {taken} of {count_text(len(cases), 'case')} as the record says"]
    notes += [f"--tuned: {count} of them by default: {why}" for why, count in left.items()]
    return tuple(made.values()), (*notes, *remarks(record, here))


NOT_TUNED = "not tuned: "
"""Beginning of the note on a case that takes nothing from the record, with the reason."""


def find_entry(record: Record, case: PlannedCase) -> TunedEntry | None:
    """Return the entry of the graph's meaning; of several the one with its name, otherwise the
    first."""
    graph = case.graph.id
    same = [entry for entry in record.tuned.entries if entry.fingerprint == graph.fingerprint]
    return next((entry for entry in same if entry.name == graph.name), next(iter(same), None))


def contradictions(record: Record) -> list[str]:
    """Return a sentence for each graph with entries whose winners differ."""
    winners: dict[str, dict[tuple[object, ...], str]] = {}
    for entry in record.tuned.entries:
        key = entry.chosen.engine, *sorted(entry.chosen.variant.items())
        winners.setdefault(entry.fingerprint, {}).setdefault(key, entry.name)
    return [
        f"--tuned: {', '.join(found.values())}: one graph with {len(found)} winners in the record; "
        "that of the same name is taken, else the first"
        for found in winners.values()
        if len(found) > 1
    ]


def environment_problem(record: Record, here: Here) -> str | None:
    """Return the difference of the device from the record that invalidates all of its entries."""
    known = record.device
    if known is None:
        return None
    device = next((d for d in here.devices if d.name == known.name), None)
    if device is None:
        kinds = ", ".join(d.name for d in here.devices) or "none"
        return f"the record is of {known.name}, and the devices here are: {kinds}"
    for name, before, now in (
        ("driver", known.driver, device.driver),
        ("architecture", known.arch, device.arch),
    ):
        if before != now:
            return f"the record is of {name} {before}, this machine has {now}"
    return None


def engine_problem(known: EngineRecord, facts: EngineFacts | None) -> str | None:
    """Return the difference of an engine from the record."""
    if facts is None:
        return f"the engine {known.key} does not open here"
    if facts.device_kind != known.device_kind:
        return f"the record is of {known.device_kind}, this is {facts.device_kind}"
    for name in sorted({*known.libraries, *facts.libraries}):
        before, now = known.libraries.get(name), facts.libraries.get(name)
        if before is None:
            return f"the record is of no {name}, here is {now}"
        if before != now:
            return f"the record is of {name} {before}, here is {now or 'none'}"
    if facts.plugin_sha256 != known.plugin_sha256:
        return f"the plugin of {known.key} is another file than in the record"
    return None


def _winner(
    record: Record,
    entry: TunedEntry | None,
    case: PlannedCase,
    engines: Mapping[str, PlannedEngine],
    here: Here,
) -> PlannedCase | str:
    """Return the case with its entry's winner, or the reason why it stays unchanged."""
    if entry is None:
        return "the record has no entry for this graph"
    winner: Candidate = entry.chosen
    if winner.engine not in record.engines or winner.engine not in engines:
        return f"the record does not describe the engine {winner.engine}"
    problem = engine_problem(record.engines[winner.engine], here.facts.get(winner.engine))
    if problem is not None:
        return problem
    graph = rewritten(case.graph, winner.variant)
    if isinstance(graph, str):
        return graph
    if graph.id.fingerprint != winner.fingerprint:
        return "its rewritten graph is not the one that was tuned"
    name = " ".join(f"{a}={v}" for a, v in winner.variant.items()) or "the default"
    tuned = variant_case(graph, engines[winner.engine], winner.case_variant)
    return with_note(tuned, f"{TUNED_NOTE}{name} ({entry.reason})")


def with_note(case: PlannedCase, note: str) -> PlannedCase:
    loaded = replace(case.graph.loaded, notes=(*case.graph.loaded.notes, note))
    return replace(case, graph=replace(case.graph, loaded=loaded))


def remarks(record: Record, here: Here) -> tuple[str, ...]:
    """Return remarks that do not prevent the use of a record: another unit, other conditions."""
    settings, chosen, device = record.document.run.settings, here.chosen, record.device
    said = contradictions(record)
    units = {d.uuid for d in here.devices if d.uuid is not None}
    if device is not None and device.uuid is not None and device.uuid not in units:
        said.append(
            "--tuned: the record is of another unit of this kind, and units differ: "
            "bench-run tune --verify RECORD measures default against winner here"
        )
    if settings.cache != chosen.cache:
        said.append(
            f"--tuned: the record is of --cache {settings.cache}, this run has {chosen.cache}: "
            "what is fastest in one may not be in the other"
        )
    if settings.math is not None and settings.math != chosen.math:
        said.append(f"--tuned: the record is of --math {settings.math}, this run has {chosen.math}")
    return tuple(said)
