"""Products of axes of `tune`: each changes what it names, and an error is that of the values."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from bench_run.graph.chain import ChainGraph
from bench_run.graph.layouts import channels_last, packed
from bench_run.graph.make import make_graphs
from bench_run.graph.make.spec import OPS, chain_parameters
from bench_run.plan.cases import plan_graph
from bench_run.plan.load import make_graph
from bench_run.plan.tuned import rewritten
from bench_run.reference import evaluate as reference
from bench_run.tensors.data import Data, inputs_of
from bench_run.tensors.layout import logical_view
from bench_run.validate.expected import APPROXIMATION
from bench_run.worker.evaluate import evaluate
from bench_run.worker.messages import Evaluate

SIZES = {"n": 2, "c": 4, "h": 6, "w": 6, "k": 4, "r": 3, "s": 3, "pad": 1, "to": "half"}
IMAGES = [
    name
    for name, row in OPS.items()
    if {"n", "h", "layout"} <= set(chain_parameters((row,))) and name != "conv_bgrad"
]
"""A gradient of a bias is a reduction, whose types and layouts are not varied."""
PRODUCTS = ("matmul: m=6 n=5 k=4", "matmul+bias+relu: m=6 n=5 k=4 batch=2")
EVERY = (*IMAGES, "conv_fwd+bias+relu", *PRODUCTS)
"""Every operation on images has a type and a layout; a product has a type and, fused, a fusion."""
AXES = {
    "dtype": ("float", "half", "bfloat16", "int8"),
    "layout": ("nchw", "nhwc"),
    "approx": ("none", "samp:1/2:0", "perf:1/2:row:0"),
    "fusion": ("on", "off"),
}
LAYOUTS = {"nchw": packed, "nhwc": channels_last}


def planned(op):
    if ":" not in op:
        names = chain_parameters(tuple(OPS[name] for name in op.split("+")))
        sizes = {**SIZES, "pad": 0, "window": 2} if "window" in names else SIZES
        op = f"{op}: {' '.join(f'{name}={sizes[name]}' for name in names if name in sizes)}"
    (built,) = make_graphs(op)
    return plan_graph(make_graph(built))


def products(graph):
    """Variants of two or more axes that change the graph, with what they make of it."""
    alone = {
        axis: [v for v in values if _changes(graph, {axis: v})] for axis, values in AXES.items()
    }
    axes = [axis for axis, values in alone.items() if values]
    for chosen in product(*(AXES[axis] for axis in axes)):
        yield dict(zip(axes, chosen, strict=True))


def _changes(graph, variant):
    made = rewritten(graph, variant)
    return not isinstance(made, str) and made is not graph


@pytest.mark.parametrize("op", EVERY)
def test_the_error_of_a_product_is_that_of_the_same_values(op, tmp_path):
    graph = planned(op)
    whole = graph.loaded.graph
    for number, variant in enumerate(products(graph)):
        made = rewritten(graph, variant)
        assert not isinstance(made, str), (variant, made)
        near = made.loaded.graph
        request = Evaluate(near, Data(seed=3), str(tmp_path / str(number)), exact=made.exact)
        evaluate(None, request)
        origins = _origins(near)
        inputs = inputs_of(near, request.data)
        values = {origins[u]: logical_view(s, near.by_uid[u]) for u, s in inputs.items()}
        wanted = reference(whole, {t.uid: values[t.uid] for t in whole.inputs})
        paths = Path(request.folder).glob("*.npy")
        found = {int(path.stem): np.load(path) for path in paths}
        errors = {
            origins[uid]: _error(each, wanted.get(origins[uid])) for uid, each in found.items()
        }
        errors = {uid: error for uid, error in errors.items() if error is not None}
        assert {t.uid for t in whole.outputs} == set(errors), variant
        if made.exact is None:
            assert max(errors.values()) < 0.02, (variant, errors)
            continue
        stored = json.loads((tmp_path / str(number) / APPROXIMATION).read_text())
        stored = {origins[int(uid)]: error for uid, error in stored.items()}
        assert errors == pytest.approx(stored, rel=1e-4, abs=1e-6), variant


def _origins(graph):
    if not isinstance(graph, ChainGraph):
        return {tensor.uid: tensor.uid for tensor in graph.tensors}
    return {own: uid for place in graph.places for uid, own in place.uids.items()}


def _error(found, wanted):
    if wanted is None:
        return None
    gap = np.linalg.norm(np.asarray(found, float) - np.asarray(wanted, float))
    return gap / max(np.linalg.norm(np.asarray(wanted, float)), 1e-30)


@pytest.mark.parametrize("op", EVERY)
def test_the_data_of_a_product_have_its_type_and_layout(op):
    graph = planned(op)
    for variant in products(graph):
        made = rewritten(graph, variant).loaded.graph
        kind = variant["dtype"]
        if kind == "int8":
            assert rewritten(graph, {"dtype": kind}) is graph or any(
                tensor.data_type == kind for tensor in made.tensors
            ), variant
        else:
            assert kind in {tensor.data_type for tensor in (*made.inputs, *made.outputs)}, variant
        images = [t for t in (*made.inputs, *made.outputs) if len(t.dims) == 4 and t.dims[2] > 1]
        if "layout" in variant and not isinstance(made, ChainGraph):
            assert {LAYOUTS[variant["layout"]](t.dims) for t in images} == {
                t.strides for t in images
            }, variant
