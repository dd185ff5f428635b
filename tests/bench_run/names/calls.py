"""Borrowed names, each called with these words: by the framework itself and by our reference.

`SHAPES` are the lengths that a call of a name is tried with, in words that every framework's spec
takes; `WORDS` are keys of the call itself, each line a call of its own.
"""

from __future__ import annotations

import re

import numpy as np

from bench_run.graph.make import make_graphs
from bench_run.graph.make.names import names, translated
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs

SHAPES = {
    "conv_fwd": "n=2 h=7 w=6 dtype=double",
    "conv_transpose": "n=2 h=5 w=4 dtype=double",
    "matmul": "m=4 n=5 k=6 dtype=double",
    "dense": "n=3 dtype=double",
    "pool": "n=2 c=3 h=8 w=9 dtype=double",
    "image": "n=2 c=6 h=4 w=5 dtype=double",
    "rows": "n=2 s=3 dtype=double",
    "scores": "n=4 c=6 dtype=double",
    "step": "n=3 dtype=double",
    "plain": "dims=4x6 dtype=double",
    "maps": "dims=2x8x4x6 dtype=double",
    "take": "n=7 c=4 k=5 dtype=double",
    "line": "n=9 dtype=double",
}
"""Words of lengths, by what the operation is like."""

LIKE = {
    **dict.fromkeys(("maxpool", "avgpool", "avgpool_padded"), "pool"),
    **dict.fromkeys(("global_avgpool", "global_maxpool", "lrn", "instance_norm"), "image"),
    **dict.fromkeys(("l2_normalization",), "image"),
    **dict.fromkeys(("batchnorm_training", "batchnorm_inference_variance"), "image"),
    **dict.fromkeys(("layernorm", "rmsnorm"), "rows"),
    **dict.fromkeys(("rnn_cell", "lstm_cell", "gru_cell"), "step"),
    **dict.fromkeys(("depth_to_space", "space_to_depth", "flatten"), "maps"),
    **dict.fromkeys(("take", "embedding"), "take"),
    **dict.fromkeys(("conv_fwd", "conv_transpose", "matmul", "dense"), None),
}
OWN = {
    "rnn": "t=4 n=3 dtype=double",
    "lstm": "t=4 n=3 dtype=double",
    "gru": "t=4 n=3 dtype=double",
    "sdpa": "b=2 h=2 s=5 d=4 dtype=double",
    "arange": "n=9 dtype=double",
    "eye": "n=5 dtype=double",
    "one_hot": "n=6 c=5",
    "logical_xor": "dims=4x6",
    "multinomial": "n=3 c=5 k=4 dtype=double",
    "sequence_mask": "t=5 n=3 c=2 dtype=double",
    "sequence_reverse": "t=5 n=3 c=2 dtype=double",
    "sequence_last": "t=5 n=3 c=2 dtype=double",
    "squeeze": "dims=4x6x3 dtype=double",
    "split": "dims=4x6 dtype=double",
    "randint": "dims=40x50",
    "argmax_channel": "dims=4x6 dtype=double",
}


def shape_of(ours: str) -> str:
    head = ours.partition(":")[0].split("+")[0].strip()
    text = _shape_of(head)
    if "spatial=1" in ours:
        return re.sub(r"h=\d+ ", "", text)
    return f"{text} d=4" if "spatial=3" in ours else text


def _shape_of(head: str) -> str:
    if head in OWN:
        return OWN[head]
    if head.startswith("random") or head in ("shuffle", "dropout"):
        return "dims=40x50 dtype=double"
    if head.endswith("_loss"):
        return SHAPES["scores"]
    return SHAPES[LIKE.get(head, "plain") or head]


WORDS = {
    # PyTorch
    "torch.add": ["alpha=1"],
    "torch.div": ["rounding_mode=none"],
    "torch.clamp": ["min=-0.25 max=0.5"],
    "torch.clip": ["min=-0.25 max=0.5"],
    "torch.nan_to_num": ["nan=1.5 posinf=7.0 neginf=-8.0", "posinf=7.0 neginf=-8.0"],
    "torch.argmax": ["dim=0 keepdim=1", "dim=1"],
    "torch.norm": ["dim=1", "dim=0 p=fro keepdim=1"],
    "torch.linalg.vector_norm": ["ord=2 dim=0", "dim=1"],
    "torch.var": [
        "dim=1",
        "dim=0 correction=0",
        "dim=0 correction=2",
        "dim=1 unbiased=0",
        "dim=1 unbiased=1 keepdim=1",
    ],
    "torch.sort": ["", "dim=0", "dim=1 descending=0"],
    "torch.argsort": ["", "dim=0"],
    "torch.topk": ["k=3", "k=2 dim=0"],
    "torch.repeat_interleave": ["repeats=2 dim=0", "repeats=2 dim=1"],
    "torch.addmm": ["", "beta=1 alpha=1"],
    "torch.transpose": ["dim0=0 dim1=1"],
    "torch.flatten": ["start_dim=1", "start_dim=1 end_dim=-1"],
    "nn.Flatten": ["", "start_dim=1"],
    "torch.unsqueeze": ["dim=1"],
    "torch.squeeze": ["dim=1"],
    "torch.cat": ["", "dim=1"],
    "torch.concat": ["", "dim=-1"],
    "torch.concatenate": ["", "dim=1"],
    "torch.stack": ["", "dim=0"],
    "torch.chunk": ["chunks=2", "chunks=2 dim=1"],
    "torch.tril": ["", "diagonal=0"],
    "torch.diag": ["", "diagonal=0"],
    "torch.full": ["fill_value=2.5"],
    "torch.full_like": ["fill_value=2.5"],
    "torch.arange": ["end=9", "start=0 end=7 step=1"],
    "torch.index_select": ["dim=0"],
    "torch.gather": ["dim=1"],
    "F.one_hot": ["num_classes=5"],
    "nn.Embedding": ["num_embeddings=7 embedding_dim=4"],
    "F.leaky_relu": ["", "negative_slope=0.2"],
    "nn.LeakyReLU": ["", "negative_slope=0.2"],
    "F.elu": ["", "alpha=0.5"],
    "nn.ELU": ["", "alpha=0.5"],
    "F.gelu": ["", "approximate=none", "approximate=tanh"],
    "nn.GELU": ["", "approximate=tanh"],
    "F.softplus": ["", "beta=2.0", "threshold=20"],
    "nn.Softplus": ["", "beta=2.0"],
    "F.hardtanh": ["", "min_val=-0.5 max_val=0.25"],
    "nn.Hardtanh": ["", "min_val=-0.5 max_val=0.25"],
    "F.linear": ["in_features=4 out_features=5", "in_features=4 out_features=5 bias=1"],
    "nn.Linear": ["in_features=4 out_features=5", "in_features=4 out_features=5 bias=0"],
    "F.layer_norm": ["normalized_shape=5", "normalized_shape=5 eps=0.1"],
    "nn.LayerNorm": ["normalized_shape=5", "normalized_shape=5 eps=0.1 elementwise_affine=1"],
    "F.rms_norm": ["normalized_shape=5 eps=0.1"],
    "nn.RMSNorm": ["normalized_shape=5 eps=0.1", "normalized_shape=5 eps=1e-5"],
    "nn.InstanceNorm2d": ["num_features=6 affine=1"],
    "F.local_response_norm": ["size=3", "size=5 alpha=0.01 beta=0.5 k=2.0"],
    "nn.LocalResponseNorm": ["size=3", "size=5 alpha=0.01 beta=0.5 k=2.0"],
    "F.normalize": ["", "p=2 dim=1"],
    "F.adaptive_avg_pool2d": ["output_size=1"],
    "nn.AdaptiveAvgPool2d": ["output_size=1"],
    "F.adaptive_max_pool2d": ["output_size=1"],
    "nn.AdaptiveMaxPool2d": ["output_size=1"],
    "F.pixel_shuffle": ["upscale_factor=2"],
    "nn.PixelShuffle": ["upscale_factor=2"],
    "F.pixel_unshuffle": ["downscale_factor=2"],
    "nn.PixelUnshuffle": ["downscale_factor=2"],
    "F.kl_div": ["", "reduction=batchmean", "reduction=sum", "reduction=none"],
    "nn.KLDivLoss": ["", "reduction=batchmean", "log_target=0"],
    "F.batch_norm": ["", "eps=0.1", "training=1", "training=1 momentum=0.3 eps=0.1"],
    "F.scaled_dot_product_attention": ["", "is_causal=1", "scale=0.3 dropout_p=0"],
    "torch.multinomial": ["num_samples=4 replacement=1"],
    "torch.broadcast_to": ["size=4x6"],
    "torch.rand": ["size=40x50"],
    "torch.randn": ["size=40x50"],
    **{
        f"{space}{name}": ["", "reduction=sum", "reduction=none", "reduction=mean"]
        for space, words in (
            ("F.", "l1_loss mse_loss huber_loss smooth_l1_loss poisson_nll_loss cross_entropy"),
            ("F.", "binary_cross_entropy_with_logits soft_margin_loss cosine_embedding_loss"),
            ("nn.", "L1Loss MSELoss HuberLoss SmoothL1Loss PoissonNLLLoss BCEWithLogitsLoss"),
            ("nn.", "CrossEntropyLoss SoftMarginLoss CosineEmbeddingLoss"),
        )
        for name in words.split()
    },
    **{
        f"torch.{name}": ["dim=0", "dim=1 keepdim=1"]
        for name in ["sum", "mean", "nansum", "prod", "amax", "amin", "logsumexp", "argmin"]
    },
    **{
        name: ["dim=0", "dim=1"]
        for name in [
            "torch.cumsum",
            "torch.cumprod",
            "torch.softmax",
            "F.softmax",
            "nn.Softmax",
            "F.softmin",
            "nn.Softmin",
            "torch.log_softmax",
            "F.log_softmax",
            "nn.LogSoftmax",
        ]
    },
    **{
        f"nn.{name}": [
            "input_size=4 hidden_size=5",
            f"input_size=4 hidden_size=5 bias=1{more}",
        ]
        for name, more in (
            ("RNNCell", " nonlinearity=tanh"),
            ("LSTMCell", ""),
            ("GRUCell", ""),
            ("RNN", " num_layers=1 nonlinearity=tanh"),
            ("LSTM", " num_layers=1"),
            ("GRU", " num_layers=1"),
        )
    },
    **{
        f"nn.BatchNorm{rank}d": [
            "num_features=6",
            "num_features=6 momentum=0.3 eps=0.1",
            "num_features=6 track_running_stats=0",
        ]
        for rank in (1, 2, 3)
    },
}
WORDS |= {
    # ONNX
    "onnx.IsInf": ["", "detect_negative=1 detect_positive=1"],
    "onnx.Elu": ["", "alpha=0.5"],
    "onnx.LeakyRelu": ["", "alpha=0.3"],
    "onnx.HardSigmoid": ["", "alpha=0.3 beta=0.4"],
    "onnx.Gelu": ["", "approximate=tanh"],
    "onnx.Mod": ["fmod=1"],
    "onnx.Softmax": ["", "axis=0"],
    "onnx.LogSoftmax": ["", "axis=0"],
    "onnx.ArgMax": ["", "axis=1", "axis=-1 keepdims=0"],
    "onnx.ArgMin": ["", "axis=1"],
    **{
        f"onnx.Reduce{name}": ["axes=0", "axes=1 keepdims=0"]
        for name in ["Sum", "Mean", "Prod", "Max", "Min", "L2", "LogSumExp", "L1"]
    },
    "onnx.CumSum": ["axis=0", "axis=1 exclusive=0 reverse=0"],
    "onnx.TopK": ["k=3", "k=2 axis=0 largest=1"],
    "onnx.DepthToSpace": ["blocksize=2", "blocksize=2 mode=CRD", "blocksize=2 mode=DCR"],
    "onnx.SpaceToDepth": ["blocksize=2"],
    "onnx.Gather": ["", "axis=0"],
    "onnx.GatherElements": ["axis=1"],
    "onnx.Concat": ["axis=0", "axis=1"],
    "onnx.Split": ["num_outputs=2", "num_outputs=2 axis=1"],
    "onnx.Flatten": ["", "axis=1"],
    "onnx.Unsqueeze": ["axes=1"],
    "onnx.Squeeze": ["axes=1"],
    "onnx.Trilu": ["upper=0"],
    "onnx.Cast": ["to=int64", "to=int32"],
    "onnx.BatchNormalization": ["", "epsilon=0.1 momentum=0.5"],
    "onnx.LayerNormalization": ["", "axis=-1 epsilon=0.1"],
    "onnx.RMSNormalization": ["", "epsilon=0.1"],
    "onnx.LpNormalization": ["axis=1 p=2"],
    "onnx.LRN": ["size=3", "size=5 alpha=0.01 beta=0.5 bias=2.0"],
    "onnx.MaxPool": ["kernel_shape=3x2", "kernel_shape=3x3 pads=1x0x0x1 strides=2x1"],
    "onnx.AveragePool": [
        "kernel_shape=3x2",
        "kernel_shape=3x3 pads=1x0x0x1 strides=2x1",
        "kernel_shape=3x3 pads=1x1x1x1 count_include_pad=1",
    ],
    "onnx.Gemm": ["", "transB=1"],
    "onnx.Conv": [
        "c=4 k=6 kernel_shape=3x2",
        "c=4 k=6 kernel_shape=3x2 pads=1x0x2x1 strides=2x1 dilations=1x2 group=2 B=1",
    ],
    "onnx.ConvTranspose": [
        "c=3 k=5 kernel_shape=3x2",
        "c=4 k=6 kernel_shape=3x2 pads=1x0x2x1 strides=2x1 dilations=1x2 group=2 B=1",
        "c=4 k=6 kernel_shape=3x3 strides=2x2 output_padding=1x0",
    ],
}
WORDS |= {
    # MXNet
    "mx.nd.full": ["val=2.5"],
    "mx.nd.arange": ["stop=9", "start=0 stop=7 step=1"],
    "mx.nd.clip": ["a_min=-0.25 a_max=0.5"],
    "mx.nd.hard_sigmoid": ["", "alpha=0.3 beta=0.4"],
    **{
        f"mx.nd.{name}": ["axis=0", "axis=1 keepdims=True exclude=0"]
        for name in ["sum", "mean", "prod", "nansum", "nanprod", "max", "min"]
    },
    "mx.nd.norm": ["axis=0", "axis=1 ord=2 keepdims=1"],
    "mx.nd.argmax": ["axis=0", "axis=1 keepdims=1"],
    "mx.nd.argmin": ["axis=0", "axis=1 keepdims=1"],
    "mx.nd.sort": ["", "axis=0 is_ascend=True"],
    "mx.nd.argsort": ["", "axis=0 is_ascend=True"],
    "mx.nd.topk": ["ret_typ=value", "k=3 ret_typ=value axis=1"],
    "mx.nd.softmax": ["", "axis=0"],
    "mx.nd.log_softmax": ["", "axis=0"],
    "mx.nd.softmin": ["", "axis=0"],
    "mx.nd.batch_dot": ["batch=2"],
    "mx.nd.depth_to_space": ["block_size=2"],
    "mx.nd.space_to_depth": ["block_size=2"],
    "mx.nd.take": ["", "axis=0 mode=clip"],
    "mx.nd.pick": ["", "axis=1"],
    "mx.nd.one_hot": ["depth=5"],
    "mx.nd.expand_dims": ["axis=1"],
    "mx.nd.squeeze": ["axis=1"],
    "mx.nd.swapaxes": ["dim1=0 dim2=-1"],
    "mx.nd.flip": ["axis=0", "axis=1"],
    "mx.nd.reverse": ["axis=0"],
    "mx.nd.tile": ["reps=2x2"],
    "mx.nd.repeat": ["repeats=2 axis=0"],
    "mx.nd.concat": ["", "dim=0"],
    "mx.nd.broadcast_to": ["shape=4x6"],
    "mx.nd.split": ["num_outputs=2", "num_outputs=2 axis=0"],
    "mx.nd.SliceChannel": ["num_outputs=2"],
    "mx.nd.Embedding": ["input_dim=7 output_dim=4"],
    "gluon.nn.Embedding": ["input_dim=7 output_dim=4"],
    "mx.nd.SequenceMask": ["use_sequence_length=1", "use_sequence_length=True value=0"],
    "mx.nd.SequenceReverse": ["use_sequence_length=1"],
    "mx.nd.SequenceLast": ["use_sequence_length=1"],
    **{
        f"mx.nd.random.{name}": ["", f"shape=40x50{more}"]
        for name, more in (
            *((each, "") for each in ("uniform", "normal", "randn", "exponential", "randint")),
            ("gamma", " alpha=3.0"),
            ("poisson", " lam=5.0"),
        )
    },
    "mx.nd.sgd_update": ["lr=0.1", "lr=0.1 wd=0.02"],
    "mx.nd.sgd_mom_update": ["lr=0.1", "lr=0.1 wd=0.02 momentum=0.8"],
    "mx.nd.adam_update": ["lr=0.1", "lr=0.1 wd=0.02 beta1=0.8 beta2=0.99"],
    "mx.nd.rmsprop_update": ["lr=0.1", "lr=0.1 wd=0.02 gamma1=0.9"],
    "mx.nd.signsgd_update": ["lr=0.1", "lr=0.1 wd=0.02"],
    "mx.nd.LRN": ["nsize=3", "nsize=5 alpha=0.01 beta=0.5 knorm=1.5"],
    "mx.nd.L2Normalization": ["mode=channel"],
    "mx.nd.InstanceNorm": ["", "eps=0.1"],
    "gluon.nn.InstanceNorm": ["scale=True", "scale=1 epsilon=0.1 in_channels=6"],
    "mx.nd.LayerNorm": ["", "axis=-1 eps=0.1"],
    "gluon.nn.LayerNorm": ["", "epsilon=0.1 in_channels=5"],
    "mx.nd.BatchNorm": [
        "fix_gamma=False",
        "fix_gamma=0 eps=0.1 momentum=0.5",
        "fix_gamma=0 use_global_stats=1",
    ],
    "gluon.nn.BatchNorm": ["", "epsilon=0.1 momentum=0.5 in_channels=6"],
    "mx.nd.Convolution": [
        "c=4 kernel=3x2 num_filter=6",
        "c=4 kernel=3x2 num_filter=6 stride=2x1 pad=1x0 dilate=1x2 num_group=2 no_bias=True",
    ],
    "mx.nd.Deconvolution": [
        "c=3 kernel=3x2 num_filter=5",
        "c=4 kernel=3x2 num_filter=6 stride=2x1 pad=1x0 adj=1x0 dilate=1x2 num_group=2 "
        "no_bias=False",
    ],
    "mx.nd.Pooling": [
        "kernel=3x2",
        "kernel=3x3 stride=2x2 pad=1x1 pool_type=avg",
        "kernel=3x3 pad=1x1 pool_type=max",
    ],
    "mx.nd.FullyConnected": ["c=4 num_hidden=5", "c=4 num_hidden=5 no_bias=1"],
    "gluon.nn.Dense": ["in_units=4 units=5", "in_units=4 units=5 use_bias=False"],
    "mx.nd.LeakyReLU": [
        "",
        "slope=0.1",
        "act_type=elu",
        "act_type=elu slope=0.5",
        "act_type=selu",
        "act_type=gelu",
        "act_type=prelu",
    ],
    "gluon.nn.LeakyReLU": ["alpha=0.3"],
    "gluon.nn.ELU": ["", "alpha=0.5"],
    "gluon.nn.Swish": ["", "beta=2.0"],
    "mx.nd.Activation": [
        f"act_type={k}" for k in ["relu", "sigmoid", "tanh", "softrelu", "softsign"]
    ],
    "gluon.nn.Activation": [
        f"activation={k}" for k in ["relu", "sigmoid", "tanh", "softrelu", "softsign"]
    ],
    **{
        f"gluon.rnn.{n}": ["input_size=4 hidden_size=5"] for n in ("RNNCell", "LSTMCell", "GRUCell")
    },
    "gluon.loss.L1Loss": ["", "weight=1 batch_axis=0"],
}
for _rank in (1, 2, 3):
    for _name in (f"gluon.nn.MaxPool{_rank}D", f"gluon.nn.AvgPool{_rank}D"):
        WORDS[_name] = ["", "pool_size=3 strides=2 padding=1"]
    WORDS[f"gluon.nn.AvgPool{_rank}D"].append("pool_size=3 padding=1 count_include_pad=False")
    WORDS[f"gluon.nn.Conv{_rank}D"] = [
        "in_channels=4 channels=6 kernel_size=3",
        "in_channels=4 channels=6 kernel_size=2 strides=2 padding=1 dilation=2 groups=2 use_bias=0",
    ]
    WORDS[f"gluon.nn.Conv{_rank}DTranspose"] = [
        "in_channels=3 channels=5 kernel_size=2",
        "in_channels=4 channels=6 kernel_size=2 strides=2 output_padding=1 dilation=2 groups=2 "
        "use_bias=0 padding=1",
    ]
for _rank in (1, 2, 3):
    _lengths = "x".join("223"[:_rank])
    for _name, _bias in ((f"F.conv{_rank}d", "1"), (f"nn.Conv{_rank}d", "0")):
        WORDS[_name] = [
            "in_channels=4 out_channels=6 kernel_size=3",
            f"in_channels=4 out_channels=6 kernel_size=2 stride={_lengths} padding=1 dilation=2",
            f"in_channels=4 out_channels=6 kernel_size=3 groups=2 bias={_bias}",
        ]
    for _name, _bias in ((f"F.conv_transpose{_rank}d", "1"), (f"nn.ConvTranspose{_rank}d", "0")):
        WORDS[_name] = [
            "in_channels=3 out_channels=5 kernel_size=3",
            f"in_channels=4 out_channels=6 kernel_size=3 stride={_lengths} padding=1 groups=2",
            "in_channels=4 out_channels=6 kernel_size=2 stride=2 dilation=2 output_padding=1 "
            f"bias={_bias}",
        ]
    for _name in (f"F.max_pool{_rank}d", f"nn.MaxPool{_rank}d"):
        WORDS[_name] = [
            "kernel_size=3",
            "kernel_size=3 stride=2 padding=1 ceil_mode=0 dilation=1",
            "kernel_size=2 return_indices=1",
        ]
    for _name in (f"F.avg_pool{_rank}d", f"nn.AvgPool{_rank}d"):
        WORDS[_name] = [
            "kernel_size=3",
            "kernel_size=3 stride=2 padding=1",
            "kernel_size=3 padding=1 count_include_pad=0",
        ]


ANY = {"stable": "1", "mode": "clip", "momentum": "0.5", "flatten": "1"}
"""Values of keys that change nothing; 1 of all others."""


def calls(framework: str) -> list[tuple[str, str]]:
    """Name and words of each call, with one more that says every key with the value it has."""
    found = []
    for row in names():
        if row.framework == framework:
            listed = WORDS.get(row.spelled, [""])
            said = {word.partition("=")[0] for words in listed for word in words.split()}
            first = {word.partition("=")[0] for word in listed[0].split()}
            more = [
                f"{key.theirs}={ANY.get(key.theirs, '1') if key.how == '~' else key.ours}"
                for key in row.keys.values()
                if key.how != ">" and key.theirs not in said | first
            ]
            found += [(row.spelled, words) for words in listed]
            found += [(row.spelled, " ".join((listed[0], *more)).strip())] * bool(more)
    return found


def made(spelled: str, words: str):
    """Return the graph, its inputs by name and the reference's results in order."""
    (row,) = (row for row in names() if row.spelled == spelled)
    items = tuple((k, v) for k, _, v in (word.partition("=") for word in words.split()))
    head, own, left = translated(row, items)
    shape = shape_of(f"{head}: {' '.join('='.join(pair) for pair in own)}")
    if row.last in ("linear", "Linear", "FullyConnected", "Dense"):
        shape, left = SHAPES["dense"], ()
    said = {key for key, _ in left}
    shape = " ".join(word for word in shape.split() if word.partition("=")[0] not in said)
    (graph, *_) = make_graphs(f"{spelled}: {words} {shape}")
    inputs = make_inputs(graph, 3)
    views = {uid: logical_view(storage, graph.by_uid[uid]) for uid, storage in inputs.items()}
    results = evaluate(graph, views)
    given = {graph.by_uid[uid].name: np.array(view) for uid, view in views.items()}
    return graph, given, [results[tensor.uid] for tensor in graph.outputs]
