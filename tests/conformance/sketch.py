"""Small graphs as values, drawn tensor by tensor."""

from __future__ import annotations

import itertools
import math

from bench_run.graph.model import Graph, Node, Tensor

LAYOUTS = ("packed", "last", "gaps")


def strides(dims, layout):
    """``packed``: row-major. ``last``: axis 1 fastest (NHWC), for matrices column-major.
    ``gaps``: packed with one unused element after each row."""
    order = list(range(len(dims)))
    if layout == "last" and len(dims) > 1:
        order.append(order.pop(1))
    step, found = 1, [1] * len(dims)
    for axis in reversed(order):
        found[axis] = step
        step *= dims[axis] + (layout == "gaps" and axis == order[-1])
    return tuple(found)


class Sketch:
    """Collects tensors and nodes; `graph` makes the value."""

    def __init__(self, name, dtype, layout="packed", compute="float"):
        self.name, self.dtype, self.layout, self.compute = name, dtype, layout, compute
        self.tensors, self.nodes = [], []
        self._uids = itertools.count()

    def tensor(self, *dims, dtype=None, layout=None, **facts):
        """Its uid. Types and layouts are the sketch's own unless given."""
        uid = next(self._uids)
        steps = strides(dims, self.layout if layout is None else layout)
        kind = self.dtype if dtype is None else dtype
        self.tensors.append(Tensor(uid, f"t{uid}", kind, dims, steps, **facts))
        return uid

    def constant(self, value, dtype="float"):
        return self.tensor(1, dtype=dtype, layout="packed", value=value)

    def node(self, kind, inputs, outputs, lists=None, **attributes):
        name = f"node{len(self.nodes)}"
        self.nodes.append(Node(kind, name, self.compute, inputs, outputs, attributes, lists or {}))
        return self

    def graph(self):
        return Graph(
            self.name, self.dtype, "float", self.compute, tuple(self.tensors), tuple(self.nodes)
        )


def out_length(length, kernel, pre, post, stride, dilation):
    return (length + pre + post - dilation * (kernel - 1) - 1) // stride + 1


def convolution(kind, sketch, x, w, pre, post, stride, dilation, mode="cross_correlation"):
    """The graph of one convolution in any direction, for the dims of x and w."""
    out = tuple(
        out_length(*sizes) for sizes in zip(x[2:], w[2:], pre, post, stride, dilation, strict=True)
    )
    dims = {"x": x, "w": w, "y": (x[0], w[0], *out)}
    roles = {"Fwd": ("x", "w", "y"), "Bwd": ("y", "w", "x"), "Wrw": ("x", "y", "w")}[kind]
    ports = {"Fwd": ("x", "w", "y"), "Bwd": ("dy", "w", "dx"), "Wrw": ("x", "dy", "dw")}[kind]
    uids = [sketch.tensor(*dims[role]) for role in roles]
    a, b, result = ports
    return sketch.node(
        f"Convolution{kind}Attributes",
        {a: uids[0], b: uids[1]},
        {result: uids[2]},
        pre_padding=pre,
        post_padding=post,
        stride=stride,
        dilation=dilation,
        conv_mode=mode,
    )


def elements(graph):
    return sum(math.prod(tensor.dims) for tensor in graph.tensors)
