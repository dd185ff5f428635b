"""One small graph for every promise about numbers: family → function of (dtype, layout)."""

from __future__ import annotations

from functools import partial

from tests.conformance.sketch import Sketch, convolution

FLOATS = ("double", "float", "half", "bfloat16")


def compute(dtype):
    return dtype if dtype in ("double", "int32") else "float"


def sketch(name, dtype, layout):
    return Sketch(name, dtype, layout, compute(dtype))


CONVOLUTIONS = {
    "2d": ((2, 6, 7, 8), (4, 6, 3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    "1x1": ((2, 8, 5, 5), (4, 8, 1, 1), (0, 0), (0, 0), (1, 1), (1, 1)),
    "1x1_strided": ((2, 8, 5, 6), (4, 8, 1, 1), (0, 0), (0, 0), (2, 2), (1, 1)),
    "strided_asymmetric": ((2, 4, 9, 8), (6, 4, 3, 2), (0, 1), (2, 0), (2, 3), (1, 1)),
    "dilated": ((1, 3, 11, 10), (2, 3, 3, 3), (2, 2), (2, 2), (1, 1), (2, 2)),
    "grouped": ((2, 6, 6, 6), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    "depthwise": ((2, 4, 6, 6), (4, 1, 3, 3), (1, 1), (1, 1), (2, 2), (1, 1)),
    "1d": ((2, 3, 17), (5, 3, 4), (1,), (2,), (2,), (1,)),
    "3d": ((1, 4, 5, 6, 4), (2, 2, 3, 2, 3), (1, 0, 1), (1, 1, 1), (1, 2, 1), (1, 1, 1)),
}


def conv(direction, sizes, dtype, layout, mode="cross_correlation"):
    return convolution(direction, sketch("conv", dtype, layout), *CONVOLUTIONS[sizes], mode).graph()


def conv_bias_relu(dtype, layout):
    s = sketch("conv_bias_relu", dtype, layout)
    x, w, bias = s.tensor(2, 4, 6, 6), s.tensor(8, 4, 3, 3), s.tensor(1, 8, 1, 1)
    inner = [s.tensor(2, 8, 6, 6, dtype=compute(dtype), virtual=True) for _ in range(2)]
    y = s.tensor(2, 8, 6, 6)
    one = {
        "conv_mode": "cross_correlation",
        "pre_padding": (1, 1),
        "post_padding": (1, 1),
        "stride": (1, 1),
        "dilation": (1, 1),
    }
    s.node("ConvolutionFwdAttributes", {"x": x, "w": w}, {"y": inner[0]}, **one)
    add = {"in_0": inner[0], "in_1": bias}
    s.node("PointwiseAttributes", add, {"out_0": inner[1]}, operation="add")
    s.node("PointwiseAttributes", {"in_0": inner[1]}, {"out_0": y}, operation="relu_fwd")
    return s.graph()


MATMULS = {
    "2d": ((5, 7), (7, 6), (5, 6)),
    "batched": ((3, 5, 7), (3, 7, 6), (3, 5, 6)),
    "broadcast": ((2, 3, 5, 7), (1, 1, 7, 6), (2, 3, 5, 6)),
    "grouped": ((2, 4, 5), (8, 5, 3), (8, 4, 3)),
    "vector": ((1, 9), (9, 1), (1, 1)),
}


def matmul(sizes, dtype, layout):
    s = sketch("matmul", dtype, layout)
    a, b, c = (s.tensor(*dims) for dims in MATMULS[sizes])
    return s.node("MatmulAttributes", {"a": a, "b": b}, {"c": c}).graph()


POINTWISE = {
    1: [
        "abs",
        "ceil",
        "erf",
        "exp",
        "floor",
        "gelu_approx_tanh_fwd",
        "gelu_fwd",
        "identity",
        "log",
        "neg",
        "reciprocal",
        "relu_fwd",
        "rsqrt",
        "sigmoid_fwd",
        "sin",
        "softplus_fwd",
        "sqrt",
        "swish_fwd",
        "tan",
        "tanh_fwd",
        "elu_fwd",
        "logical_not",
    ],
    2: [
        "add",
        "add_square",
        "cmp_eq",
        "cmp_ge",
        "cmp_gt",
        "cmp_le",
        "cmp_lt",
        "cmp_neq",
        "div",
        "elu_bwd",
        "gelu_approx_tanh_bwd",
        "gelu_bwd",
        "logical_and",
        "logical_or",
        "max_op",
        "min_op",
        "mul",
        "relu_bwd",
        "sigmoid_bwd",
        "softplus_bwd",
        "sub",
        "swish_bwd",
        "tanh_bwd",
    ],
    3: ["binary_select"],
}


def pointwise(mode, arity, dtype, layout, dims=(2, 5, 3, 4), **attributes):
    s = sketch(mode, dtype, layout)
    inputs = {f"in_{i}": s.tensor(*dims) for i in range(arity)}
    y = s.tensor(*dims)
    s.node("PointwiseAttributes", inputs, {"out_0": y}, operation=mode, **attributes)
    return s.graph()


def broadcast_add(dtype, layout):
    s = sketch("broadcast_add", dtype, layout)
    inputs = {"in_0": s.tensor(2, 5, 3, 4), "in_1": s.tensor(1, 5, 1, 1)}
    y = s.tensor(2, 5, 3, 4)
    return s.node("PointwiseAttributes", inputs, {"out_0": y}, operation="add").graph()


def index(dtype, layout):
    s = sketch("gen_index", dtype, layout)
    x, y = s.tensor(2, 5, 3, 4), s.tensor(2, 5, 3, 4, dtype="int32")
    mode = {"operation": "gen_index", "axis": 2}
    return s.node("PointwiseAttributes", {"in_0": x}, {"out_0": y}, **mode).graph()


X = (4, 6, 3, 5)
CHANNEL = (1, 6, 1, 1)


def _channels(s, *names, dtype=None):
    kind = compute(s.dtype) if dtype is None else dtype
    return {name: s.tensor(*CHANNEL, dtype=kind) for name in names}


def batchnorm_inference(dtype, layout):
    s = sketch("bn_inference", dtype, layout)
    inputs = {"x": s.tensor(*X), **_channels(s, "mean", "inv_variance", "scale", "bias")}
    return s.node("BatchnormInferenceAttributes", inputs, {"y": s.tensor(*X)}).graph()


def batchnorm_inference_variance(dtype, layout):
    s = sketch("bn_inference_variance", dtype, layout)
    inputs = {"x": s.tensor(*X), **_channels(s, "mean", "variance", "scale", "bias")}
    inputs["epsilon"] = s.constant(1e-5)
    kind = "BatchnormInferenceAttributesVarianceExt"
    return s.node(kind, inputs, {"y": s.tensor(*X)}).graph()


def batchnorm_training(dtype, layout):
    s = sketch("bn_training", dtype, layout)
    running = ("prev_running_mean", "prev_running_variance")
    inputs = {"x": s.tensor(*X), **_channels(s, "scale", "bias", *running)}
    inputs |= {"epsilon": s.constant(1e-5), "momentum": s.constant(0.125)}
    saved = ("mean", "inv_variance", "next_running_mean", "next_running_variance")
    outputs = {"y": s.tensor(*X), **_channels(s, *saved)}
    return s.node("BatchnormAttributes", inputs, outputs).graph()


def batchnorm_backward(dtype, layout, saved=True):
    s = sketch("bn_backward", dtype, layout)
    names = ("scale", "mean", "inv_variance") if saved else ("scale",)
    inputs = {"dy": s.tensor(*X), "x": s.tensor(*X), **_channels(s, *names)}
    outputs = {"dx": s.tensor(*X), **_channels(s, "dscale", "dbias")}
    return s.node("BatchnormBackwardAttributes", inputs, outputs).graph()


FAMILIES = {
    **{
        f"conv_{name}_{sizes}": partial(conv, direction, sizes)
        for name, direction in (("fwd", "Fwd"), ("dgrad", "Bwd"), ("wgrad", "Wrw"))
        for sizes in CONVOLUTIONS
    },
    "conv_fwd_flipped": partial(conv, "Fwd", "2d", mode="convolution"),
    "conv_dgrad_flipped": partial(conv, "Bwd", "2d", mode="convolution"),
    "conv_wgrad_flipped": partial(conv, "Wrw", "2d", mode="convolution"),
    "conv_bias_relu": conv_bias_relu,
    **{f"matmul_{sizes}": partial(matmul, sizes) for sizes in MATMULS},
    **{
        f"pointwise_{mode}": partial(pointwise, mode, arity)
        for arity, modes in POINTWISE.items()
        for mode in modes
    },
    "pointwise_relu6": partial(pointwise, "relu_fwd", 1, relu_lower_clip=0.0, relu_upper_clip=0.75),
    "pointwise_leaky": partial(pointwise, "relu_fwd", 1, relu_lower_clip_slope=0.125),
    "pointwise_leaky_bwd": partial(
        pointwise, "relu_bwd", 2, relu_lower_clip_slope=0.125, relu_upper_clip=1.0
    ),
    "pointwise_broadcast": broadcast_add,
    "pointwise_gen_index": index,
    "bn_inference": batchnorm_inference,
    "bn_inference_variance": batchnorm_inference_variance,
    "bn_training": batchnorm_training,
    "bn_backward": batchnorm_backward,
    "bn_backward_unsaved": partial(batchnorm_backward, saved=False),
}
