"""Memory of a case, estimated before a worker begins with it, and the free memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bench_run.engines import engine_module
from bench_run.engines.arrange import ROTATE, WEIGHTS_COLD, copies
from bench_run.graph.chain import weights_of
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.scratch import (
    Scratch,
    formula_bytes,
    freeing_bytes,
    is_in_order,
    scratch_bytes,
    tensor_bytes,
    workspace_bytes,
)
from bench_run.machine.memory import free_host_bytes
from bench_run.machine.telemetry import free_memory_bytes
from bench_run.streams.host import last_level_cache_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_run.graph.model import Graph, Node, Tensor
    from bench_run.plan.engines import PlannedEngine


@dataclass(frozen=True)
class MemoryBytes:
    """Needed or free bytes."""

    host: int
    device: int | None = None
    """Bytes on the device; None if there is only the processor, or it does not report them."""


USUAL = Scratch(outputs=2.0)
"""Scratch of an engine without figures of its own, on a processor, in float32."""
DEVICE_COPIES = 2
"""Least number of copies of buffers that rotate on a device."""


def case_need(
    graph: Graph, engine: PlannedEngine, device: str, *, checked: bool = True
) -> MemoryBytes:
    """Return the memory of a case besides that of the processes. `device`: device of the engine;
    `checked`: True if outputs are compared with the reference."""
    inputs, outputs = _bytes(graph.inputs), _bytes(graph.outputs)
    on_host = device == "cpu"
    workspace = engine_module(engine.spec.name).ABILITIES.workspace
    beside = 0
    if workspace is not None:
        beside = workspace(graph, engine.spec, device)
    elif on_host:
        beside = workspace_bytes(graph, lambda part, node: scratch_bytes(part, node, USUAL, 4))
    buffers = _buffers(graph, engine.options.cache, on_host=on_host)
    here = buffers + beside if on_host else 0
    host = inputs + here + outputs
    if checked:
        checking = _while_checked(graph, here, beside if on_host else 0)
        host = max(host, checking, reference_need(graph))
    return MemoryBytes(host, None if on_host else buffers + beside)


def _buffers(graph: Graph, cache: str, *, on_host: bool) -> int:
    """Return the bytes of inputs and outputs, in all rotating copies (`engines/arrange.py`)."""
    once = _bytes(graph.inputs) + _bytes(graph.outputs)
    if cache == ROTATE:
        return once * (copies(once, last_level_cache_bytes()) if on_host else DEVICE_COPIES)
    if cache == WEIGHTS_COLD and on_host:
        weights = weights_of(graph)
        held = sum(tensor.bytes for tensor in graph.inputs if tensor.uid in weights)
        return once + held * (copies(held, last_level_cache_bytes()) - 1 if held else 0)
    return once


def _while_checked(graph: Graph, here: int, beside: int) -> int:
    """Add up in the worker: buffers and the results that an engine allocates beside them, inputs,
    outputs of the first run, of the last and of samples. In the process that compares them: inputs
    and changed inputs, and what is expected on both, in the memory's order."""
    inputs, outputs = _bytes(graph.inputs), _bytes(graph.outputs)
    sets = 2 * inputs
    kept = 4 * outputs
    expected = 2 * sum(
        (1 if is_in_order(t) else 2) * t.elements * (8 if DTYPES[t.data_type].bits >= 32 else 4)
        for t in graph.outputs
    )
    results = outputs if here else 0
    held = here - beside + results + sets + outputs + kept
    return held + max(beside - results, expected)


def reference_need(graph: Graph) -> int:
    """Return the bytes of the process that computes expected outputs, and then their noise: while
    it computes again it holds what is expected, differences, and operands that were moved."""
    again = 16 * sum(tensor.elements for tensor in graph.outputs)
    again += 4 * max((_read(graph, node) for node in graph.nodes), default=0)
    return _bytes(graph.inputs) + freeing_bytes(graph, partial(formula_bytes, width=8), 8) + again


def _read(graph: Graph, node: Node) -> int:
    return sum(graph.by_uid[uid].elements for uid in node.inputs.values())


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(map(tensor_bytes, tensors))


def free_memory(device: str) -> MemoryBytes:
    """Return the free memory for a process that computes on this device."""
    return MemoryBytes(free_host_bytes(), None if device == "cpu" else free_memory_bytes(device))


SMALLER = "smaller: --scale-batch N"


def lack_of_memory(need: MemoryBytes, free: MemoryBytes) -> str | None:
    """Return the reason why the case cannot run here, with both figures and what to do; None if it
    can."""
    if need.host > free.host:
        return f"needs about {_gb(need.host)} of memory, {_gb(free.host)} are free; {SMALLER}"
    if need.device is None or free.device is None or need.device <= free.device:
        return None
    there = f"{_gb(need.device)} of memory on the device, {_gb(free.device)} are free"
    return f"needs about {there}; {SMALLER}"


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
