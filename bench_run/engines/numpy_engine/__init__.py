"""Engine ``numpy``: every graph on the CPU with nothing but NumPy and its BLAS.

The default if there is no GPU, and a lower bound that every machine can reach. It computes the
formulas of the reference in each node's compute type (float32 for the 16- and 8-bit floats, float64
for double) and rounds virtual tensors and outputs to their own types. Against its own reference it
proves the plumbing only: `tests/conformance` compares both with PyTorch.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bench_run.engines.base import FORKED, Availability, ModuleAbilities

if TYPE_CHECKING:
    from bench_run.engines.base import Engine, EngineOptions, EngineSpec
    from bench_run.graph.model import Graph, Node

NAME = "numpy"
SUMMARY = "NumPy and its BLAS on the CPU, float32 arithmetic"
INSTALL = "comes with this package"


def probe() -> Availability:
    from importlib.metadata import version

    return Availability(True, f"numpy {version('numpy')} on the CPU")


def workspace(graph: Graph, spec: EngineSpec, device: str) -> int:  # noqa: ARG001
    """Return the most bytes that an execution takes besides inputs and outputs: converted inputs,
    results in the compute type, and the scratch of the formulas."""
    from bench_run.graph.scratch import (
        IN_FLOAT64,
        converted_bytes,
        elements_of,
        formula_bytes,
        workspace_bytes,
    )

    def of_node(part: Graph, node: Node) -> float:
        width = 8 if node.compute_data_type in IN_FLOAT64 else 4
        results = width * elements_of(part, node.outputs.values())
        return converted_bytes(part, node, width) + results + formula_bytes(part, node, width)

    return workspace_bytes(graph, of_node)


def preload(spec: EngineSpec) -> bool:  # noqa: ARG001
    """Import the engine where workers of a processor may be forked."""
    if FORKED not in os.environ:
        return False
    from bench_run.engines.numpy_engine import user_file

    return bool(user_file)


ABILITIES = ModuleAbilities(workspace=workspace, preload=preload, runs_on_host=True)


def open(spec: EngineSpec, options: EngineOptions) -> Engine:  # noqa: A001 - a name of the protocol
    if spec.name != NAME or "call" in spec.options:
        from bench_run.engines.numpy_engine.user_file import open_kernels

        return open_kernels(spec, options)
    from bench_run.engines.numpy_engine.engine import open_engine

    return open_engine(spec, options)
