"""What an execution takes of memory; read before NumPy is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.graph.scratch import (
    Scratch,
    columns_of,
    converted_bytes,
    row_of,
    scratch_bytes,
    workspace_bytes,
)

if TYPE_CHECKING:
    from bench_run.engines.base import EngineSpec
    from bench_run.graph.model import Graph, Node

BLOCK_SCORES = 2**18
"""Scores of one head held at a time: they and what they are made from stay in the cache."""

_ATTENTION_BYTES = 16 * 4 * BLOCK_SCORES
USUAL = Scratch(outputs=2.0)
ROWS = {
    "gelu_approx_tanh_fwd": Scratch(outputs=3.0),
    "softplus_fwd": Scratch(outputs=3.0),
    "elu_fwd": Scratch(outputs=3.0),
    "relu_bwd": Scratch(outputs=4.0),
    "gelu_bwd": Scratch(outputs=4.0),
    "gelu_approx_tanh_bwd": Scratch(outputs=6.0),
    "amax": Scratch(inputs=1.0),
    "norm1": Scratch(inputs=1.0),
    "norm2": Scratch(inputs=1.0),
    "mul_no_zeros": Scratch(inputs=1.25),
    "ReductionAttributes": Scratch(outputs=1.0),
    "BatchnormAttributes": Scratch(outputs=3.0),
    "BatchnormBackwardAttributes": Scratch(outputs=4.0),
    "LayernormAttributes": Scratch(outputs=3.5),
    "LayernormBackwardAttributes": Scratch(outputs=5.0),
    "RMSNormBackwardAttributes": Scratch(outputs=4.0),
    "MatmulAttributes": Scratch(outputs=1.0),
    "ConvolutionFwdAttributes": Scratch(outputs=1.0),
    "ConvolutionBwdAttributes": Scratch(outputs=1.2),
    "ConvolutionWrwAttributes": Scratch(outputs=2.0),
    "ResampleFwdAttributes": Scratch(inputs=1.1, outputs=2.0),
    "ResampleBwdAttributes": Scratch(inputs=1.0, outputs=2.7),
    "BlockScaleQuantizeAttributes": Scratch(inputs=4.0),
    "BlockScaleDequantizeAttributes": Scratch(outputs=3.0),
    "SdpaAttributes": Scratch(inputs=0.35, outputs=1.0, fixed_bytes=_ATTENTION_BYTES),
    "SdpaBackwardAttributes": Scratch(inputs=0.2, outputs=1.0, fixed_bytes=_ATTENTION_BYTES),
}
"""Of an operation or mode where intermediate results are more than usual, or less."""
DOUBLE = ("double", "int8", "uint8", "int32", "int64")


def workspace(graph: Graph, spec: EngineSpec, device: str) -> int:  # noqa: ARG001
    """Bytes that an execution takes at most beside inputs and outputs."""
    return workspace_bytes(graph, _node_bytes)


def _node_bytes(graph: Graph, node: Node) -> float:
    width = 8 if node.compute_data_type in DOUBLE else 4
    needed = converted_bytes(graph, node, width)
    needed += round(scratch_bytes(graph, node, row_of(node, ROWS, USUAL), width))
    if node.type.startswith("Convolution"):
        x = graph.by_uid[node.inputs["x"] if "x" in node.inputs else node.outputs["dx"]]
        if any((*node.attributes.get("pre_padding", ()), *node.attributes.get("post_padding", ()))):
            needed += round(1.1 * width * x.elements)
        needed += width * columns_of(graph, node) // max(1, x.dims[0])  # of one image
    return needed
