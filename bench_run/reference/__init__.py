"""The meaning of every node type: plain NumPy, from the formula, in the float type of the inputs.

One op family per file, formula and source in its docstring. The reference is computed in float64.
The engine ``numpy`` computes the same formulas in float32: its outputs show the rounding of
float32, and no mistake of a formula. PyTorch checks the formulas (`tests/conformance`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.graph import meaning
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.make.operators import is_operator
from bench_run.graph.meaning import refusal
from bench_run.reference import (
    attention,
    batchnorm,
    block_scale,
    convolution,
    matmul,
    moe,
    norms,
    pointwise,
    reduction,
    resample,
)
from bench_run.reference.evaluate import custom, run
from bench_run.user.cases import source_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph
    from bench_run.reference.common import Array, Operation

OPERATIONS: dict[str, Operation] = {
    "BatchnormInferenceAttributes": batchnorm.inference,
    "BatchnormInferenceAttributesVarianceExt": batchnorm.inference_variance,
    "BatchnormAttributes": batchnorm.training,
    "BatchnormBackwardAttributes": batchnorm.backward,
    "ConvolutionFwdAttributes": convolution.forward,
    "ConvolutionBwdAttributes": convolution.data_gradient,
    "ConvolutionWrwAttributes": convolution.weight_gradient,
    "BlockScaleDequantizeAttributes": block_scale.dequantize,
    "BlockScaleQuantizeAttributes": block_scale.quantize,
    "CustomOpAttributes": custom,
    "LayernormAttributes": norms.layernorm_forward,
    "LayernormBackwardAttributes": norms.layernorm_backward,
    "MatmulAttributes": matmul.matmul,
    "MoeGroupedMatmulAttributes": moe.forward,
    "MoeGroupedMatmulBwdAttributes": moe.weight_gradient,
    "PointwiseAttributes": pointwise.pointwise,
    "RMSNormAttributes": norms.forward,
    "RMSNormBackwardAttributes": norms.backward,
    "ReductionAttributes": reduction.reduction,
    "ResampleBwdAttributes": resample.backward,
    "ResampleFwdAttributes": resample.forward,
    "SdpaAttributes": attention.forward,
    "SdpaBackwardAttributes": attention.backward,
}
"""The meaning by node type: (node, inputs by port, output tensors by port) → results by port."""


def refuse(graph: Graph) -> None:
    """Raise `UnsupportedGraphError` that names the first node without a certain meaning or a
    formula."""
    for node in graph.nodes:
        if node.type not in OPERATIONS:
            known = ", ".join(OPERATIONS)
            raise refusal(node, f"no formula for this node type; known are {known}")
        for port, uid in (*node.inputs.items(), *node.outputs.items()):
            kind = graph.by_uid[uid].data_type
            if DTYPES[kind].array_type is None:
                raise refusal(node, f"{port}: the packing of {kind} is not documented")
        if node.type == "CustomOpAttributes" and not is_operator(node):
            source_of(node)
    meaning.refuse(graph)


def evaluate(graph: Graph, inputs: Mapping[int, Array]) -> dict[int, Array]:
    """Return every output tensor of the graph for these inputs, by uid.

    `inputs` are logical arrays (shape = dims, any strides, of the tensor's own array type) for
    `graph.inputs`; constants come from the graph. Results are logical arrays too, in float64 (int64
    and bool for integer and boolean tensors) and *not* rounded to the output's type. What a later
    node reads is rounded to its tensor's own type first.

    Raises `UnsupportedGraphError` that names the node and the reason.
    """
    refuse(graph)
    return run(graph, inputs, OPERATIONS)
