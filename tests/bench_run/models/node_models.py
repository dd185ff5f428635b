"""Every node model of the package onnx: what becomes graphs, and whether these compute the same.

`python -m tests.bench_run.models.node_models [WORD]...` prints a table: whole, in part, refused and
why. With words only models whose names hold one of them.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from bench_run.errors import BenchRunError
from bench_run.models.lower import ModelLowering, fuse, linkable
from bench_run.models.onnx_file import read_onnx
from bench_run.models.own import LOWERINGS
from bench_run.models.save import save_model
from bench_run.plan.load import read_chain
from bench_run.tensors.computed import compute_expected
from bench_run.tensors.seeded.inputs import make_chain_inputs

ATOL = {"float16": 1e-3, "bfloat16": 2e-2}
"""Absolute tolerance by type; 1e-5 otherwise. The golden values were computed in that type."""


def node_models():
    """Name, model, inputs and golden outputs of each."""
    import onnx
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    for each in found:
        inputs, outputs = (
            [onnx.numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in side]
            for side in each.data_sets[0]
        )
        yield each.name, each.model, inputs, outputs


def outcome(model, inputs, outputs, folder):
    """``whole``, ``part``, ``refused`` or ``wrong``, and why; `folder` is empty."""
    import onnx

    path = Path(folder) / "net.onnx"
    onnx.save(model, path)
    try:
        read = read_onnx(str(path))
    except BenchRunError as error:
        return "refused", str(error).replace(str(path), "MODEL")
    lowering = ModelLowering(fuse(read), LOWERINGS)
    lowering.run()
    if not lowering.layers:
        reasons = {f"{one.call.operation}: {one.reason}" for one in lowering.refused}
        return "refused", "; ".join(sorted(reasons)) or "nothing is computed: views, or constants"
    made = save_model(lowering, Path(folder) / "out", weights=True, backward=False)
    if made.pipeline.left_out:
        rows = {f"{row.operation}: {row.reason}" for row in made.pipeline.left_out}
        return "part", "; ".join(sorted(rows))
    names = [value.name for value in model.graph.output]
    views = {name: lowering.views.get(name) for name in names}
    if any(view is None or view.layer is None for view in views.values()):
        return "part", "a result is a view of an input, or a constant"
    chain = read_chain(made.path).graph
    given = dict(zip((value.name for value in model.graph.input), inputs, strict=True))
    memory = written(chain, feed(lowering, chain, given))
    for name, wanted in zip(names, outputs, strict=True):
        found = seen(views[name], memory)
        atol = ATOL.get(wanted.dtype.name, 1e-5)
        same = found.shape == wanted.shape and np.allclose(
            found, np.asarray(wanted).astype(np.float64), 1e-3, atol, equal_nan=True
        )
        if not same:
            return "wrong", name
    return "whole", ""


def feed(lowering, chain, given):
    """Storages of the chain's inputs with the model's own."""
    inputs = make_chain_inputs(chain, 0, ())
    sources = {
        f"{layer.id}:{tensor}": view
        for layer in lowering.layers
        for tensor, view in layer.links.items()
        if view.layer is None
    }
    by_link = {linkable(name): value for name, value in given.items()}
    for tensor in chain.inputs:
        if tensor.uid in chain.weights:
            continue
        view = sources.get(tensor.name)
        name = tensor.name if view is None else view.tensor
        if name.endswith(".added"):  # a truth mask, which is added to scores
            value = np.where(np.asarray(given[name.removesuffix(".added")], bool), 0.0, -np.inf)
        else:
            value = by_link[linkable(name)]
        flat, storage = np.asarray(value).reshape(-1), inputs[tensor.uid]
        start = 0 if storage.size == flat.size else view.offset
        storage[...] = flat[start : start + storage.size]
    return inputs


def written(chain, inputs):
    """Memory of each output by its name."""
    memory = {}
    with np.errstate(all="ignore"):
        found = compute_expected(chain, inputs)
    for tensor in chain.outputs:
        place = sum(
            (np.indices(tensor.dims)[n] * step for n, step in enumerate(tensor.strides)),
            np.zeros(tensor.dims, int),
        )
        memory[tensor.name] = np.zeros(tensor.span, np.float64)
        memory[tensor.name][place.reshape(-1)] = np.asarray(found[tensor.uid]).reshape(-1)
    return memory


def seen(view, memory):
    """The values of a view of a layer's result."""
    parts = [part for axis in view.axes for part in axis]
    lengths = tuple(length for length, _ in parts)
    place = view.offset + sum(
        (np.indices(lengths)[n] * step for n, (_, step) in enumerate(parts)),
        np.zeros(lengths, int),
    )
    return memory[f"{view.layer}:{view.tensor}"][place].reshape(view.dims)


def main(words):
    counts, reasons = Counter(), {"part": Counter(), "refused": Counter()}
    for name, model, inputs, outputs in node_models():
        if words and not any(word in name for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            status, why = outcome(model, inputs, outputs, folder)
        counts[status] += 1
        if status in reasons:
            reasons[status][re.sub(r"\d+(x\d+)*", "N", why)[:110]] += 1
        elif status == "wrong":
            print(f"wrong: {name}: {why}")
    total = sum(counts.values())
    print(f"{total} node models: {', '.join(f'{n} {name}' for name, n in counts.most_common())}")
    for status, found in reasons.items():
        for why, count in found.most_common():
            print(f"{status:8} {count:4}  {why}")


if __name__ == "__main__":
    main(sys.argv[1:])
