"""Which function computes which node type, and which one refuses what is not computed.

A kernel takes a node (`NodeView`: attributes and tensors by port) and its inputs as keyword
arguments by port, with the tensor's dims, in the node's compute type (`INDICES` in int64). It
returns the outputs by port, in any order of the axes in memory; the engine rounds them. Outputs
that the node does not have may be among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bench_run.engines.numpy_engine import (
    attention,
    batchnorm,
    block_scale,
    conv,
    custom,
    matmul,
    moe,
    norms,
    pointwise,
    reduction,
    resample,
)
from bench_run.engines.numpy_engine.common import Array

if TYPE_CHECKING:
    from bench_run.graph.operations import NodeView

Kernel = Callable[..., dict[str, Array]]

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
    "CustomOpAttributes": custom.custom,
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
    "SdpaBackwardAttributes": attention.attention_backward,
}

REFUSALS: Mapping[str, Callable[[NodeView], None]] = {
    "BatchnormAttributes": batchnorm.refuse,
    "BatchnormBackwardAttributes": batchnorm.refuse,
    "BlockScaleQuantizeAttributes": block_scale.refuse,
    "CustomOpAttributes": custom.refuse,
    "LayernormBackwardAttributes": norms.refuse,
    "MoeGroupedMatmulAttributes": moe.refuse,
    "PointwiseAttributes": pointwise.refuse,
    "ReductionAttributes": reduction.refuse,
    "ResampleBwdAttributes": resample.refuse,
    "ResampleFwdAttributes": resample.refuse,
    "SdpaAttributes": attention.refuse,
    "SdpaBackwardAttributes": attention.refuse,
}
"""Raise `UnsupportedGraphError`. Node types without a row are computed whatever they say."""

INDICES = frozenset(
    (
        "first_token_offset",
        "index",
        "page_table_k",
        "page_table_v",
        "seq_len_kv",
        "seq_len_q",
        "token_index",
        "token_ks",
    )
)
"""Ports whose integers are places, counts or lengths, not numbers to compute with."""
