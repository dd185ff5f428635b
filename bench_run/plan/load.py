"""Everything a run can execute, as loaded graphs: files, suites, op specs, driver lines.

What the user named and cannot be used raises; a broken file among many costs that file only and
becomes a *failed* case.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.document import Case, GraphId, Outcome
from bench_schema.packing import read_regular

from bench_run.errors import GraphError, UsageError
from bench_run.files import writing
from bench_run.graph.chain import compose, seen_from_here, weights_of
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.make import make_graphs
from bench_run.graph.scale import with_sdpa_scale
from bench_run.graph.sources.load import LoadedGraph, LoadFailure, load
from bench_run.graph.sources.suites import SUFFIX, own_graphs, read_suite
from bench_run.options import names_graphs
from bench_run.text import plain_text
from bench_run.user.cases import PREFIX, graphs_of_file, is_case

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench_schema.pipeline import Layer, Pipeline

    from bench_run.graph.driver import Conversion
    from bench_run.graph.model import Graph
    from bench_run.options import Sources
    from bench_run.plan.engines import PlannedEngine


# ``--save-suite``: what was gathered as a suite, graphs of one meaning once, with their count.
#
# Applications that log their graphs (``HIPDNN_LOG_GRAPH_DIR``, ``MIOPEN_ENABLE_LOGGING_CMD``) write
# the same one over and over; names and numbering differ, meaning does not.


@dataclass(frozen=True)
class Repeated:
    """A graph, and how often one of its meaning occurs."""

    loaded: LoadedGraph
    repeat: int


def merge_duplicates(graphs: Iterable[LoadedGraph]) -> tuple[Repeated, ...]:
    """Return one of each meaning, the first one, in order of first occurrence."""
    found: dict[str, Repeated] = {}
    for loaded in graphs:
        key = fingerprint(loaded.graph)
        known = found.get(key)
        first = loaded if known is None else known.loaded
        repeat = loaded.repeat + (0 if known is None else known.repeat)
        found[key] = Repeated(first, repeat)
    return tuple(found.values())


def save_suite(graphs: Sequence[LoadedGraph], path: str) -> str:
    """Write the suite file, and its graphs into a folder of its name beside it. Returns what was
    done, in a line."""
    if not path.endswith(SUFFIX):
        raise UsageError(f"--save-suite: {path} should end in {SUFFIX}")
    merged = merge_duplicates(graphs)
    folder = Path(path).with_suffix("")
    total = sum(each.repeat for each in merged)
    text = f'about = "{total} graphs as they were logged, {len(merged)} different ones"\n'
    files: dict[str, bytes] = {}
    for each in merged:
        if is_case(each.loaded.path):  # the file itself has the reference
            own = os.path.relpath(each.loaded.path.removeprefix(PREFIX), Path(path).parent)
            text += f"\n[[graph]]\nrepeat = {each.repeat}\nfile = {json.dumps(own)}\n"
            continue
        # Named as the file it came from; what is there already gets a number.
        stem = Path(each.loaded.path.rpartition("!")[2]).name.partition(".json")[0]
        stem = stem.replace("#", "_") or "graph"
        name, number = f"{stem}.json", 2
        while name in files:
            name, number = f"{stem}_{number}.json", number + 1
        files[name] = each.loaded.text
        file = json.dumps(f"{folder.name}/{name}")
        text += f"\n[[graph]]\nrepeat = {each.repeat}\nfile = {file}\n"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        Path(path).write_text(text, encoding="utf-8")
    return f"--save-suite: {len(merged)} graphs for {total} occurrences in {path}"


@dataclass(frozen=True)
class Gathered:
    graphs: tuple[LoadedGraph, ...]
    failures: tuple[LoadFailure, ...]
    notes: tuple[str, ...]
    keepers: tuple[object, ...] = ()
    """Hold unpacked golden data on disk for as long as the run needs it."""

    def failed(self, engines: Sequence[PlannedEngine]) -> Iterator[Case]:
        """Yield a failed case for every broken file on every engine."""
        for failure in self.failures:
            for engine in engines:
                yield failed_case(failure, engine)


def failed_case(failure: LoadFailure, engine: PlannedEngine) -> Case:
    name = Path(failure.path.rpartition("!")[2]).stem
    return Case(
        id=plain_text(f"{failure.path} on {engine.key}"),
        graph=GraphId(
            name, failure.path, failure.sha256, f"unread:{failure.path}", "unknown", "unknown"
        ),
        engine=engine.key,
        outcome=Outcome("failed", str(failure.error), "load"),
    )


def gather(sources: Sources) -> Gathered:
    """Load the graphs. Raises `UsageError` and `GraphError`; returns at least one graph."""
    if not names_graphs(sources):
        raise UsageError(
            "no GRAPH, --op, --miopen-driver or --benchdnn was given; see bench-run --help"
        )
    if sources.chain or sources.seams:
        # Chains; with ``--seams`` also the graphs that they are made of, each alone.
        if sources.op or sources.miopen_driver or sources.benchdnn:
            others = "--op, --miopen-driver or --benchdnn"
            raise UsageError(f"--chain and --seams take pipelines only, not {others}")
        chains = tuple(chains_of(sources))
        if not sources.seams:
            return Gathered(chains, (), ())
        alone = _from_files(sources.graphs)
        return replace(alone, graphs=(*alone.graphs, *chains))
    files = _from_files(sources.graphs)
    _refuse_golden(sources, files.graphs)
    left_out: list[str] = []
    made = list(_from_specs(sources, left_out))
    driven = [_from_lines(flag, lines) for flag, lines in _lines_of(sources)]
    failures = (*files.failures, *(error for one in driven for error in one.failures))
    driven_notes = [note for one in driven for note in one.notes]
    of_lines = [graph for one in driven for graph in one.graphs]
    graphs = [*files.graphs, *made, *of_lines]
    if not graphs:
        raise _nothing_to_run(sources, failures, driven_notes)
    if sources.save_graphs is not None:
        save_graphs([*made, *of_lines], Path(sources.save_graphs))
    saved = () if sources.save_suite is None else (save_suite(graphs, sources.save_suite),)
    if sources.scale_batch is not None:
        graphs = [_scale(loaded, sources.scale_batch) for loaded in graphs]
    if sources.sdpa_scale is not None:
        graphs = [with_sdpa_scale(loaded, sources.sdpa_scale) for loaded in graphs]
    notes = (*files.notes, *left_out, *driven_notes, *saved)
    return Gathered(tuple(graphs), failures, notes, files.keepers)


def _from_specs(sources: Sources, left_out: list[str]) -> Iterator[LoadedGraph]:
    """Yield the graphs of ``--op``."""
    for spec in sources.op:
        text = _typed(spec, sources.dtype)
        graphs = make_graphs(text, sources.shapes, sources.direction, left_out, sources.seed)
        yield from (make_graph(graph, op=spec) for graph in graphs)


def _typed(spec: str, dtype: str | None) -> str:
    """Return the op spec with the data type of ``--dtype``, unless it names one."""
    if dtype is None or "dtype=" in spec:
        return spec
    return f"{spec}{' ' if ':' in spec.removeprefix('family:') else ': '}dtype={dtype}"


NO_WEIGHTS = "--cache weights-cold: no weights: its caches are hot"


def note_missing_weights(gathered: Gathered, cache: str) -> Gathered:
    """Add, with weights cold, a note on each graph without weights."""
    if cache != "weights-cold":
        return gathered
    graphs = tuple(
        each if weights_of(each.graph) else replace(each, notes=(*each.notes, NO_WEIGHTS))
        for each in gathered.graphs
    )
    return replace(gathered, graphs=graphs)


def _from_files(arguments: Sequence[str]) -> Gathered:
    paths = [own_graphs(argument) for argument in arguments]
    suites = [path for path in paths if path.endswith(SUFFIX)]
    cases = [path for path in paths if is_case(path)]
    report = load([path for path in paths if path not in suites and path not in cases])
    of_suites = [loaded for suite in suites for loaded in _from_suite(Path(suite))]
    graphs = (*report.graphs, *of_suites, *(each for case in cases for each in _cases(case)))
    return Gathered(graphs, report.failures, report.notes, report.sources)


def _refuse_golden(sources: Sources, graphs: Iterable[LoadedGraph]) -> None:
    """Raise `UsageError`: an operator of a file has its reference there."""
    own = next((each.path for each in graphs if is_case(each.path)), None)
    for flag, value in (("--golden", sources.golden), ("--write-golden", sources.write_golden)):
        if own is not None and value is not None:
            raise UsageError(f"{flag}: {own} has its reference in its file, not in golden tensors")


def _cases(argument: str) -> Iterator[LoadedGraph]:
    """Yield the graphs of a Python file that defines an operator."""
    for case in graphs_of_file(argument):
        yield LoadedGraph(
            graph=case.graph,
            path=case.path,
            sha256=hashlib.sha256(case.text).hexdigest(),
            text=case.text,
            load_ns=0,
        )


def _from_suite(path: Path) -> Iterator[LoadedGraph]:
    """Yield the graphs of a suite, each file once in order of its first occurrence (a pipeline
    names one for each); how often each occurs goes along as a note."""
    suite = read_suite(path)
    occurring: Counter[Path | str | None] = Counter()
    for layer in suite.layers:
        occurring[layer.file or layer.op] += layer.repeat
    first = {layer.file or layer.op: layer for layer in reversed(suite.layers)}
    for key, count in occurring.items():
        layer = first[key]
        notes = [f"occurs {count} times in {suite.name}"] if count > 1 else []
        init = tuple(f"{name}={seen_from_here(text, path)}" for name, text in layer.init.items())
        if init:
            notes.append(f"filled as {layer.id} of {suite.name}: {' '.join(init)}")
        for loaded in _graphs_of(layer):
            yield replace(loaded, notes=(*loaded.notes, *notes), repeat=count, init=init)


def _graphs_of(layer: Layer) -> Sequence[LoadedGraph]:
    if layer.op is not None:
        left_out: list[str] = []
        first, *rest = make_graphs(layer.op, left_out=left_out)
        made = [make_graph(first, tuple(left_out)), *map(make_graph, rest)]
        return [replace(loaded, op=layer.op) for loaded in made]
    if is_case(str(layer.file)):
        return list(_cases(str(layer.file)))
    report = load([str(layer.file)])
    if report.failures:
        raise report.failures[0].error
    return report.graphs


def make_graph(graph: Graph, notes: tuple[str, ...] = (), op: str | None = None) -> LoadedGraph:
    """Return a graph made from nothing, as if it had been read from the file it would be saved
    to."""
    text = write_graph(graph)
    return LoadedGraph(
        graph=graph,
        path=f"{graph.name}.json",
        sha256=hashlib.sha256(text).hexdigest(),
        text=text,
        load_ns=0,
        notes=notes,
        op=op,
    )


def _nothing_to_run(
    sources: Sources, failures: Sequence[LoadFailure], reasons: Sequence[str]
) -> UsageError | GraphError:
    """Return the error of the first failure, or an error with the reason why the first driver line
    has no graph."""
    if failures:
        return failures[0].error
    if reasons:
        more = f" (and {len(reasons) - 1} more lines)" if len(reasons) > 1 else ""
        return UsageError(f"{reasons[0]}{more}")
    named = (*sources.graphs, *sources.miopen_driver, *sources.benchdnn)
    return GraphError(", ".join(named), "contains no graph")


LINES = {"--miopen-driver": "bench_run.graph.driver", "--benchdnn": "bench_run.graph.benchdnn"}
"""Flag to the package that converts lines of its tool."""


def _lines_of(sources: Sources) -> list[tuple[str, Sequence[str]]]:
    return list(zip(LINES, (sources.miopen_driver, sources.benchdnn), strict=True))


def _from_lines(flag: str, arguments: Sequence[str]) -> Gathered:
    """Return graphs of lines of another tool; each argument is a line or a file of them."""
    graphs: list[LoadedGraph] = []
    failures: list[LoadFailure] = []
    notes: list[str] = []
    for argument in arguments:
        where, text = flag, argument
        # A blank or a colon tells a line from a file.
        if not {" ", ":"} & set(argument) or Path(argument).is_file():
            where = argument
            try:
                text = read_regular(argument).decode("utf-8", "replace")
            except OSError as error:
                what = f"{flag}: {argument}: {error.strerror}"
                raise UsageError(what) from None
        conversion: Conversion = import_module(LINES[flag]).convert_lines(text, where)
        digest = hashlib.sha256(text.encode()).hexdigest()
        failures += [LoadFailure(error.where, digest, error) for error in conversion.errors]
        for command in conversion.commands:
            if command.reason is not None:
                notes.append(f"{command.where}: {command.reason}")
            often = (f"occurs {command.count} times in {where}",) if command.count > 1 else ()
            logged = (make_graph(g, (*command.notes, *often)) for g in command.graphs)
            graphs += [replace(loaded, repeat=command.count) for loaded in logged]
    return Gathered(tuple(graphs), tuple(failures), tuple(notes))


def save_graphs(graphs: Sequence[LoadedGraph], folder: Path) -> None:
    """Write graphs as ordinary files, one for each name. Raises `OutputError`."""
    from bench_run.files import writing

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for loaded in graphs:
            (folder / loaded.path).write_bytes(loaded.text)


def _scale(loaded: LoadedGraph, batch: int) -> LoadedGraph:
    from bench_run.graph.scale import scale_batch

    scaled = scale_batch(loaded.graph, batch)
    if scaled is None:
        return replace(loaded, notes=(*loaded.notes, "its batch could not be scaled"))
    if scaled is loaded.graph:
        return loaded
    text = write_graph(scaled)
    notes = (*loaded.notes, f"batch cut to {batch}")
    return replace(
        loaded,
        graph=scaled,
        text=text,
        sha256=hashlib.sha256(text).hexdigest(),
        golden=None,
        notes=notes,
    )


NOT_WITH_CHAINS = (
    ("scale_batch", "--scale-batch", ": links hold for the batch of the file; import it anew"),
    ("sdpa_scale", "--sdpa-scale", ": the file says what its layers are"),
    ("golden", "--golden", ""),
    ("write_golden", "--write-golden", ""),
    ("save_suite", "--save-suite", ""),
    ("save_graphs", "--save-graphs", ""),
)


def chains_of(sources: Sources) -> list[LoadedGraph]:
    """Return each pair of neighbours in a pipeline, the pipeline as a whole, or both."""
    flag = "--chain" if sources.chain else "--seams"
    for field, other, why in NOT_WITH_CHAINS:
        if getattr(sources, field) is not None:
            raise UsageError(f"{flag} and {other} do not go together{why}")
    paths = [Path(own_graphs(argument)) for argument in sources.graphs]
    for path in paths:
        if path.suffix != SUFFIX:
            raise UsageError(f"{flag}: {path} is not a pipeline; expected a file in {SUFFIX}")
    if not paths:
        raise UsageError(f"{flag} needs a pipeline: a file in {SUFFIX}")
    made: list[LoadedGraph] = []
    for path in paths:
        made += _pairs(read_suite(path), path) if sources.seams else []
        made += [read_chain(path)] if sources.chain else []
    return made


def read_chain(path: Path) -> LoadedGraph:
    """Return the chain of a pipeline's file, with a note on what it lacks of the model."""
    pipeline = read_suite(path)
    shares = [row.share for row in pipeline.left_out]
    missing = f"{sum(filter(None, shares)):.1%}" if None not in shares else "an unknown share"
    names = ", ".join(f"{row.count} × {row.operation}" for row in pipeline.left_out)
    note = f"without {missing} of the model's work: {names}"
    return _loaded(pipeline, path, (note,) if pipeline.left_out else ())


def _pairs(pipeline: Pipeline, path: Path) -> Iterator[LoadedGraph]:
    """Yield neighbours as chains of two, alike ones once: what hands over a tensor, and what runs
    one after another, whose launches and caches meet."""
    seen: set[object] = set()
    for writer, reader in pipeline.neighbours:
        links = {n: link for n, link in reader.links.items() if link.layer == writer.id}
        wiring = tuple(sorted((n, link.tensor, link.offset) for n, link in links.items()))
        key = (_content(writer), _content(reader), wiring)
        if key in seen:
            continue
        seen.add(key)
        pair = (
            replace(writer, links={}, after=(), repeat=1),
            replace(reader, links=links, after=(), repeat=1),
        )
        name = f"{pipeline.name}:{writer.id}+{reader.id}"
        short = replace(pipeline, name=name, layers=pair, inputs=(), outputs=(), left_out=())
        loaded = _loaded(short, path, ())
        yield replace(loaded, path=f"{loaded.path}#{writer.id}+{reader.id}")


def _content(layer: Layer) -> tuple[object, ...]:
    """Return the key of layers that do the same; weights may differ."""
    return (layer.file or layer.op, tuple(sorted(layer.variant.items())))


def _loaded(pipeline: Pipeline, path: Path, notes: tuple[str, ...]) -> LoadedGraph:
    text = path.read_bytes()
    return LoadedGraph(
        graph=compose(pipeline, graphs_of(pipeline, path), path),
        path=str(path),
        sha256=hashlib.sha256(text).hexdigest(),
        text=text,
        load_ns=0,
        notes=notes,
    )


def graphs_of(pipeline: Pipeline, path: Path) -> dict[str, Graph]:
    """Return graphs by layer id; those of one file or op are one object."""
    graphs: dict[object, Graph] = {}
    for layer in pipeline.layers:
        key = layer.file or layer.op
        if key not in graphs:
            found = _graphs_of(layer)
            if len(found) != 1:
                what = f"{len(found)} graphs; a layer of a chain is one"
                raise GraphError(f"{path}: {layer.id}", what)
            graphs[key] = found[0].graph.connected
    return {layer.id: graphs[layer.file or layer.op] for layer in pipeline.layers}
