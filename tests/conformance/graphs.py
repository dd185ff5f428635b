"""One small graph for every promise about numbers: family → function of (dtype, layout)."""

from __future__ import annotations

from functools import partial

from bench_run.graph.operations import POINTWISE_MODES
from tests.conformance.sketch import Sketch, convolution, out_length

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


MODES = {mode: row.arity for mode, row in POINTWISE_MODES.items() if mode != "gen_index"}


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
    mode = {"operation": "gen_index", "axis_tensor_uid": 2}
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


ROWS = (2, 3, 4, 6)


def layernorm(count, dtype, layout, padded=True):
    s = sketch("layernorm", dtype, layout)
    tail = ROWS[-count:]
    wide = (*(1 for _ in ROWS[:-count]), *tail) if padded else tail
    stats = (*ROWS[:-count], *(1 for _ in tail))
    inputs = {"x": s.tensor(*ROWS), "scale": s.tensor(*wide), "bias": s.tensor(*wide)}
    inputs["epsilon"] = s.constant(1e-5)
    outputs = {"y": s.tensor(*ROWS)}
    for port in ("mean", "inv_variance"):
        outputs[port] = s.tensor(*stats, dtype=compute(dtype))
    attributes = {"normalized_dim_count": count, "forward_phase": "training"}
    return s.node("LayernormAttributes", inputs, outputs, **attributes).graph()


def layernorm_backward(saved, dtype, layout):
    s = sketch("layernorm_backward", dtype, layout)
    wide = (1, 1, *ROWS[2:])
    inputs = {"dy": s.tensor(*ROWS), "x": s.tensor(*ROWS), "scale": s.tensor(*wide)}
    if saved:
        inputs["mean"] = s.tensor(*ROWS[:2], 1, 1, dtype=compute(dtype))
        inputs["inv_variance"] = s.tensor(*ROWS[:2], 1, 1, dtype=compute(dtype))
    inputs["epsilon"] = s.constant(1e-5)
    outputs = {"dx": s.tensor(*ROWS), "dscale": s.tensor(*wide), "dbias": s.tensor(*wide)}
    kind = "LayernormBackwardAttributes"
    return s.node(kind, inputs, outputs, normalized_dim_count=2).graph()


def rmsnorm(scale, saved, biased, dtype, layout):
    s = sketch("rmsnorm", dtype, layout)
    inputs = {"x": s.tensor(*ROWS), "scale": s.tensor(*scale), "epsilon": s.constant(1e-5)}
    if biased:
        inputs["bias"] = s.tensor(*scale)
    outputs = {"y": s.tensor(*ROWS)}
    if saved:
        outputs["inv_rms"] = s.tensor(*saved, dtype=compute(dtype))
    return s.node("RMSNormAttributes", inputs, outputs).graph()


def rmsnorm_backward(biased, dtype, layout):
    s = sketch("rmsnorm_backward", dtype, layout)
    scale = (1, 1, 1, ROWS[-1])
    inputs = {"dy": s.tensor(*ROWS), "x": s.tensor(*ROWS), "scale": s.tensor(*scale)}
    inputs["inv_rms"] = s.tensor(*ROWS[:3], 1, dtype=compute(dtype))
    outputs = {"dx": s.tensor(*ROWS), "dscale": s.tensor(*scale)}
    if biased:
        outputs["dbias"] = s.tensor(*scale)
    return s.node("RMSNormBackwardAttributes", inputs, outputs).graph()


REDUCTIONS = ("add", "amax", "avg", "max", "min", "mul", "mul_no_zeros", "norm1", "norm2")


def reduction(mode, out, dtype, layout):
    s = sketch(f"reduction_{mode}", dtype, layout)
    ports = {"in": s.tensor(*ROWS)}, {"out": s.tensor(*out)}
    return s.node("ReductionAttributes", *ports, mode=mode).graph()


POOLS = {
    "2d": ((2, 3, 7, 8), (3, 3), (2, 2), (1, 1), (1, 1)),
    "1d": ((2, 3, 9), (2,), (2,), (0,), (0,)),
    "3d": ((1, 2, 5, 6, 4), (2, 3, 2), (1, 2, 2), (1, 1, 0), (0, 1, 0)),
    "asymmetric": ((1, 2, 6, 7), (2, 3), (1, 2), (0, 2), (1, 0)),
}


def resample(mode, sizes, dtype, layout, index=False):
    s = sketch(f"resample_{mode}", dtype, layout)
    x, y, attributes = _pool(mode, sizes)
    outputs = {"y": s.tensor(*y)}
    if index:
        outputs["index"] = s.tensor(*y, dtype="int32")
        attributes["generate_index"] = True
    return s.node("ResampleFwdAttributes", {"x": s.tensor(*x)}, outputs, **attributes).graph()


def resample_backward(mode, dtype, layout):
    s = sketch("resample_backward", dtype, layout)
    x, y, attributes = _pool(mode, "2d")
    inputs = {"dy": s.tensor(*y)}
    if mode == "maxpool":
        inputs["index"] = s.tensor(*y, dtype="int32")
    outputs = {"dx": s.tensor(*x)}
    return s.node("ResampleBwdAttributes", inputs, outputs, **attributes).graph()


def _pool(mode, sizes):
    """Dims of x and y, and the attributes."""
    x, window, stride, pre, post = POOLS[sizes]
    axes = zip(x[2:], window, pre, post, stride, strict=True)
    y = (*x[:2], *(out_length(i, w, a, b, step, 1) for i, w, a, b, step in axes))
    attributes = {"window": window, "stride": stride, "pre_padding": pre, "post_padding": post}
    return x, y, attributes | {"resample_mode": mode, "padding_mode": "zero_pad"}


def sdpa(dtype, layout, heads=(4, 4, 4), lengths=(6, 9), extra=(), outputs=(), **attributes):
    """`extra`: shapes of further inputs by port; `outputs`: further ones, one value a row."""
    s = sketch("sdpa", dtype, layout)
    (h, hk, hv), (queries, keys) = heads, lengths
    inputs = {
        "q": s.tensor(2, h, queries, 8),
        "k": s.tensor(2, hk, keys, 8),
        "v": s.tensor(2, hv, keys, 5),
    }
    for port, dims in extra:
        kind = "int32" if port.startswith("seq_len") else compute(dtype)
        inputs[port] = s.tensor(*dims, dtype=kind, layout="packed")
    results = {"o": s.tensor(2, h, queries, 5)}
    for port in outputs:
        results[port] = s.tensor(2, h, queries, 1, dtype=compute(dtype))
    return s.node("SdpaAttributes", inputs, results, **attributes).graph()


def sdpa_backward(dtype, layout, heads=(4, 2), extra=(), dbias=None, **attributes):
    s = sketch("sdpa_backward", dtype, layout)
    h, hk = heads
    dims = {"q": (2, h, 6, 8), "k": (2, hk, 9, 8), "v": (2, hk, 9, 5)}
    inputs = {port: s.tensor(*size) for port, size in dims.items()}
    inputs["o"], inputs["do"] = s.tensor(2, h, 6, 5), s.tensor(2, h, 6, 5)
    inputs["stats"] = s.tensor(2, h, 6, 1, dtype=compute(dtype))
    for port, size in extra:
        kind = "int32" if port.startswith("seq_len") else compute(dtype)
        inputs[port] = s.tensor(*size, dtype=kind, layout="packed")
    outputs = {f"d{port}": s.tensor(*size) for port, size in dims.items()}
    if dbias is not None:
        outputs["dbias"] = s.tensor(*dbias, dtype=compute(dtype))
    return s.node("SdpaBackwardAttributes", inputs, outputs, **attributes).graph()


LENGTHS = (("seq_len_q", (2, 1, 1, 1)), ("seq_len_kv", (2, 1, 1, 1)))
SDPA = {
    "plain": {},
    "causal": {"causal_mask": True},
    "causal_bottom_right": {"causal_mask_bottom_right": True},
    "blind_rows": {"lengths": (9, 6), "causal_mask_bottom_right": True},
    "window": {"left_bound": 2, "right_bound": 1},
    "grouped": {"heads": (4, 2, 2), "attn_scale_value": 0.25},
    "unlike_heads": {"heads": (4, 2, 1)},
    "bias": {"extra": (("attn_mask", (1, 4, 6, 9)),), "causal_mask": True},
    "row_bias": {"extra": (("attn_mask", (2, 1, 1, 9)),)},
    "scale": {"extra": (("scale", (1, 1, 1, 1)),)},
    "stats": {"outputs": ("stats", "max", "sum_exp"), "generate_stats": True},
    "blind_stats": {
        "lengths": (9, 6),
        "causal_mask_bottom_right": True,
        "outputs": ("stats",),
    },
    "sink": {"extra": (("sink_token", (1, 4, 1, 1)),), "outputs": ("stats",)},
    "lengths": {"extra": LENGTHS, "padding_mask": True, "outputs": ("stats",)},
    "lengths_bottom_right": {"extra": LENGTHS, "causal_mask_bottom_right": True},
}
SDPA_BACKWARD = {
    "plain": {},
    "causal": {"causal_mask": True},
    "window": {"left_bound": 2, "right_bound": 1, "diagonal_alignment": "bottom_right"},
    "bias": {"extra": (("attn_mask", (1, 4, 6, 9)),), "dbias": (1, 4, 6, 9)},
    "lengths": {"extra": LENGTHS, "padding_mask": True},
}


def sdpa_paged(dtype, layout):
    s = sketch("sdpa_paged", dtype, layout)
    pool = (7, 2, 4, 8)
    inputs = {"q": s.tensor(1, 4, 12, 8), "k": s.tensor(*pool), "v": s.tensor(*pool)}
    for port in ("seq_len_q", "seq_len_kv"):
        inputs[port] = s.tensor(3, dtype="int32", layout="packed")
    for port in ("page_table_k", "page_table_v"):
        inputs[port] = s.tensor(3, 2, dtype="int32", layout="packed")
    outputs = {"o": s.tensor(1, 4, 12, 8)}
    attributes = {"causal_mask_bottom_right": True, "max_seq_len_kv": 8}
    return s.node("SdpaAttributes", inputs, outputs, **attributes).graph()


def dequantized_matmul(dtype, layout):
    s = sketch("dequantized_matmul", dtype, layout)
    x = s.tensor(6, 64, dtype="fp8_e4m3")
    scale = s.tensor(6, 2, dtype="fp8_e8m0")
    wide = s.tensor(6, 64, dtype="float", virtual=True)
    b, c = s.tensor(64, 5), s.tensor(6, 5)
    ports = {"x": x, "scale": scale}, {"y": wide}
    s.node("BlockScaleDequantizeAttributes", *ports, block_size=(32,))
    return s.node("MatmulAttributes", {"a": wide, "b": b}, {"c": c}).graph()


def quantize(dtype, layout):
    s = sketch("quantize", dtype, layout)
    x, y = s.tensor(4, 64), s.tensor(4, 64, dtype="fp8_e5m2")
    outputs = {"y": y, "scale": s.tensor(4, 2, dtype="fp8_e8m0")}
    return s.node("BlockScaleQuantizeAttributes", {"x": x}, outputs, block_size=32).graph()


def experts(mode, dtype, layout):
    s = sketch("experts", dtype, layout)
    rows = {"none": 10, "gather": 14, "scatter": 20}[mode]
    inputs = {"token": s.tensor(1, 10, 6), "weight": s.tensor(2, 6, 5)}
    inputs["first_token_offset"] = s.tensor(4, 1, 1, dtype="int32", layout="packed")
    if mode != "none":
        count = 14 if mode == "gather" else 10
        inputs["token_index"] = s.tensor(1, count, 1, dtype="int32", layout="packed")
    if mode == "scatter":
        inputs["token_ks"] = s.tensor(1, 10, 1, dtype="int32", layout="packed")
    output = {"output": s.tensor(1, rows, 5)}
    return s.node("MoeGroupedMatmulAttributes", inputs, output, mode=mode, top_k=2).graph()


def experts_backward(dtype, layout):
    s = sketch("experts_backward", dtype, layout)
    inputs = {"doutput": s.tensor(1, 10, 5), "token": s.tensor(1, 10, 6)}
    inputs["first_token_offset"] = s.tensor(4, 1, 1, dtype="int32", layout="packed")
    outputs = {"dweight": s.tensor(2, 6, 5)}
    return s.node("MoeGroupedMatmulBwdAttributes", inputs, outputs).graph()


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
    **{f"pointwise_{mode}": partial(pointwise, mode, arity) for mode, arity in MODES.items()},
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
    "layernorm": partial(layernorm, 1),
    "layernorm_2": partial(layernorm, 2, padded=False),
    "layernorm_backward": partial(layernorm_backward, True),
    "layernorm_backward_unsaved": partial(layernorm_backward, False),
    "rmsnorm_plain": partial(rmsnorm, (6,), None, False),
    "rmsnorm_saved": partial(rmsnorm, (1, 1, 4, 6), (2, 3, 1, 1), True),
    "rmsnorm_channel": partial(rmsnorm, (1, 3, 1, 1), (2, 3, 1, 1), False),
    "rmsnorm_all_but_batch": partial(rmsnorm, ROWS, None, False),
    "rmsnorm_backward": partial(rmsnorm_backward, False),
    "rmsnorm_backward_biased": partial(rmsnorm_backward, True),
    **{f"reduction_{mode}": partial(reduction, mode, (2, 1, 4, 1)) for mode in REDUCTIONS},
    "reduction_rows": partial(reduction, "add", (1, 3, 1, 1)),
    "reduction_all": partial(reduction, "avg", (1, 1, 1, 1)),
    **{f"maxpool_{sizes}": partial(resample, "maxpool", sizes) for sizes in POOLS},
    "maxpool_index": partial(resample, "maxpool", "2d", index=True),
    "maxpool_index_asymmetric": partial(resample, "maxpool", "asymmetric", index=True),
    **{
        f"{mode}_{sizes}": partial(resample, mode, sizes)
        for mode in ("avgpool_exclude_padding", "avgpool_include_padding")
        for sizes in POOLS
    },
    **{
        f"resample_backward_{mode}": partial(resample_backward, mode)
        for mode in ("maxpool", "avgpool_exclude_padding", "avgpool_include_padding")
    },
    **{f"sdpa_{name}": partial(sdpa, **options) for name, options in SDPA.items()},
    "sdpa_paged": sdpa_paged,
    **{
        f"sdpa_backward_{name}": partial(sdpa_backward, **options)
        for name, options in SDPA_BACKWARD.items()
    },
    "dequantized_matmul": dequantized_matmul,
    "quantize": quantize,
    **{f"experts_{mode}": partial(experts, mode) for mode in ("none", "gather", "scatter")},
    "experts_backward": experts_backward,
}
"""Function of (dtype, layout) by name; dtypes are `FLOATS`, layouts `sketch.LAYOUTS`."""
