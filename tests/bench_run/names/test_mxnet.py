"""Every name of MXNet's is what its documentation says, by formulas written down from there.

MXNet is archived and no longer installs. Sources: MXNet 1.7 to 1.9, python/mxnet/gluon/loss.py,
gluon/nn/*.py, gluon/rnn/rnn_cell.py, src/operator/mshadow_op.h, optimizer_op.cc and the parameter
structs of src/operator/nn; https://mxnet.apache.org/versions/1.9.1/api/python/docs/api/.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench_run.graph.make.names import names
from tests.bench_run.names.calls import WORDS, calls, made


def truth(x):
    return np.asarray(x, float)


def half_away(x):
    return np.where(x < 0, np.ceil(x - 0.5), np.floor(x + 0.5))


def half_down(x):
    low, high = np.floor(x), np.ceil(x)
    return np.where(x - low <= high - x, low, high)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    return np.vectorize(math.erf)(x)


UNARY = {
    **{
        name: getattr(np, name)
        for name in ["sin", "cos", "tan", "arcsin", "arccos", "arctan", "degrees"]
    },
    **{
        name: getattr(np, name)
        for name in ["radians", "sinh", "cosh", "tanh", "arcsinh", "arccosh"]
    },
    **{
        name: getattr(np, name)
        for name in ["arctanh", "exp", "expm1", "log", "log2", "log10", "log1p"]
    },
    **{
        name: getattr(np, name)
        for name in ["square", "sqrt", "cbrt", "abs", "fix", "trunc", "floor", "ceil"]
    },
    **{name: getattr(np, name) for name in ["sign", "negative", "zeros_like", "ones_like"]},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "erf": erf,
    "round": half_away,
    "rint": half_down,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": sigmoid,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "logical_not": lambda x: truth(x == 0),
    "transpose": np.transpose,
    "flatten": lambda x: x.reshape(len(x), -1),
    "Flatten": lambda x: x.reshape(len(x), -1),
    "shape_array": lambda x: np.array(x.shape),
    "size_array": lambda x: np.array([x.size]),
}
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "sub": np.subtract,
    "multiply": np.multiply,
    "mul": np.multiply,
    "divide": np.divide,
    "div": np.divide,
    "modulo": np.mod,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "lesser": np.less,
    "lesser_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


def rows(losses):
    """The mean over all axes but that of the batch."""
    return losses.reshape(len(losses), -1).mean(1)


def log_softmax(x, axis=-1):
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def conv(x, w, b, kernel, stride, pad, dilate, groups, rank):
    """Cross-correlation, one tap after another; w is (out, in/groups, taps…)."""
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, stride, dilate, strict=True)
    ]
    out = np.zeros((len(x), len(w), *sizes))
    per_in, per_out = x.shape[1] // groups, len(w) // groups
    for tap in np.ndindex(*kernel):
        cut = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilate, sizes, stride, strict=True)
        )
        part = x[(slice(None), slice(None), *cut)]
        for g in range(groups):
            mine = part[:, g * per_in : (g + 1) * per_in]
            weights = w[(slice(g * per_out, (g + 1) * per_out), slice(None), *tap)]
            out[:, g * per_out : (g + 1) * per_out] += np.einsum("nc...,kc->nk...", mine, weights)
    return out if b is None else out + b.reshape(-1, *[1] * rank)


def deconv(x, w, b, kernel, stride, pad, adj, dilate, groups, rank):
    """Each input adds its filter to the output; w is (in, out/groups, taps…)."""
    per_in, per_out = x.shape[1] // groups, w.shape[1]
    sizes = [
        (n - 1) * s - 2 * p + d * (k - 1) + 1 + a
        for n, s, p, d, k, a in zip(x.shape[2:], stride, pad, dilate, kernel, adj, strict=True)
    ]
    out = np.zeros((len(x), per_out * groups, *sizes))
    for place in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*kernel):
            at = tuple(
                i * s - p + t * d
                for i, s, p, t, d in zip(place, stride, pad, tap, dilate, strict=True)
            )
            if any(not 0 <= i < n for i, n in zip(at, sizes, strict=True)):
                continue
            for g in range(groups):
                mine = x[(slice(None), slice(g * per_in, (g + 1) * per_in), *place)]
                weights = w[(slice(g * per_in, (g + 1) * per_in), slice(None), *tap)]
                part = (slice(None), slice(g * per_out, (g + 1) * per_out), *at)
                out[part] += mine @ weights
    return out if b is None else out + b.reshape(-1, *[1] * rank)


def pool(x, kernel, stride, pad, how, inside):
    """`inside`: the mean counts the padding too."""
    rank = x.ndim - 2
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)], constant_values=np.nan)
    sizes = [(n - k) // s + 1 for n, k, s in zip(padded.shape[2:], kernel, stride, strict=True)]
    out = np.zeros((*x.shape[:2], *sizes))
    axes = tuple(range(2, 2 + rank))
    for place in np.ndindex(*sizes):
        cut = tuple(slice(i * s, i * s + k) for i, s, k in zip(place, stride, kernel, strict=True))
        part = padded[(slice(None), slice(None), *cut)]
        if how == "max":
            found = np.nanmax(part, axes)
        else:
            found = np.nansum(part, axes) / (
                math.prod(kernel) if inside else (~np.isnan(part)).sum(axes)
            )
        out[(slice(None), slice(None), *place)] = found
    return out


def each(text, rank, usual):
    numbers = [int(n) for n in (text or str(usual)).split("x")]
    return numbers * rank if len(numbers) == 1 else numbers


def convolution(g, w, names, transposed):
    """Convolution and Deconvolution; `names`: the framework's words."""
    data, weights = g["dy" if transposed else "x"], g["w"]
    rank = data.ndim - 2
    kernel = weights.shape[2:]
    stride, pad = each(w.get(names[0]), rank, 1), each(w.get("padding", w.get("pad")), rank, 0)
    dilate = each(w.get("dilation", w.get("dilate")), rank, 1)
    groups = int(w.get("groups", w.get("num_group", "1")))
    bias = g.get("bias")
    if transposed:
        adj = each(w.get("output_padding", w.get("adj")), rank, 0)
        return deconv(data, weights, bias, kernel, stride, pad, adj, dilate, groups, rank)
    return conv(data, weights, bias, kernel, stride, pad, dilate, groups, rank)


def pooling(g, w, how):
    rank = g["x"].ndim - 2
    kernel = each(w.get("kernel", w.get("pool_size")), rank, 2)
    usual = "x".join(map(str, kernel)) if "kernel" not in w else 1
    stride = each(w.get("stride", w.get("strides")), rank, usual)
    pad = each(w.get("padding", w.get("pad")), rank, 0)
    return pool(g["x"], kernel, stride, pad, how, w.get("count_include_pad", "1") == "1")


def batch_norm(g, eps, axes):
    mean, var = g["x"].mean(axes, keepdims=True), g["x"].var(axes, keepdims=True)
    return (g["x"] - mean) / np.sqrt(var + eps) * g["scale"] + g["bias"]


def batch(g, w, usual):
    eps = float(w.get("eps", w.get("epsilon", usual)))
    if w.get("use_global_stats") == "1":
        x = (g["x"] - g["mean"]) / np.sqrt(g["variance"] + eps)
        return x * g["scale"] + g["bias"]
    return batch_norm(g, eps, (0, *range(2, g["x"].ndim)))


def instance(g, w, usual):
    eps = float(w.get("eps", w.get("epsilon", usual)))
    x = g["x"]
    x = (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + eps)
    return x * g["g"][:, None, None] + g["b"][:, None, None]


def layer(g, w):
    return batch_norm(g, float(w.get("eps", w.get("epsilon", 1e-5))), (-1,))


def lrn(g, w):
    size, x = int(w["nsize"]), g["x"]
    alpha, beta, k = (
        float(w.get(n, v)) for n, v in (("alpha", 1e-4), ("beta", 0.75), ("knorm", 2))
    )
    sums = np.zeros_like(x)
    for c in range(x.shape[1]):
        sums[:, c] = (x[:, max(0, c - size // 2) : c + size // 2 + 1] ** 2).sum(1)
    return x / (k + alpha / size * sums) ** beta


def blocks(x, b):
    n, c, h, w = x.shape
    return (
        x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, -1, h * b, w * b)
    )


def unblocks(x, b):
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * b * b, h // b, w // b)


def leaky(g, w):
    kind, slope, x = w.get("act_type", "leaky"), float(w.get("slope", 0.25)), g["x"]
    if kind == "gelu":
        return x * 0.5 * (1 + erf(x / math.sqrt(2)))
    if kind == "selu":
        return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))
    if kind == "prelu":
        return np.where(x > 0, x, x * g["w"])
    return np.where(x > 0, x, slope * (np.expm1(x) if kind == "elu" else x))


def activation(kind, x):
    kinds = {"relu": UNARY["relu"], "sigmoid": sigmoid, "tanh": np.tanh}
    kinds |= {"softrelu": lambda x: np.log1p(np.exp(x)), "softsign": UNARY["softsign"]}
    return kinds[kind](x)


def rnn_cell(g, _):
    return np.tanh(g["x"] @ g["u"].T + g["p"] + g["s"] @ g["w"].T + g["q"])


def lstm_cell(g, _):
    i, f, c, o = np.split(g["x"] @ g["u"].T + g["p"] + g["s"] @ g["w"].T + g["q"], 4, 1)
    return sigmoid(o) * np.tanh(sigmoid(f) * g["m"] + sigmoid(i) * np.tanh(c))


def gru_cell(g, _):
    a = np.split(g["x"] @ g["u"].T + g["p"], 3, 1)
    b = np.split(g["s"] @ g["w"].T + g["q"], 3, 1)
    r, z = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
    return (1 - z) * np.tanh(a[2] + r * b[2]) + z * g["s"]


def reduced(function):
    return lambda g, w: function(g["x"], axis=int(w["axis"]))


def number(w, key, usual):
    return float(w.get(key, usual))


def sgd(g, w):
    lr, wd = number(w, "lr", 0.01), number(w, "wd", 0)
    return (1 - lr * wd) * g["w"] - lr * g["g"]


def sgd_momentum(g, w):
    lr, wd, momentum = number(w, "lr", 0.01), number(w, "wd", 0), number(w, "momentum", 0)
    m = momentum * g["m"] - lr * wd * g["w"] - lr * g["g"]
    return g["w"] + m, m


def adam(g, w):
    lr, wd = number(w, "lr", 0.01), number(w, "wd", 0)
    b1, b2 = number(w, "beta1", 0.9), number(w, "beta2", 0.999)
    grad = g["g"] + wd * g["w"]
    m, v = b1 * g["m"] + (1 - b1) * grad, b2 * g["v"] + (1 - b2) * grad**2
    return g["w"] - lr * m / (np.sqrt(v) + 1e-8), m, v


def rmsprop(g, w):
    lr, wd, gamma = number(w, "lr", 0.01), number(w, "wd", 0), number(w, "gamma1", 0.95)
    grad = g["g"] + wd * g["w"]
    n = (1 - gamma) * grad**2 + gamma * g["v"]
    return g["w"] - lr * grad / np.sqrt(n + 1e-8), n


def sign_sgd(g, w):
    lr, wd = number(w, "lr", 0.01), number(w, "wd", 0)
    return (1 - lr * wd) * g["w"] - lr * np.sign(g["g"])


def cosine(g, _):
    a, b = g["x"], g["p"]
    cos = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
    return np.where(g["t"] == 1, 1 - cos, np.maximum(0, cos))


def steps(g):
    return np.arange(len(g["x"]))[:, None]


def reversed_steps(g, _):
    out = g["x"].copy()
    for n, length in enumerate(g["i"]):
        out[:length, n] = g["x"][:length, n][::-1]
    return out


def halves(x, axis):
    return tuple(np.split(x, 2, axis))


CALLS = {
    "mx.nd.zeros": lambda g, w: np.zeros((4, 6)),
    "mx.nd.ones": lambda g, w: np.ones((4, 6)),
    "mx.nd.full": lambda g, w: np.full((4, 6), float(w["val"])),
    "mx.nd.eye": lambda g, w: np.eye(5),
    "mx.nd.arange": lambda g, w: np.arange(float(w["stop"])),
    "mx.nd.where": lambda g, w: np.where(g["c"], g["x"], g["b"]),
    "mx.nd.batch_take": lambda g, w: g["x"][np.arange(len(g["x"])), g["i"][:, 0]],
    "mx.nd.reshape_like": lambda g, w: g["x"].reshape(g["b"].shape),
    "mx.nd.clip": lambda g, w: np.clip(g["x"], float(w["a_min"]), float(w["a_max"])),
    "mx.nd.hard_sigmoid": lambda g, w: np.clip(
        number(w, "alpha", 0.2) * g["x"] + number(w, "beta", 0.5), 0, 1
    ),
    **{f"mx.nd.{n}": reduced(getattr(np, n)) for n in ["sum", "mean", "prod", "nansum", "nanprod"]},
    "mx.nd.max": reduced(np.max),
    "mx.nd.min": reduced(np.min),
    "mx.nd.norm": reduced(lambda x, axis: np.sqrt((x * x).sum(axis))),
    "mx.nd.argmax": reduced(np.argmax),
    "mx.nd.argmin": reduced(np.argmin),
    "mx.nd.argmax_channel": lambda g, w: np.argmax(g["x"], 1),
    "mx.nd.sort": lambda g, w: np.sort(g["x"], int(w.get("axis", -1))),
    "mx.nd.argsort": lambda g, w: np.argsort(g["x"], int(w.get("axis", -1))),
    "mx.nd.topk": lambda g, w: np.flip(np.sort(g["x"], 1), 1)[:, : int(w.get("k", 1))],
    "mx.nd.softmax": lambda g, w: np.exp(log_softmax(g["x"], int(w.get("axis", -1)))),
    "mx.nd.log_softmax": lambda g, w: log_softmax(g["x"], int(w.get("axis", -1))),
    "mx.nd.softmin": lambda g, w: np.exp(log_softmax(-g["x"], int(w.get("axis", -1)))),
    "mx.nd.dot": lambda g, w: g["a"] @ g["b"],
    "mx.nd.batch_dot": lambda g, w: g["a"] @ g["b"],
    "mx.nd.depth_to_space": lambda g, w: blocks(g["x"], int(w["block_size"])),
    "mx.nd.space_to_depth": lambda g, w: unblocks(g["x"], int(w["block_size"])),
    "mx.nd.take": lambda g, w: g["x"][g["i"]],
    "mx.nd.pick": lambda g, w: g["x"][np.arange(len(g["x"])), g["i"][:, 0]],
    "mx.nd.one_hot": lambda g, w: np.eye(int(w["depth"]))[g["i"]],
    "mx.nd.expand_dims": lambda g, w: g["x"][:, None],
    "mx.nd.squeeze": lambda g, w: g["x"][:, 0],
    "mx.nd.swapaxes": lambda g, w: np.swapaxes(g["x"], int(w["dim1"]), int(w["dim2"])),
    "mx.nd.flip": lambda g, w: np.flip(g["x"], int(w["axis"])),
    "mx.nd.reverse": lambda g, w: np.flip(g["x"], int(w["axis"])),
    "mx.nd.tile": lambda g, w: np.tile(g["x"], (2, 2)),
    "mx.nd.repeat": lambda g, w: np.repeat(g["x"], 2, int(w["axis"])),
    "mx.nd.concat": lambda g, w: np.concatenate((g["x"], g["b"]), int(w.get("dim", 1))),
    "mx.nd.stack": lambda g, w: np.stack((g["x"], g["b"])),
    "mx.nd.broadcast_to": lambda g, w: np.broadcast_to(g["x"], (4, 6)),
    "mx.nd.split": lambda g, w: halves(g["x"], int(w.get("axis", 1))),
    "mx.nd.SliceChannel": lambda g, w: halves(g["x"], int(w.get("axis", 1))),
    "mx.nd.diag": lambda g, w: np.diag(g["x"]),
    "mx.nd.cast": lambda g, w: g["x"].astype(np.int64),
    "mx.nd.Embedding": lambda g, w: g["x"][g["i"]],
    "gluon.nn.Embedding": lambda g, w: g["x"][g["i"]],
    "mx.nd.SequenceMask": lambda g, w: g["x"] * (steps(g) < g["i"])[:, :, None],
    "mx.nd.SequenceReverse": reversed_steps,
    "mx.nd.SequenceLast": lambda g, w: g["x"][g["i"] - 1, np.arange(len(g["i"]))],
    "mx.nd.sgd_update": sgd,
    "mx.nd.sgd_mom_update": sgd_momentum,
    "mx.nd.adam_update": adam,
    "mx.nd.rmsprop_update": rmsprop,
    "mx.nd.signsgd_update": sign_sgd,
    "mx.nd.LRN": lrn,
    "mx.nd.L2Normalization": lambda g, w: g["x"] / np.sqrt((g["x"] ** 2).sum(1, keepdims=True)),
    "mx.nd.InstanceNorm": lambda g, w: instance(g, w, 1e-3),
    "gluon.nn.InstanceNorm": lambda g, w: instance(g, w, 1e-5),
    "mx.nd.LayerNorm": layer,
    "gluon.nn.LayerNorm": layer,
    "mx.nd.BatchNorm": lambda g, w: batch(g, w, 1e-3),
    "gluon.nn.BatchNorm": lambda g, w: batch(g, w, 1e-5),
    "mx.nd.Convolution": lambda g, w: convolution(g, w, ("stride",), transposed=False),
    "mx.nd.Deconvolution": lambda g, w: convolution(g, w, ("stride",), transposed=True),
    **{
        f"gluon.nn.Conv{n}D": lambda g, w: convolution(g, w, ("strides",), transposed=False)
        for n in (1, 2, 3)
    },
    **{
        f"gluon.nn.Conv{n}DTranspose": lambda g, w: convolution(g, w, ("strides",), transposed=True)
        for n in (1, 2, 3)
    },
    "mx.nd.Pooling": lambda g, w: pooling(g, w, w.get("pool_type", "max")),
    **{f"gluon.nn.MaxPool{n}D": lambda g, w: pooling(g, w, "max") for n in (1, 2, 3)},
    **{f"gluon.nn.AvgPool{n}D": lambda g, w: pooling(g, w, "avg") for n in (1, 2, 3)},
    **{f"gluon.nn.GlobalMaxPool{n}D": lambda g, w: g["x"].max((2, 3)) for n in (1, 2, 3)},
    **{f"gluon.nn.GlobalAvgPool{n}D": lambda g, w: g["x"].mean((2, 3)) for n in (1, 2, 3)},
    "mx.nd.FullyConnected": lambda g, w: (
        g["x"] @ g["w"].T + g["b"] if "w" in g else g["a"] @ g["b"]
    ),
    "gluon.nn.Dense": lambda g, w: g["x"] @ g["w"].T + g["b"] if "w" in g else g["a"] @ g["b"],
    "mx.nd.LeakyReLU": leaky,
    "gluon.nn.LeakyReLU": lambda g, w: np.where(g["x"] > 0, g["x"], float(w["alpha"]) * g["x"]),
    "gluon.nn.ELU": lambda g, w: np.where(
        g["x"] > 0, g["x"], number(w, "alpha", 1) * np.expm1(g["x"])
    ),
    "gluon.nn.SELU": lambda g, w: leaky(g, {"act_type": "selu"}),
    "gluon.nn.GELU": lambda g, w: leaky(g, {"act_type": "gelu"}),
    "gluon.nn.Swish": lambda g, w: g["x"] * sigmoid(number(w, "beta", 1) * g["x"]),
    "mx.nd.Activation": lambda g, w: activation(w.get("act_type", "relu"), g["x"]),
    "gluon.nn.Activation": lambda g, w: activation(w.get("activation", "relu"), g["x"]),
    "gluon.rnn.RNNCell": rnn_cell,
    "gluon.rnn.LSTMCell": lstm_cell,
    "gluon.rnn.GRUCell": gru_cell,
    "gluon.loss.L1Loss": lambda g, w: rows(np.abs(g["x"] - g["t"])),
    "gluon.loss.L2Loss": lambda g, w: rows(0.5 * (g["x"] - g["t"]) ** 2),
    "gluon.loss.SigmoidBinaryCrossEntropyLoss": lambda g, w: rows(
        np.maximum(g["x"], 0) - g["x"] * g["t"] + np.log1p(np.exp(-np.abs(g["x"])))
    ),
    "gluon.loss.SoftmaxCrossEntropyLoss": lambda g, w: (
        -log_softmax(g["x"])[np.arange(len(g["t"])), g["t"]]
    ),
    "gluon.loss.KLDivLoss": lambda g, w: rows(g["t"] * (np.log(g["t"] + 1e-12) - g["x"])),
    "gluon.loss.HuberLoss": lambda g, w: rows(
        np.where(
            np.abs(g["x"] - g["t"]) > 1,
            np.abs(g["x"] - g["t"]) - 0.5,
            0.5 * (g["x"] - g["t"]) ** 2,
        )
    ),
    "gluon.loss.HingeLoss": lambda g, w: rows(np.maximum(1 - g["x"] * g["t"], 0)),
    "gluon.loss.SquaredHingeLoss": lambda g, w: rows(np.maximum(1 - g["x"] * g["t"], 0) ** 2),
    "gluon.loss.LogisticLoss": lambda g, w: rows(np.log1p(np.exp(-g["x"] * g["t"]))),
    "gluon.loss.TripletLoss": lambda g, w: np.maximum(
        ((g["p"] - g["x"]) ** 2 - (g["q"] - g["x"]) ** 2).sum(1) + 1, 0
    ),
    "gluon.loss.CosineEmbeddingLoss": cosine,
    "gluon.loss.PoissonNLLLoss": lambda g, w: (np.exp(g["x"]) - g["t"] * g["x"]).mean(),
}
RANDOM = {
    # mean and standard deviation of the distributions with these words
    "mx.nd.random.uniform": lambda w: (0.5, 12**-0.5),
    "mx.nd.random.normal": lambda w: (0, 1),
    "mx.nd.random.randn": lambda w: (0, 1),
    "mx.nd.random.exponential": lambda w: (1, 1),
    "mx.nd.random.gamma": lambda w: (number(w, "alpha", 1), number(w, "alpha", 1) ** 0.5),
    "mx.nd.random.poisson": lambda w: (number(w, "lam", 1), number(w, "lam", 1) ** 0.5),
    "mx.nd.random.randint": lambda w: (49.5, ((100**2 - 1) / 12) ** 0.5),
    "mx.nd.random.negative_binomial": lambda w: (3, 6**0.5),
    "mx.nd.random.shuffle": lambda w: (1, 12**-0.5),
    # the mean of x/p or 0 and its deviation, for x as it is filled
    "mx.nd.Dropout": lambda w: (1, (7 / 6) ** 0.5),
    "gluon.nn.Dropout": lambda w: (1, (7 / 6) ** 0.5),
}


def of_mxnet(spelled, words, given):
    said = dict(word.split("=") for word in words.split())
    said = {key: {"True": "1", "False": "0"}.get(value, value) for key, value in said.items()}
    if spelled in CALLS:
        return CALLS[spelled](given, said)
    last = spelled.rpartition(".")[2].removeprefix("elemwise_").removeprefix("broadcast_")
    return (UNARY[last] if last in UNARY else BINARY[last])(*given.values())


@pytest.mark.parametrize(
    ("spelled", "words"), [call for call in calls("mxnet") if call[0] not in RANDOM]
)
def test_a_name_means_what_mxnets_documentation_says(spelled, words):
    graph, given, ours = made(spelled, words)
    found = of_mxnet(spelled, words, given)
    found = found if isinstance(found, tuple) else (found,)
    for tensor, result, wanted in zip(graph.outputs, ours, found, strict=False):
        wanted = np.asarray(wanted, float)
        assert [n for n in tensor.dims if n != 1] == [n for n in wanted.shape if n != 1]
        np.testing.assert_allclose(
            result.reshape(-1).astype(float), wanted.reshape(-1), rtol=1e-7, atol=1e-11
        )


@pytest.mark.parametrize(
    ("spelled", "words"), [call for call in calls("mxnet") if call[0] in RANDOM]
)
def test_a_random_name_has_the_distribution_of_mxnets_documentation(spelled, words):
    graph, _, _ = made(spelled, words)
    said = dict(word.split("=") for word in words.split())
    assert graph.nodes[0].custom.tolerance["drawn"][:2] == pytest.approx(RANDOM[spelled](said))


def test_every_key_of_every_name_is_in_a_call():
    missing = []
    every = [call for framework in ("torch", "onnx", "mxnet") for call in calls(framework)]
    for row in names():
        said = " ".join(words for spelled, words in every if spelled == row.spelled)
        keys = [*row.keys, *(f"{key}={value}" for key, value in row.cases)]
        truth = said.replace("True", "1").replace("False", "0")
        missing += [f"{row.spelled}: {key}" for key in keys if key not in truth]
    assert missing == []


def test_every_call_of_the_table_of_words_is_a_name():
    spelled = {call for framework in ("torch", "onnx", "mxnet") for call, _ in calls(framework)}
    assert set(WORDS) <= spelled
