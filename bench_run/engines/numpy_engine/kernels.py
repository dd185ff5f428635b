"""Which function plans which node type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench_run.engines.numpy_engine import (
    attention,
    attention_backward,
    batchnorm,
    block_scale,
    conv,
    matmul,
    moe,
    norms,
    pointwise,
    reduction,
    resample,
)
from bench_run.engines.numpy_engine.op import Op

Kernel = Callable[[Op], None]

KERNELS: Mapping[str, Kernel] = {
    "BatchnormAttributes": batchnorm.training,
    "BatchnormBackwardAttributes": batchnorm.backward,
    "BatchnormInferenceAttributes": batchnorm.inference,
    "BatchnormInferenceAttributesVarianceExt": batchnorm.inference_variance,
    "BlockScaleDequantizeAttributes": block_scale.dequantize,
    "BlockScaleQuantizeAttributes": block_scale.quantize,
    "ConvolutionBwdAttributes": conv.convolution_backward_data,
    "ConvolutionFwdAttributes": conv.convolution_forward,
    "ConvolutionWrwAttributes": conv.convolution_backward_weights,
    "LayernormAttributes": norms.layernorm,
    "LayernormBackwardAttributes": norms.layernorm_backward,
    "MatmulAttributes": matmul.matmul,
    "MoeGroupedMatmulAttributes": moe.forward,
    "MoeGroupedMatmulBwdAttributes": moe.weight_gradient,
    "PointwiseAttributes": pointwise.pointwise,
    "RMSNormAttributes": norms.rmsnorm,
    "RMSNormBackwardAttributes": norms.rmsnorm_backward,
    "ReductionAttributes": reduction.reduction,
    "ResampleBwdAttributes": resample.resample_backward,
    "ResampleFwdAttributes": resample.resample,
    "SdpaAttributes": attention.attention,
    "SdpaBackwardAttributes": attention_backward.attention_backward,
}
