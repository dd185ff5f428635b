"""Small pipelines for tests, and the chains they make."""

from pathlib import Path

from bench_schema.pipeline import parse_pipeline

from bench_run.graph.chain import compose
from bench_run.graph.make import make_graphs

IMAGE = "n=2 c=4 h=6 w=6 dtype=float"
RESIDUAL = f"""
[[input]]
name = "image"
init = "normal"
[[graph]]
id = "conv"
op = "conv_fwd+bias+relu: {IMAGE} k=4 pad=1"
tensor = {{ x = "image" }}
init = {{ w = "uniform:-0.3:0.3" }}
[[graph]]
id = "again"
op = "conv_fwd+bias+relu: {IMAGE} k=4 pad=1"
tensor = {{ x = "conv:y" }}
[[graph]]
id = "sum"
op = "add: {IMAGE}"
tensor = {{ x = "again:y", b = "image" }}
"""
VIEWS = """
[[graph]]
id = "qkv"
op = "matmul+bias: m=6 n=24 k=8"
[[graph]]
id = "scores"
op = "matmul: batch=2 m=3 n=3 k=4 layout=nt"
tensor = { a = "qkv:y", b = "qkv:y@24" }
[[graph]]
id = "wide"
op = "add: dims=36"
tensor = { x = "qkv:y@7", b = "qkv:y" }
"""
"""Reads parts of one tensor, in other shapes."""
REPEATED = """
[[graph]]
id = "matmul"
op = "matmul: m=4 n=4 k=4"
repeat = 3
[[graph]]
id = "act"
op = "relu: dims=4x4"
tensor = { x = "matmul:c" }
"""
UNLINKED = """
[[graph]]
op = "relu: dims=4x5"
[[graph]]
op = "sigmoid: dims=4x5"
"""
SLICED = """
[[input]]
name = "rows"
[[graph]]
id = "part"
op = "relu: dims=4x8"
tensor = { x = "rows@32" }
[[graph]]
id = "whole"
op = "matmul+bias: m=8 n=4 k=8"
tensor = { a = "rows" }
"""
"""A part of an input is read before the graph that holds all of it."""
ALL = {
    "residual": RESIDUAL,
    "views": VIEWS,
    "repeated": REPEATED,
    "unlinked": UNLINKED,
    "sliced": SLICED,
}


def chain(text, path="net.toml"):
    pipeline = parse_pipeline(text, Path(path))
    graphs = {layer.op: make_graphs(layer.op)[0] for layer in pipeline.layers}
    by_id = {layer.id: graphs[layer.op] for layer in pipeline.layers}
    return compose(pipeline, by_id, Path(path))
