"""What it takes to load and plan a graph, by its size: seconds, and the exponent of their growth.

Chains (each node reads the one before), fences (each node shares an operand with each neighbour)
and a graph of two nodes with very many tensors that none uses. Goals: 20,000 nodes in less than
2 s of processor time with an exponent of at most 1.05; 300,000 idle tensors in less than 5 s, where
the parser's pages, 40 MB of text, grow a little faster than their number.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

import orjson

from bench_run.graph.sources.load import load
from bench_run.plan.cases import plan_graph

REPEATS = 5


def tensors(count, virtual=()):
    return [
        {"uid": uid, "data_type": "float", "dims": [4], "strides": [1], "virtual": uid in virtual}
        for uid in range(count)
    ]


def node(mode, operands, result):
    inputs = {f"in_{i}_tensor_uid": uid for i, uid in enumerate(operands)}
    return {
        "type": "PointwiseAttributes",
        "compute_data_type": "float",
        "inputs": {"operation": mode, **inputs},
        "outputs": {"out_0_tensor_uid": result},
    }


def chain(count):
    nodes = [node("relu_fwd", [i], i + 1) for i in range(count)]
    return {"tensors": tensors(count + 1, range(1, count)), "nodes": nodes}


def fence(count):
    first = count + 1
    nodes = [node("add", [i, i + 1], first + i) for i in range(count)]
    return {"tensors": tensors(first + count), "nodes": nodes}


def idle(count):
    return {**chain(2), "tensors": [*chain(2)["tensors"], *tensors(count)[3:]]}


def seconds(path):
    taken = []
    for _ in range(REPEATS):
        begin = time.process_time()
        plan_graph(load([str(path)]).graphs[0])
        taken.append(time.process_time() - begin)
    return min(taken)


GOALS = (
    (chain, (2_500, 5_000, 10_000, 20_000), 2.0, 1.05),
    (fence, (2_500, 5_000, 10_000, 20_000), 2.0, 1.05),
    (idle, (37_500, 75_000, 150_000, 300_000), 5.0, 1.15),
)
"""Shape, sizes, most seconds that the largest may take, largest exponent."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.json")
        for shape, sizes, most_seconds, most_exponent in GOALS:
            taken = []
            for size in sizes:
                path.write_bytes(orjson.dumps(shape(size)))
                taken.append(seconds(path))
            exponent = math.log(taken[-1] / taken[0]) / math.log(sizes[-1] / sizes[0])
            row = ", ".join(f"{n:,}: {s:.2f} s" for n, s in zip(sizes, taken, strict=True))
            print(f"{shape.__name__:6} {row}; exponent {exponent:.2f}")
            assert taken[-1] < most_seconds
            assert exponent <= most_exponent


if __name__ == "__main__":
    main()
