"""Pipelines of op specs: ResNet-50 and an encoder block of a transformer, in any size and type.

Usage:
  chain_pipelines.py FOLDER

Writes ``resnet50.toml`` (batch 32, half,
NHWC, batch norms folded), ``trunk.toml`` (the same without pooling and last layer, which cuDNN has
no graphs for) and ``encoder.toml`` (batch 8, 512 tokens, half).
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from bench_schema.pipeline import Input, Layer, LeftOut, Link, Pipeline, pipeline_text

from tests.benchmarks.harness import script

BLOCKS = (3, 4, 6, 3)
WITHOUT = (
    LeftOut("maxpool", 1, 0.0, "an engine without pooling"),
    LeftOut("avgpool", 1, 0.0, "an engine without pooling"),
    LeftOut("matmul", 1, 0.0005, "reads the second pooling"),
)


def uniform(fan_in, gain):
    """Weights that multiply the variance of what they read by `gain`."""
    bound = math.sqrt(3 * gain / fan_in)
    return f"uniform:-{bound:.4f}:{bound:.4f}"


class Net:
    """Layers so far; each method adds one and returns where its result is."""

    def __init__(self, dtype, layout):
        self.form = f"dtype={dtype} layout={layout}"
        self.dtype, self.layout = dtype, layout
        self.layers = []

    def add(self, name, op, links, init=None, output="y"):
        named = {key: where for key, where in links.items() if where is not None}
        self.layers.append(Layer(name, op=op, links=named, init=init or {}))
        return Link(output, name)

    def conv(self, name, x, size, k, r=1, stride=1, act="+relu", gain=2.0):
        n, c, h = size
        op = (
            f"conv_fwd+bias{act}: n={n} c={c} h={h} w={h} k={k} r={r} s={r} "
            f"pad={r // 2} stride={stride} {self.form}"
        )
        init = {"w": uniform(c * r * r, gain), "bias": "uniform:-0.1:0.1"}
        return self.add(name, op, {"x": x}, init), (n, k, (h - 1) // stride + 1)

    def dense(self, name, x, m, n, k, act=""):
        op = f"matmul+bias{act}: m={m} n={n} k={k} dtype={self.dtype} layout=nt"
        init = {"b": uniform(k, 1.0), "bias": "uniform:-0.1:0.1"}
        return self.add(name, op, {"a": x}, init)


def resnet50(batch=32, image=224, width=64, blocks=BLOCKS, dtype="half", layout="nhwc", pool=True):
    """Without pooling a strided convolution takes the place of the first, and the rest ends before
    the last."""
    net = Net(dtype, layout)
    x, size = net.conv("conv1", Link("image"), (batch, 3, image), width, 7, 2)
    n, c, h = size
    if pool:
        spec = f"maxpool: n={n} c={c} h={h} w={h} window=3 pad=1 stride=2 {net.form}"
        x, size = net.add("maxpool", spec, {"x": x}), (n, c, (h - 1) // 2 + 1)
    else:
        x, size = net.conv("shrink", x, size, width, 3, 2)
    for stage, count in enumerate(blocks):
        for index in range(count):
            stride = 2 if stage and not index else 1
            x, size = _bottleneck(net, f"layer{stage + 1}.{index}", x, size, width << stage, stride)
    about = f"ResNet-50, forward, batch {batch}, {dtype}, batch norms folded into convolutions."
    given = (Input("image", "normal"),)
    if not pool:
        about = f"{about} A strided convolution for the first pooling; ends before the second."
        return Pipeline("trunk", about, tuple(net.layers), given, (x,), WITHOUT)
    n, c, h = size
    x = net.add("avgpool", f"avgpool: n={n} c={c} h={h} w={h} window={h} {net.form}", {"x": x})
    out = net.dense("fc", x, n, 1000, c)
    return Pipeline("resnet50", about, tuple(net.layers), given, (out,))


def _bottleneck(net, name, x, size, width, stride):
    a, inner = net.conv(f"{name}.conv1", x, size, width)
    b, inner = net.conv(f"{name}.conv2", a, inner, width, 3, stride)
    c, out = net.conv(f"{name}.conv3", b, inner, 4 * width, act="", gain=0.5)
    if size[1] != 4 * width:
        x, _ = net.conv(f"{name}.downsample", x, size, 4 * width, stride=stride, act="", gain=1.0)
    n, channels, h = out
    total = f"add+relu: n={n} c={channels} h={h} w={h} {net.form}"
    return net.add(f"{name}.add", total, {"x": c, "b": x}), out


def encoder(batch=8, tokens=512, hidden=768, heads=12, dtype="half", act="+gelu"):
    net = Net(dtype, "bshd")
    rows, source = batch * tokens, Link("tokens")
    q, k, v = (net.dense(name, source, rows, hidden, hidden) for name in "qkv")
    shape = f"b={batch} h={heads} s={tokens} d={hidden // heads}"
    attended = net.add(
        "attention", f"sdpa: {shape} {net.form}", {"q": q, "k": k, "v": v}, output="o"
    )
    x = net.dense("project", attended, rows, hidden, hidden)
    flat = f"dims={rows}x{hidden} dtype={dtype}"
    norm = f"layernorm: n={batch} s={tokens} h={hidden} dtype={dtype}"
    x = net.add("add1", f"add: {flat}", {"x": x, "b": source})
    x = skip = net.add("norm1", norm, {"x": x})
    x = net.dense("up", x, rows, 4 * hidden, hidden, act)
    x = net.dense("down", x, rows, hidden, 4 * hidden)
    x = net.add("add2", f"add: {flat}", {"x": x, "b": skip})
    out = net.add("norm2", norm, {"x": x})
    about = f"An encoder block, forward, batch {batch}, {tokens} tokens of {hidden}, {dtype}."
    return Pipeline("encoder", about, tuple(net.layers), (Input("tokens", "normal"),), (out,))


def write(pipeline, folder):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{pipeline.name}.toml"
    path.write_text(pipeline_text(pipeline, folder), encoding="utf-8")
    return path


def main(folder: str) -> None:
    for made in (resnet50(), resnet50(pool=False), encoder()):
        sys.stdout.write(f"{write(made, Path(folder))}\n")


if __name__ == "__main__":
    script(main)
