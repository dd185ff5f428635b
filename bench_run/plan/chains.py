"""``--chain`` and ``--seams``: pipelines as cases that run their graphs one after another."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import GraphError, UsageError
from bench_run.graph.chain.compose import compose
from bench_run.graph.make import make_graphs
from bench_run.graph.sources.load import LoadedGraph, load
from bench_run.graph.sources.suites import SUFFIX, own_graphs, read_suite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_schema.pipeline.values import Layer, Pipeline

    from bench_run.graph.model import Graph
    from bench_run.options import Options

NOT_WITH_CHAINS = (
    ("scale_batch", "--scale-batch", ": links hold for the batch of the file; import it anew"),
    ("sdpa_scale", "--sdpa-scale", ": the file says what its layers are"),
    ("golden", "--golden", ""),
    ("write_golden", "--write-golden", ""),
    ("save_suite", "--save-suite", ""),
    ("save_graphs", "--save-graphs", ""),
)


def chains_of(options: Options) -> list[LoadedGraph]:
    """Each pair of neighbours in a pipeline, the pipeline as a whole, or both."""
    flag = "--chain" if options.chain else "--seams"
    for field, other, why in NOT_WITH_CHAINS:
        if getattr(options, field) is not None:
            raise UsageError(f"{flag} and {other} do not go together{why}")
    paths = [Path(own_graphs(argument)) for argument in options.graphs]
    for path in paths:
        if path.suffix != SUFFIX:
            raise UsageError(f"{flag}: {path} is no pipeline; expected a file in {SUFFIX}")
    if not paths:
        raise UsageError(f"{flag} needs a pipeline: a file in {SUFFIX}")
    makers = ((_pairs, options.seams), (_whole, options.chain))
    asked = [make for make, is_asked in makers if is_asked]
    return [loaded for path in paths for make in asked for loaded in make(read_suite(path), path)]


def read_chain(path: Path) -> LoadedGraph:
    """The chain of a pipeline's file."""
    (chain,) = _whole(read_suite(path), path)
    return chain


def _whole(pipeline: Pipeline, path: Path) -> Iterator[LoadedGraph]:
    yield _loaded(pipeline, path, _notes(pipeline))


def _notes(pipeline: Pipeline) -> tuple[str, ...]:
    """What the chain lacks of the model."""
    missing = sum(row.share for row in pipeline.left_out)
    if not pipeline.left_out:
        return ()
    names = ", ".join(f"{row.count} × {row.operation}" for row in pipeline.left_out)
    return (f"without {missing:.1%} of the model's work: {names}",)


def _pairs(pipeline: Pipeline, path: Path) -> Iterator[LoadedGraph]:
    """Neighbours as chains of two, alike ones once: what hands over a tensor, and what runs one
    after another, whose launches and caches meet."""
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
    """What two layers have in common where they do the same; weights may differ."""
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
    """By layer id; those of one file or op are one object."""
    graphs: dict[object, Graph] = {}
    for layer in pipeline.layers:
        key = layer.file or layer.op
        if key not in graphs:
            graphs[key] = _graph(layer, path)
    return {layer.id: graphs[layer.file or layer.op] for layer in pipeline.layers}


def _graph(layer: Layer, path: Path) -> Graph:
    """The one graph of a layer."""
    where = f"{path}: {layer.id}"
    found: Sequence[Graph]
    if layer.op is not None:
        found = make_graphs(layer.op)
    else:
        report = load([str(layer.file)])
        if report.failures:
            raise report.failures[0].error
        found = [loaded.graph for loaded in report.graphs]
    if len(found) != 1:
        raise GraphError(where, f"{len(found)} graphs; a layer of a chain is one")
    return found[0].connected
