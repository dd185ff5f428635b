"""The rule of every node type: what its results' errors are, from those of its operands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bench_run.validate.roundoff.attention as attention
import bench_run.validate.roundoff.norms as norms
import bench_run.validate.roundoff.sums as sums
from bench_run.validate.roundoff.pointwise import pointwise

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.validate.roundoff.estimate import Estimate, Step

RULES: dict[str, Callable[[Step], dict[str, Estimate]]] = {
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
