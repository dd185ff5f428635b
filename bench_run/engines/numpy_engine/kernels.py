"""Which function plans which node type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench_run.engines.numpy_engine import batchnorm, conv, matmul, pointwise
from bench_run.engines.numpy_engine.op import Op

Kernel = Callable[[Op], None]

KERNELS: Mapping[str, Kernel] = {
    "BatchnormAttributes": batchnorm.training,
    "BatchnormBackwardAttributes": batchnorm.backward,
    "BatchnormInferenceAttributes": batchnorm.inference,
    "BatchnormInferenceAttributesVarianceExt": batchnorm.inference_variance,
    "ConvolutionBwdAttributes": conv.convolution_backward_data,
    "ConvolutionFwdAttributes": conv.convolution_forward,
    "ConvolutionWrwAttributes": conv.convolution_backward_weights,
    "MatmulAttributes": matmul.matmul,
    "PointwiseAttributes": pointwise.pointwise,
}
