"""Bounds of rounding errors, estimated node by node through a graph.

Every tensor gets an `Estimate`: the size of its values, and the largest distance of a computed one
from the exact one, |computed − exact| <= atol + rtol·|exact|. Inputs are exact; each node adds the
errors of its own arithmetic in its compute type and passes on those of its operands; each tensor
adds the rounding to its own type.

Model. Rounding errors are independent and bounded by the unit roundoff u, so that a sum of K terms
errs like a random walk, not like the worst case K·u (Higham and Mary, A new approach to
probabilistic rounding error analysis, 2019), except those known to drift: sums of very many terms
of one sign, and sums that matrix units cut off (`sums.py`). Sums are taken one term after another
in the compute type, the least accurate order in use: blocked, pairwise and fused sums err less.
Bounds hold for millions of elements at once: six standard deviations, and room for the walks that
stray far. The constants are named next to their use, with the measurements behind them.

The bounds do *not* include, unless the math mode requests it: sums in a type narrower than the
compute type, operands rounded before they are multiplied (TF32), functions as a GPU's own
instructions approximate them (`pointwise.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.validate.roundoff import attention, norms, sums
from bench_run.validate.roundoff.estimate import (
    OPERAND_UNITS,
    Estimate,
    RoundingStep,
    constant,
    stored,
    typical,
)
from bench_run.validate.roundoff.pointwise import pointwise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.graph.model import Graph, Node


RULES: dict[str, Callable[[RoundingStep], dict[str, Estimate]]] = {
    "BatchnormInferenceAttributes": norms.batchnorm_inference,
    "BatchnormInferenceAttributesVarianceExt": norms.batchnorm_inference_variance,
    "BatchnormAttributes": norms.batchnorm_training,
    "BatchnormBackwardAttributes": norms.batchnorm_backward,
    "ConvolutionFwdAttributes": sums.conv_forward,
    "ConvolutionBwdAttributes": sums.conv_data_gradient,
    "ConvolutionWrwAttributes": sums.conv_weight_gradient,
    "LayernormAttributes": norms.layernorm,
    "LayernormBackwardAttributes": norms.layernorm_backward,
    "MatmulAttributes": sums.matmul,
    "MoeGroupedMatmulAttributes": sums.grouped_matmul,
    "MoeGroupedMatmulBwdAttributes": sums.grouped_weight_gradient,
    "BlockScaleDequantizeAttributes": sums.dequantize,
    "BlockScaleQuantizeAttributes": sums.quantize,
    "PointwiseAttributes": pointwise,
    "ReductionAttributes": sums.reduction,
    "ResampleFwdAttributes": sums.pooling,
    "ResampleBwdAttributes": sums.pooling_gradient,
    "RMSNormAttributes": norms.rmsnorm,
    "RMSNormBackwardAttributes": norms.rmsnorm_backward,
    "SdpaAttributes": attention.forward,
    "SdpaBackwardAttributes": attention.backward,
}
"""The rule of every node type: what its results' errors are, from those of its operands."""


def output_errors(
    graph: Graph, sizes: Mapping[int, Estimate] | None = None, math: str = "fp32"
) -> dict[int, Estimate | None]:
    """Return the estimate of every output by uid; None if a node on the way has no rule.

    `sizes` are the estimates of inputs by uid, measured on their data (`chain.py`); others are
    taken to have their default distributions (`tensors/seeded/roles.py`).
    """
    known: dict[int, Estimate | None] = {
        tensor.uid: constant(float(tensor.value))
        for tensor in graph.constants
        if tensor.value is not None
    }
    for tensor in graph.inputs:
        size = (sizes or {}).get(tensor.uid)
        known[tensor.uid] = typical(graph, tensor) if size is None else size
    for node in graph.nodes:
        for port, estimate in _results(graph, node, known, math).items():
            tensor = graph.by_uid[node.outputs[port]]
            known[tensor.uid] = None if estimate is None else stored(estimate, tensor)
    return {tensor.uid: known[tensor.uid] for tensor in graph.outputs}


def _results(
    graph: Graph, node: Node, known: Mapping[int, Estimate | None], math: str
) -> Mapping[str, Estimate | None]:
    unknown = dict.fromkeys(node.outputs)
    operands = {port: known[uid] for port, uid in node.inputs.items()}
    present = {port: operand for port, operand in operands.items() if operand is not None}
    if node.type not in RULES or len(present) < len(operands):
        return unknown
    step = RoundingStep.of(graph, node, present, math)
    return unknown | {port: e for port, e in RULES[node.type](step).items() if port in unknown}


__all__ = ["OPERAND_UNITS", "RULES", "Estimate", "output_errors"]
