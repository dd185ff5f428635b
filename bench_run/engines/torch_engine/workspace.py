"""Memory of an execution; imported before PyTorch is."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from bench_run.graph.dtypes import DTYPES
from bench_run.graph.operations.sdpa import band
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

BLOCK_SCORES = 2**22
"""Scores of a block on a processor. Five times their memory is taken while it is computed."""
MASK_SCORES = 2**26
"""Scores of one head: fused attention on a processor stores which of them are masked; above this
number, for some rows at a time."""
FUSED = frozenset(("q", "k", "v", "attn_mask", "scale", "o", "seed", "offset"))
"""Ports of attention that PyTorch's own call knows."""

USUAL = Scratch(outputs=2.0)
ROWS = {
    "relu_bwd": Scratch(outputs=3.0),
    "gen_index": Scratch(outputs=3.0),
    "amax": Scratch(inputs=1.0),
    "mul_no_zeros": Scratch(inputs=1.5),
    "ReductionAttributes": Scratch(outputs=1.0),
    "BatchnormAttributes": Scratch(outputs=1.0),
    "BatchnormBackwardAttributes": Scratch(outputs=1.5),
    "BatchnormInferenceAttributes": Scratch(outputs=1.0),
    "LayernormAttributes": Scratch(outputs=2.0),
    "LayernormBackwardAttributes": Scratch(outputs=1.0),
    "RMSNormBackwardAttributes": Scratch(outputs=8.5),
    "MatmulAttributes": Scratch(inputs=0.5, outputs=1.5),
    "ConvolutionFwdAttributes": Scratch(inputs=1.0, outputs=1.0),
    "ConvolutionBwdAttributes": Scratch(inputs=1.0, outputs=1.0),
    "ConvolutionWrwAttributes": Scratch(inputs=1.0, outputs=1.0),
    "MoeGroupedMatmulAttributes": Scratch(inputs=1.0, outputs=1.0),
    "MoeGroupedMatmulBwdAttributes": Scratch(outputs=3.0),
    "ResampleFwdAttributes": Scratch(inputs=0.3, outputs=1.0),
    "ResampleBwdAttributes": Scratch(outputs=3.0),
    "BlockScaleQuantizeAttributes": Scratch(inputs=7.0),
    "BlockScaleDequantizeAttributes": Scratch(outputs=4.0),
}
"""Scratch of operations and modes whose intermediate results differ from the usual."""
HALF_COLUMNS = 5
"""Multiple of its columns that a convolution in half precision was measured to take."""
FORMULA = ("RMSNorm", "Resample", "BlockScale", "Moe")
"""Computed in the compute type, whatever the type of the tensors."""


def workspace(graph: Graph, spec: EngineSpec, device: str) -> int:
    """Return the most bytes that an execution takes beside inputs and outputs, in the memory where
    it is computed."""
    in_blocks = device == "cpu" and "compile" not in spec.options

    def of_node(part: Graph, node: Node) -> float:
        if node.type.startswith("Sdpa"):
            return _attention(part, node, in_blocks=in_blocks, fused=device == "cpu")
        width = max(DTYPES[part.by_uid[uid].data_type].bits // 8 for uid in node.outputs.values())
        row = row_of(node, ROWS, USUAL)
        if node.type.startswith(FORMULA):
            width = max(4, width)
            return converted_bytes(part, node, width) + scratch_bytes(part, node, row, width)
        if node.type.startswith("Convolution") and width == 2:
            return HALF_COLUMNS * width * columns_of(part, node) + scratch_bytes(
                part, node, Scratch(outputs=1.0), width
            )
        return scratch_bytes(part, node, row, width)

    return workspace_bytes(graph, of_node)


def _attention(graph: Graph, node: Node, *, in_blocks: bool, fused: bool) -> float:
    q, k = (graph.by_uid[node.inputs[port]] for port in "qk")
    backward = "do" in node.inputs
    rows, keys = q.dims[2], k.dims[2]
    if "page_table_k" in node.inputs:
        keys *= prod(graph.by_uid[node.inputs["page_table_k"]].dims[1:])
    if not backward and FUSED.issuperset((*node.inputs, *node.outputs)):
        mask = band(node.attributes)
        masked = mask.left is not None or (mask.right is not None and mask.bottom_right)
        held = 6 * min(rows * keys, MASK_SCORES) if fused and masked else 0
        return scratch_bytes(graph, node, Scratch(outputs=2.0), 4) + held
    scores = prod(q.dims[:3]) * keys
    if in_blocks:
        scores = min(scores, max(BLOCK_SCORES, keys))
    width = 8 if node.compute_data_type == "double" else 4
    heads = 1 if backward else 2
    whole = converted_bytes(graph, node, width) + width * (
        q.elements + sum(graph.by_uid[uid].elements for uid in node.outputs.values()) * heads
    )
    return whole + (7 if backward else 6) * width * scores
