"""Puts a graph together: tensors with layouts, nodes in canonical form, chains of operations.

A recipe (`recipes` tables of this package) is handed a `Builder` and, when it follows another
operation, the `Value` that operation left. What it leaves is virtual when something follows it,
and of the graph's own type when it comes last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bench_run.graph.layouts import ordered
from bench_run.graph.model import CustomOperation, Graph, Node, Tensor
from bench_run.graph.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMPUTE = {
    "double": "double",
    "int8": "int32",
    "uint8": "int32",
    "int32": "int32",
    "int64": "int64",
}
"""Type of the arithmetic by io type; float for all the others, as the providers require."""

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """A tensor on its way to the next operation of a chain."""

    uid: int
    dims: Dims
    order: tuple[int, ...]
    """Axis numbers as they lie in memory, slowest first."""
    channel: int
    """Axis that a bias runs along: 1 for images, the last one for matrices and sequences."""


class Builder:
    """The graph so far. Uids count from 1 in the order the tensors are added."""

    def __init__(self, data_type: str) -> None:
        self.data_type = data_type
        self.compute = compute_type(data_type)
        self.last = True
        """True while the last operation of the chain is being added."""
        self.shares = False
        """True if a tensor that is added again, alike and under the same name, is the same one."""
        self._tensors: list[Tensor] = []
        self._nodes: list[Node] = []

    def tensor(
        self,
        name: str,
        dims: Dims,
        strides: Dims | None = None,
        data_type: str | None = None,
        virtual: bool = False,
    ) -> int:
        """Add a tensor, row-major unless strides are given, and return its uid."""
        new = Tensor(
            uid=len(self._tensors) + 1,
            name=name,
            data_type=self.data_type if data_type is None else data_type,
            dims=dims,
            strides=ordered(dims, tuple(range(len(dims)))) if strides is None else strides,
            virtual=virtual,
        )
        for known in self._tensors if self.shares else ():
            if replace(known, uid=new.uid) == new:
                return known.uid
        return self._add(replace(new, name=_unique(name, [t.name for t in self._tensors])))

    def operand(self, name: str, dims: Dims, order: tuple[int, ...]) -> int:
        """Add an input of the io type with its axes in the memory order `order`."""
        return self.tensor(name, dims, ordered(dims, order))

    def constant(self, name: str, value: float, data_type: str | None = None) -> int:
        """Add a compile-time scalar of the compute type."""
        name = _unique(name, [t.name for t in self._tensors])
        uid, kind = len(self._tensors) + 1, self.compute if data_type is None else data_type
        return self._add(Tensor(uid, name, kind, (1,), (1,), value=value))

    def result(
        self,
        op: str,
        dims: Dims,
        order: tuple[int, ...] | None = None,
        *,
        channel: int = 1,
        name: str = "y",
        data_type: str | None = None,
    ) -> Value:
        """Add the result of an operation: virtual in the compute type if something follows it."""
        order = tuple(range(len(dims))) if order is None else order
        strides = ordered(dims, order)
        if self.last:
            uid = self.tensor(name, dims, strides, data_type)
        else:
            uid = self.tensor(f"{op}_{name}", dims, strides, self.compute, virtual=True)
        return Value(uid, dims, order, channel)

    def node(
        self,
        node_type: str,
        name: str,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
        attributes: Mapping[str, Any] | None = None,
        custom: CustomOperation | None = None,
    ) -> None:
        """Add an operation, with defaults filled in; attributes that are None count as absent."""
        name = _unique(name, [n.name for n in self._nodes]) if name else ""
        complete = OPERATIONS[node_type].complete(attributes or {})
        self._nodes.append(
            Node(
                node_type,
                name,
                self.compute,
                dict(inputs),
                dict(outputs),
                complete,
                custom=custom,
            )
        )

    def graph(self, name: str) -> Graph:
        return Graph(
            name=name,
            io_data_type=self.data_type,
            intermediate_data_type=self.compute,
            compute_data_type=self.compute,
            tensors=tuple(self._tensors),
            nodes=tuple(self._nodes),
        )

    def _add(self, tensor: Tensor) -> int:
        self._tensors.append(tensor)
        return tensor.uid


def compute_type(data_type: str) -> str:
    """Return the type of the arithmetic and of the intermediates for an io type."""
    return _COMPUTE.get(data_type, "float")


def _unique(name: str, taken: list[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"
