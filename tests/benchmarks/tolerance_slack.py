"""The largest error that passes validation, by operation and type, and what honest engines use.

Wrong results are made from the reference's: all elements times 1 + d (scaled), all moved by d of
their own size in one direction (moved), or by d of the root mean square (offset), then rounded to
the output's type. The table shows the largest d that passes, in half units in the last place (u)
of the type; for attention the same in percent. The last two columns show the largest part of a
limit that an honest engine used, for one element and for all.

Limits: of *scaled* 2.3 u in half and bfloat16, 30 u in float; of what is used 0.8. Exit code 1 if
a row is beyond one of them.

Usage:
  tolerance_slack.py [--engines=SPECS] [WORD]...

Options:
  --engines=SPECS  engines, with commas; those that cannot run are left out
                   [default: numpy,torch:cpu]

With words only operations that contain one of them.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from bench_run.engines import engine_module
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.make import make_graphs
from bench_run.reference import evaluate
from bench_run.tensors.difference import Bound, difference
from bench_run.tensors.layout import logical_view, to_storage
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.outputs import compare
from bench_run.validate.tolerance import Circumstances, criteria, tolerances
from tests.benchmarks.harness import script

FLOATS = ("float", "half", "bfloat16")
SPECS = {
    "add": "add: dims=64x4096",
    "mul": "mul: dims=64x4096",
    "exp": "exp: dims=64x4096",
    "gelu": "gelu: dims=64x4096",
    "sigmoid": "sigmoid: dims=64x4096",
    "matmul, k 512": "matmul: m=256 n=256 k=512",
    "matmul, k 4096": "matmul: m=128 n=128 k=4096",
    "conv_fwd 3x3": "conv_fwd: n=2 c=64 h=28 w=28 k=64 r=3 s=3 pad=1",
    "conv_dgrad 3x3": "conv_dgrad: n=2 c=64 h=28 w=28 k=64 r=3 s=3 pad=1",
    "conv_wgrad 3x3": "conv_wgrad: n=2 c=64 h=28 w=28 k=64 r=3 s=3 pad=1",
    "reduction add": "reduce_add: dims=512x1024 axes=1",
    "reduction add, many": "reduce_add: dims=16384x256 axes=1",
    "avgpool": "avgpool: n=8 c=32 h=28 w=28",
    "batchnorm inference": "batchnorm_inference: n=8 c=64 h=28 w=28",
    "batchnorm training": "batchnorm_training: n=8 c=64 h=28 w=28",
    "layernorm": "layernorm: dims=512x1024",
    "rmsnorm": "rmsnorm: dims=512x1024",
    "batchnorm backward": "batchnorm_bwd: n=8 c=64 h=28 w=28",
    "layernorm backward": "layernorm_bwd: dims=512x1024",
    "rmsnorm backward": "rmsnorm_bwd: dims=512x1024",
    "sdpa": "sdpa: b=1 h=4 s=512 d=64",
    "sdpa causal": "sdpa: b=1 h=4 s=512 d=64 mask=causal",
    "sdpa_bwd": "sdpa_bwd: b=1 h=4 s=256 d=64",
    "sdpa_bwd causal": "sdpa_bwd: b=1 h=4 s=256 d=64 mask=causal",
}
WAYS = {
    "scaled": lambda e, d: e * (1 + d),
    "moved": lambda e, d: e + d * np.abs(e),
    "offset": lambda e, d: e + d * np.sqrt(np.mean(e * e)),
}
LARGEST = 2.0
STEPS = 12


def opened(names):
    for name in names.split(","):
        spec = parse_spec(name)
        module = engine_module(spec.name)
        if module.probe().ok:
            yield module.open(spec, EngineOptions())


def honest(engine, graph, inputs):
    plan = engine.plan(engine.build(graph, engine.variants(graph)[0]))
    try:
        plan.upload(inputs)
        plan.run()
        engine.stream.synchronize()
        return plan.download()
    finally:
        plan.close()


def used(found, expected, tensor, tolerance):
    """Parts of the limits: of the worst element, of the larger of what all share."""
    actual = np.asarray(logical_view(found, tensor), np.float64).ravel()
    wanted = np.asarray(expected, np.float64).ravel()
    error = np.abs(actual - wanted)
    worst = float(np.max(error / (tolerance.atol + tolerance.rtol * np.abs(wanted) + 1e-300)))
    whole = difference(actual, wanted, Bound(0.0, np.inf), 0)
    parts = [error / limit for _, error, limit in criteria(whole, tolerance.shared, wanted)]
    return worst, max(parts)


def passes(way, d, expected, tensor, tolerance):
    wrong = to_storage(WAYS[way](np.asarray(expected, np.float64), d), tensor)
    return compare(wrong, expected, tensor, tolerance, 0).mismatched == 0


def largest(way, expected, tensor, tolerance):
    """By bisection on a logarithmic scale; 0 where nothing passes."""
    low, high = DTYPES[tensor.data_type].unit_roundoff / 64, LARGEST
    if not passes(way, low, expected, tensor, tolerance):
        return 0.0
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        passed = passes(way, middle, expected, tensor, tolerance)
        low, high = (middle, high) if passed else (low, middle)
    return low


def row(spec, runners):
    (graph,) = make_graphs(spec)
    inputs = make_inputs(graph, 1)
    arrays = {t.uid: logical_view(inputs[t.uid], t) for t in graph.inputs}
    expected = evaluate(graph, arrays)
    allowed = tolerances(graph, circumstances=Circumstances(inputs))
    results = []
    for engine in runners:
        with suppress(UnsupportedGraphError):
            results.append(honest(engine, graph, inputs))
    for tensor in graph.outputs:
        tolerance = allowed[tensor.uid]
        if tolerance.shared is None or expected[tensor.uid].size < 256:
            continue
        facts = [used(r[tensor.uid], expected[tensor.uid], tensor, tolerance) for r in results]
        sizes = [largest(way, expected[tensor.uid], tensor, tolerance) for way in WAYS]
        yield tensor, sizes, *(max((f[i] for f in facts), default=0.0) for i in (0, 1))


MOST = {"float": 30.0, "half": 2.3, "bfloat16": 2.3}
MOST_USED = 0.8


def main(word: list[str], engines: str) -> int:
    runners = list(opened(engines))
    beyond = 0
    print("| operation | output | type | scaled | moved | offset | one element | all elements |")
    print("|---|---|---|---|---|---|---|---|")
    for name, spec in SPECS.items():
        if word and not any(one in name for one in word):
            continue
        for dtype in FLOATS:
            for tensor, sizes, worst, shared in row(f"{spec} dtype={dtype}", runners):
                unit = DTYPES[tensor.data_type].unit_roundoff
                beyond += sizes[0] > MOST[dtype] * unit or max(worst, shared) > MOST_USED
                shown = " | ".join(
                    f"{d / unit:.1f} u" + (f", {d:.2%}" if "sdpa" in name else "") for d in sizes
                )
                print(
                    f"| {name} | {tensor.name} | {dtype} | {shown} | {worst:.2f} | {shared:.2f} |"
                )
    print(f"{beyond} rows beyond a limit")
    return int(beyond > 0)


if __name__ == "__main__":
    script(main)
