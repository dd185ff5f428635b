"""Sources of a graph's inputs: a description that travels between processes, and its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_run.errors import GraphError
from bench_run.graph.chain import ChainGraph

if TYPE_CHECKING:
    from bench_run.graph.model import Graph
    from bench_run.tensors.golden import Golden
    from bench_run.tensors.layout import Storage, Storages


@dataclass(frozen=True)
class Data:
    """Source of a graph's inputs."""

    seed: int
    init: tuple[str, ...] = ()
    golden: str | None = None
    """Folder with golden tensors; their inputs are fed bit for bit."""
    graph_path: str | None = None
    cache: str | None = None
    """File that keeps seeded inputs once they are made (`tensors/seeded/inputs.py`)."""


def inputs_of(graph: Graph, data: Data) -> Storages:
    """Return golden inputs bit for bit if there are some, otherwise seeded ones, which are made
    once."""
    from bench_run.tensors.seeded.inputs import read_inputs, store_inputs

    if data.golden is not None:
        return golden_of(graph, data).inputs
    if data.cache is None:
        return _make_seeded(graph, data)
    inputs = read_inputs(data.cache, graph)
    if inputs is None:
        inputs = _make_seeded(graph, data)
        store_inputs(data.cache, graph, inputs)
    return inputs


def _make_seeded(graph: Graph, data: Data) -> dict[int, Storage]:
    from bench_run.tensors.seeded.inputs import make_chain_inputs, make_inputs, parse_init

    if isinstance(graph, ChainGraph):
        return make_chain_inputs(graph, data.seed, data.init)
    return make_inputs(graph, data.seed, parse_init(data.init))


def golden_of(graph: Graph, data: Data) -> Golden:
    """Return the golden tensors that `data` names. Raises `GraphError` if they do not fit the
    graph."""
    from bench_run.tensors.golden import find_golden, read_golden, why_none

    path = data.graph_path or graph.name
    bundle = find_golden(path, data.golden)
    if bundle is None:
        raise GraphError(path, why_none(path, data.golden))
    return read_golden(graph, bundle)
