"""Builds graphs of one node, or of a chain, from plain arrays."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from bench_run.graph.dtypes import DTYPES, array_type
from bench_run.graph.model import Graph, Node, Tensor
from bench_run.reference import evaluate

NAMES = {array_type(name): name for name, row in DTYPES.items() if row.array_type is not None}


def dense(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(dims[i + 1 :])) for i in range(len(dims)))


@dataclass
class Build:
    """A graph under construction; tensors get their uids in the order of their making."""

    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    data: dict[int, np.ndarray] = field(default_factory=dict)

    def tensor(self, dims: Any, data_type: str = "double", **more: Any) -> int:
        uid, dims = len(self.tensors), tuple(dims)
        self.tensors.append(Tensor(uid, f"t{uid}", data_type, dims, dense(dims), **more))
        return uid

    def input(self, array: Any) -> int:
        array = np.asarray(array)
        uid = self.tensor(array.shape, NAMES[array.dtype])
        self.data[uid] = array
        return uid

    def node(
        self, kind: str, inputs: dict, outputs: dict, lists: dict | None = None, **attributes: Any
    ) -> None:
        self.nodes.append(Node(kind, "n", "float", inputs, outputs, attributes, lists or {}))

    @property
    def graph(self) -> Graph:
        return Graph("g", "float", "float", "float", tuple(self.tensors), tuple(self.nodes))

    def run(self) -> dict[int, np.ndarray]:
        return evaluate(self.graph, self.data)


def _run_node(kind: str, inputs: dict, outputs: dict, **attributes: Any) -> dict[str, np.ndarray]:
    """Outputs are dims, or (dims, data type), by port; results come by port."""
    build = Build()
    uids = {port: build.input(array) for port, array in inputs.items()}
    made = {}
    for port, what in outputs.items():
        typed = len(what) == 2 and isinstance(what[1], str)
        made[port] = build.tensor(*what) if typed else build.tensor(what)
    build.node(kind, uids, made, **attributes)
    results = build.run()
    return {port: results[uid] for port, uid in made.items()}


def _normal(*dims: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *dims)).standard_normal(dims)


def _permuted(array: np.ndarray, order: int) -> np.ndarray:
    """The same values in another memory order, gaps included: the `order`-th permutation."""
    choices = list(itertools.permutations(range(array.ndim)))
    axes = choices[order % len(choices)]
    wide = np.zeros([2 * array.shape[axis] for axis in axes], array.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in axes)]
    view = view.transpose(np.argsort(axes))
    view[...] = array
    return view


@pytest.fixture(scope="session")
def run_node():
    return _run_node


@pytest.fixture(scope="session")
def build():
    return Build


@pytest.fixture(scope="session")
def normal():
    return _normal


@pytest.fixture(scope="session")
def permuted():
    return _permuted
