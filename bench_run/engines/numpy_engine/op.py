"""A node bound to a program: what a kernel is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.dtypes import DTYPES

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from bench_run.engines.numpy_engine.program import Program
    from bench_run.graph.model import Graph, Node, Tensor

Array: TypeAlias = npt.NDArray[Any]

_FLOAT64 = ("double", "int8", "uint8", "int32", "int64")
"""Compute types that float64 stands for; integers stay exact up to 2^53."""


@dataclass(frozen=True)
class Op:
    program: Program
    node: Node

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the node is computed in."""
        return np.dtype(np.float64 if self.node.compute_data_type in _FLOAT64 else np.float32)

    def has(self, port: str) -> bool:
        return port in self.node.inputs or port in self.node.outputs

    def tensor(self, port: str) -> Tensor:
        ports = self.node.inputs if port in self.node.inputs else self.node.outputs
        if port not in ports:
            raise self.refusal(f"it has no {port}")
        return self.program.graph.by_uid[ports[port]]

    def read(self, port: str) -> Array:
        return self.program.read(self.tensor(port).uid, self.dtype)

    def read_or_none(self, port: str) -> Array | None:
        return self.read(port) if self.has(port) else None

    def scalar(self, port: str) -> Array | float:
        """A one-element tensor: its value where it is constant, else a view without axes."""
        tensor = self.tensor(port)
        if tensor.elements != 1:
            raise self.refusal(f"{port} has {tensor.elements} elements where one is expected")
        if tensor.value is not None:
            return float(tensor.value)
        return self.read(port).reshape(())

    def writing(self, port: str) -> AbstractContextManager[Array]:
        return self.program.writing(self.tensor(port).uid, self.dtype)

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self.node.attributes.get(name)
        return default if value is None else value

    def refuse_ports(self, ports: tuple[str, ...]) -> None:
        for port in ports:
            if self.has(port):
                raise self.refusal(f"it has {port}, which this engine does not know")

    def refusal(self, reason: str) -> UnsupportedGraphError:
        return UnsupportedGraphError(f"numpy: {self.node.label}: {reason}")


def check_types(graph: Graph) -> None:
    """Refuses tensors whose elements no array can hold."""
    for node in graph.nodes:
        for uid in (*node.inputs.values(), *node.outputs.values()):
            data_type = graph.by_uid[uid].data_type
            if DTYPES[data_type].array_type is None:
                raise UnsupportedGraphError(
                    f"numpy: {node.label}: tensor {uid} is {data_type}, whose packing in memory is"
                    " not documented"
                )
