"""Plain functions that several tests share."""

from __future__ import annotations

import os

import psutil

from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.worker import life as start
from tests.conformance.graphs import FAMILIES


def child_pids():
    """Processes that this one has started and that still run."""
    forked = start.start_module.__module__ != start.__name__
    assert not forked, "forked workers are no children: the test needs the fixture fresh_workers"
    children = psutil.Process().children()
    return {child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE}


def register_engines(folder, **modules):
    """Makes a folder look like an installed distribution: names of engines and their modules."""
    name = next(iter(modules))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    entries = "".join(f"{engine} = {module}\n" for engine, module in modules.items())
    (info / "entry_points.txt").write_text(f"[bench_run.engines]\n{entries}")


def graph_json(name="small_add", dims=(4, 8), data_type="float", operation="add"):
    """A pointwise graph of two inputs, as JSON."""
    strides = [dims[1], 1]
    tensors = [
        {
            "uid": uid,
            "name": label,
            "dims": list(dims),
            "strides": strides,
            "data_type": data_type,
            "virtual": False,
        }
        for uid, label in ((0, "a"), (1, "b"), (2, "c"))
    ]
    node = {
        "name": "node",
        "type": "PointwiseAttributes",
        "compute_data_type": "float",
        "inputs": {"operation": operation, "in_0_tensor_uid": 0, "in_1_tensor_uid": 1},
        "outputs": {"out_0_tensor_uid": 2},
    }
    types = dict.fromkeys(("io_data_type", "intermediate_data_type", "compute_data_type"), "float")
    return {"name": name, **types, "tensors": tensors, "nodes": [node]}


def write_two_graphs(folder):
    """A pointwise graph, and a matrix product, which engines of a BLAS take."""
    folder.mkdir()
    for name in ("pointwise_add", "matmul_2d"):
        graph = FAMILIES[name]("float", "packed")
        (folder / f"{name}.json").write_bytes(write_graph(graph))
    return str(folder)


def examples(count):
    """How many of `count` examples Hypothesis tries: all in every profile but that of each commit,
    which tries a third."""
    return count if os.environ.get("HYPOTHESIS_PROFILE", "steady") != "steady" else -(-count // 3)
