"""Small graphs for tests, and strategies that draw them."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod
from pathlib import Path

from hypothesis import strategies as st

from bench_run.graph.model import Graph, Node, Tensor
from bench_run.graph.operations import POINTWISE_MODES, make_node

ROOT = Path(__file__).resolve().parents[3]
COLLECTION = ROOT / "tests" / "data" / "graphs"
"""Small graphs of ours in every dialect and with every feature that files of others have."""
COLLECTED = tuple(
    path
    for path in sorted(COLLECTION.glob("*.json"))
    if not path.name.endswith((".template.json", ".sweep.json", ".meta.json"))
)


def packed(dims):
    return tuple(prod(dims[i + 1 :]) for i in range(len(dims)))


def tensor(uid, dims, data_type="float", **more):
    dims = tuple(dims)
    return Tensor(uid, f"t{uid}", data_type, dims, more.pop("strides", packed(dims)), **more)


def graph(tensors, nodes):
    return Graph("g", "float", "float", "float", tuple(tensors), tuple(nodes))


def pointwise(mode, operands, result, **attributes):
    inputs = {f"in_{i}": uid for i, uid in enumerate(operands)}
    return make_node("pointwise", inputs, {"out_0": result}, {"operation": mode, **attributes})


CONV = {
    "pre_padding": (1, 1),
    "post_padding": (1, 1),
    "stride": (1, 1),
    "dilation": (1, 1),
    "conv_mode": "cross_correlation",
}


def conv_bias_relu():
    tensors = [
        tensor(1, [2, 4, 5, 5]),
        tensor(2, [6, 4, 3, 3]),
        tensor(3, [2, 6, 5, 5], virtual=True),
        tensor(4, [1, 6, 1, 1]),
        tensor(5, [2, 6, 5, 5], virtual=True),
        tensor(6, [2, 6, 5, 5]),
    ]
    nodes = [
        make_node("conv_fwd", {"x": 1, "w": 2}, {"y": 3}, CONV),
        pointwise("add", [3, 4], 5),
        pointwise("relu_fwd", [5], 6),
    ]
    return graph(tensors, nodes)


@st.composite
def strides(draw, dims):
    """Strides of any memory order, with gaps here and there."""
    order = draw(st.permutations(range(len(dims))))
    result, step = [0] * len(dims), 1
    for axis in order:
        result[axis] = step
        step = step * dims[axis] + draw(st.integers(0, 2))
    return tuple(result)


FLOATS = ("float", "half", "bfloat16", "double", "fp8_e4m3")
ARITHMETIC = sorted(name for name, mode in POINTWISE_MODES.items() if name != "gen_index")


@st.composite
def graphs(draw):
    """A web of element-wise nodes over tensors of one shape, some of them virtual or constant."""
    dims = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    tensors = [draw(_operand(uid, dims)) for uid in range(draw(st.integers(1, 3)))]
    nodes: list[Node] = []
    for index in range(draw(st.integers(1, 5))):
        mode = draw(st.sampled_from(ARITHMETIC))
        known = [t.uid for t in tensors if t.value is None] or [0]
        count = POINTWISE_MODES[mode].arity
        chosen = [draw(st.sampled_from(known))]
        chosen += [draw(st.sampled_from([t.uid for t in tensors])) for _ in range(count - 1)]
        result = draw(_operand(len(tensors), dims, constants=False))
        tensors.append(result)
        clip = {"relu_upper_clip": draw(st.floats(0, 9))} if "relu" in mode else {}
        nodes.append(replace(pointwise(mode, chosen, result.uid, **clip), name=f"n{index}"))
    return _with_virtuals(graph(tensors, nodes))


@st.composite
def _operand(draw, uid, dims, constants=True):
    data_type = draw(st.sampled_from(FLOATS))
    if constants and uid and draw(st.booleans()):
        ones = tuple(1 for _ in dims)
        return tensor(uid, ones, "float", value=draw(st.floats(-9, 9)))
    return tensor(uid, dims, data_type, strides=draw(strides(dims)))


def _with_virtuals(whole):
    """Results that later nodes read become virtual."""
    inner = whole.produced & whole.consumed
    return replace(whole, tensors=tuple(replace(t, virtual=t.uid in inner) for t in whole.tensors))


def renamed(whole, seed):
    """The same graph with other names, other uids and its tensors in another order."""
    draw = random.Random(seed)
    fresh = draw.sample(range(1000, 2000), len(whole.tensors))
    new = {t.uid: uid for t, uid in zip(whole.tensors, fresh, strict=True)}
    tensors = [replace(t, uid=new[t.uid], name=f"x{new[t.uid]}") for t in whole.tensors]
    draw.shuffle(tensors)
    nodes = [
        replace(
            node,
            name=f"m{draw.random()}",
            inputs={port: new[uid] for port, uid in node.inputs.items()},
            outputs={port: new[uid] for port, uid in node.outputs.items()},
            extras={"_comment": "another one"},
        )
        for node in whole.nodes
    ]
    draw.shuffle(nodes)
    return replace(whole, name="other", tensors=tuple(tensors), nodes=tuple(nodes))
