"""A graph as one function of its inputs, made of bound nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from bench_run.engines.torch_engine.errors import foreign_errors
from bench_run.engines.torch_engine.kernels import KERNELS
from bench_run.engines.torch_engine.op import Call, Op
from bench_run.engines.torch_engine.types import TYPES, settle
from bench_run.errors import UnsupportedGraphError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.graph.model import Graph, Node

T: TypeAlias = torch.Tensor


@dataclass(frozen=True)
class Step:
    """A bound node: slots it reads, slots it writes and the type of each."""

    label: str
    call: Call
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    types: tuple[str, ...]
    wanted: tuple[torch.dtype, ...]

    def run(self, values: list[Any]) -> None:
        found = self.call.function(*[values[slot] for slot in self.reads])
        if isinstance(found, torch.Tensor):
            found = (found,)
        for index, value in enumerate(found):
            settled = value.dtype == self.wanted[index]
            kind = self.types[index]
            values[self.writes[index]] = value if settled else settle(value, kind)


class Program:
    """Calls the steps in order. Inputs and outputs as in `Graph.inputs` and `Graph.outputs`.

    Slots are places in one list, constants first: a plain loop over plain lists is what
    `torch.compile` can follow.
    """

    def __init__(self, graph: Graph, device: torch.device) -> None:
        self.slots = {tensor.uid: i for i, tensor in enumerate(graph.tensors)}
        self.inputs = tuple(self.slots[t.uid] for t in graph.inputs)
        self.outputs = tuple(self.slots[t.uid] for t in graph.outputs)
        self.initial: list[Any] = [None] * len(graph.tensors)
        for tensor in graph.constants:
            assert tensor.value is not None
            value = torch.full(tensor.dims, tensor.value, dtype=TYPES[tensor.data_type])
            self.initial[self.slots[tensor.uid]] = value.to(device)
        self.steps = tuple(_bind(graph, node, device, self.slots) for node in graph.nodes)

    @property
    def launches(self) -> int:
        """Kernels of one run, estimated from above: conversions of types included."""
        return sum(step.call.launches + 2 * len(step.writes) for step in self.steps)

    def __call__(self, inputs: Sequence[T]) -> list[T]:
        values = list(self.initial)
        for index, slot in enumerate(self.inputs):
            values[slot] = inputs[index]
        for step in self.steps:
            step.run(values)
        return [values[slot] for slot in self.outputs]

    def blame(self, inputs: Sequence[T]) -> None:
        """Runs node by node, so that the error names the node it comes from."""
        values = list(self.initial)
        for slot, value in zip(self.inputs, inputs, strict=True):
            values[slot] = value
        for step in self.steps:
            with foreign_errors(step.label):
                step.run(values)


def check(graph: Graph) -> None:
    """Refuses node types and data types that are not known here."""
    for node in graph.nodes:
        if node.type not in KERNELS:
            raise UnsupportedGraphError(f"torch: {node.label}: no kernel for this node type")
        for uid in (*node.inputs.values(), *node.outputs.values()):
            kind = graph.by_uid[uid].data_type
            if kind not in TYPES:
                what = f"tensor {uid} is {kind}, a type this PyTorch does not have"
                raise UnsupportedGraphError(f"torch: {node.label}: {what}")


def _bind(graph: Graph, node: Node, device: torch.device, slots: dict[int, int]) -> Step:
    call = KERNELS[node.type](Op(graph, node, device))
    for port in node.outputs:
        if port not in call.outputs:
            what = f"no kernel for its output {port}"
            raise UnsupportedGraphError(f"torch: {node.label}: {what}")
    types = tuple(graph.by_uid[node.outputs[port]].data_type for port in call.outputs)
    return Step(
        label=node.label,
        call=call,
        reads=tuple(slots[node.inputs[port]] for port in call.inputs),
        writes=tuple(slots[node.outputs[port]] for port in call.outputs),
        types=types,
        wanted=tuple(TYPES[kind] for kind in types),
    )
