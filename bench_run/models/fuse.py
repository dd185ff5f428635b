"""Calls before they become graphs: joined with what follows them, or taken apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bench_run.models.model import Array, Call, Model, float64

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTIVATIONS = ("relu", "relu6", "gelu", "gelu_tanh", "sigmoid", "tanh", "swish")
TAKES_ACTIVATION = ("conv", "linear", "matmul", "add")


def fuse(model: Model) -> Model:
    """Batch norms folded into the convolutions before them, activations joined to what they
    follow, wherever nobody else reads the value between. A joined call knows its parts."""
    calls, weights = list(model.calls), dict(model.weights)
    users = _users(model)
    made: dict[str, int] = {}
    kept: list[Call | None] = []
    for call in calls:
        source = call.inputs[0] if call.inputs else None
        place = made.get(source) if isinstance(source, str) else None
        before = None if place is None or users[str(source)] > 1 else kept[place]
        joined = None if before is None else _joined(before, call, weights)
        if joined is None:
            kept.append(call)
            made.update(dict.fromkeys(call.outputs, len(kept) - 1))
        else:
            assert place is not None
            kept[place] = None
            assert before is not None
            kept.append(replace(joined, parts=(before, call)))
            made.update(dict.fromkeys(joined.outputs, len(kept) - 1))
    return replace(model, calls=tuple(c for c in kept if c is not None), weights=weights)


def _users(model: Model) -> Counter[str]:
    read = [name for call in model.calls for name in call.inputs if isinstance(name, str)]
    return Counter([*read, *model.outputs])


def _joined(before: Call, call: Call, weights: dict[str, Array]) -> Call | None:
    if call.kind == "batchnorm" and before.kind == "conv" and "act" not in before.attributes:
        return _folded(before, call, weights)
    if call.kind in ACTIVATIONS and before.kind in TAKES_ACTIVATION:
        if "act" in before.attributes:
            return None
        return replace(
            before, outputs=call.outputs, attributes={**before.attributes, "act": call.kind}
        )
    return None


def _folded(conv: Call, norm: Call, weights: dict[str, Array]) -> Call | None:
    """y = (w·x + b − mean)·s + bias with s = scale/√(var + eps) is a convolution too."""
    w_name, b_name = conv.inputs[1], conv.inputs[2]
    if w_name not in weights or (b_name is not None and b_name not in weights):
        return None
    if norm.inputs[3] not in weights or norm.inputs[4] not in weights:
        return None
    w = float64(weights[str(w_name)])
    variance = float64(weights[str(norm.inputs[4])]) + norm.attributes["eps"]
    if not np.all(variance > 0):
        return None
    old = np.zeros(len(w)) if b_name is None else float64(weights[str(b_name)])
    _, scale_name, bias_name, mean, _ = norm.inputs
    scale = _or(weights, scale_name, np.ones(len(w)))
    bias = _or(weights, bias_name, np.zeros(len(w)))
    factor = scale / np.sqrt(variance)
    names = f"{norm.outputs[0]}.w", f"{norm.outputs[0]}.bias"
    weights[names[0]] = w * factor.reshape((-1,) + (1,) * (w.ndim - 1))
    weights[names[1]] = (old - float64(weights[str(mean)])) * factor + bias
    return replace(conv, inputs=(conv.inputs[0], *names), outputs=norm.outputs)


def _or(weights: dict[str, Array], name: str | float | None, otherwise: Array) -> Array:
    return float64(weights[name]) if isinstance(name, str) else otherwise


def take_apart(model: Model) -> Model:
    """Biases of convolutions and matrix products as additions of their own."""
    dims = dict(model.dims)
    calls = [made for call in model.calls for made in _apart(call, dims)]
    return replace(model, calls=tuple(calls), dims=dims)


def _apart(call: Call, dims: dict[str, tuple[int, ...]]) -> Iterator[Call]:
    biased = call.kind in ("conv", "linear", "matmul") and call.inputs[2] is not None
    if not biased:
        yield call
        return
    between = f"{call.outputs[0]}.unbiased"
    dims[between] = dims[call.outputs[0]]
    yield replace(call, inputs=(*call.inputs[:2], None), outputs=(between,))
    kind = "channel_bias" if call.kind == "conv" else "add"
    yield Call(kind, f"{call.name}.bias", (between, call.inputs[2]), call.outputs, {}, "bias")
