"""A node as a kernel sees it while it is bound, and what binding gives: a function of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from bench_run.engines.torch_engine.types import NATIVE, TYPES
from bench_run.errors import UnsupportedGraphError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.graph.model import Graph, Node, Tensor

Values: TypeAlias = "torch.Tensor | tuple[torch.Tensor, ...]"

LAUNCHES = 8
"""Kernels that a node is taken to launch at most, unless its call says more."""

_FLOAT64 = ("double", "int8", "uint8", "int32", "int64")


@dataclass(frozen=True)
class Call:
    """What a bound node computes: `function` of the input ports' tensors, in order, gives the
    output ports' values, in order (one value alone for one port)."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[..., Values]
    launches: int = LAUNCHES


@dataclass(frozen=True)
class Op:
    graph: Graph
    node: Node
    device: torch.device

    @property
    def compute(self) -> torch.dtype:
        """The compute type; float64 stands for integers and is exact up to 2^53."""
        return torch.float64 if self.node.compute_data_type in _FLOAT64 else torch.float32

    def has(self, *ports: str) -> bool:
        return all(port in self.node.inputs or port in self.node.outputs for port in ports)

    def tensor(self, port: str) -> Tensor:
        ports = self.node.inputs if port in self.node.inputs else self.node.outputs
        if port not in ports:
            raise self.refusal(f"it has no {port}")
        return self.graph.by_uid[ports[port]]

    def dims(self, port: str) -> tuple[int, ...]:
        return self.tensor(port).dims

    def dtype(self, port: str) -> torch.dtype:
        return TYPES[self.tensor(port).data_type]

    def working_type(self, *ports: str, result: str) -> torch.dtype:
        """The type shared by the ports where a kernel takes it as it is and it is no narrower
        than it may be, else the compute type. Kernels round to the type of their inputs, which
        must not be done to a result of a finer type."""
        kinds = {self.dtype(port) for port in ports}
        if len(kinds) == 1 and kinds <= set(NATIVE):
            kind = kinds.pop()
            wide_enough = self.compute == torch.float32 or kind == torch.float64
            if wide_enough and not self._is_finer(result, kind):
                return kind
        return self.compute

    def _is_finer(self, port: str, kind: torch.dtype) -> bool:
        """Than `kind`; whole numbers are finer than narrow floats, which end too soon."""
        dtype = self.dtype(port) if self.has(port) else kind
        if not dtype.is_floating_point and dtype != torch.bool:
            return kind in (torch.float16, torch.bfloat16)
        return dtype in NATIVE and torch.promote_types(dtype, kind) != kind

    def constant(self, port: str) -> float | None:
        """The value of a one-element constant; None where it comes at run time."""
        tensor = self.tensor(port)
        if tensor.elements != 1:
            raise self.refusal(f"{port} has {tensor.elements} elements where one is expected")
        return None if tensor.value is None else float(tensor.value)

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self.node.attributes.get(name)
        return default if value is None else value

    def refuse_ports(self, *ports: str) -> None:
        for port in ports:
            if self.has(port):
                raise self.refusal(f"it has {port}, which this engine does not know")

    def present(self, *ports: str) -> tuple[str, ...]:
        return tuple(port for port in ports if self.has(port))

    def refusal(self, reason: str) -> UnsupportedGraphError:
        return UnsupportedGraphError(f"torch: {self.node.label}: {reason}")


def elementwise(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value if value.dtype == dtype else value.to(dtype)
