"""Estimates of memory against real peaks: for each graph and engine the most that a process of a
run held, less what one holds for a graph of a few bytes.

Usage:
  memory_estimate.py [--engine=SPEC]... [--op=SPEC]... [--large] [GRAPH...]

Options:
  --engine=SPEC  [default: numpy torch:cpu]
  --op=SPEC      graphs by specification, beside or in place of files
  --large        also one large graph of each kind of operation, which takes half a gigabyte or so

Without a graph: all of graphs/. The estimate counts the process: small graphs show that it is not
forgotten, large ones that the rest is right. The run ends with the smallest and largest ratio of
estimate and peak.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.graph.format.hipdnn_json import read_graph
from bench_run.graph.make.spec import make_graphs
from bench_run.plan.engines import PlannedEngine
from bench_run.runner.memory import case_need
from tests.benchmarks.harness import ROOT, cost, folder, script

TINY = "relu: dims=4 dtype=float"
LARGE = (
    "relu: n=32 c=64 h=112 w=112 dtype=float",
    "gelu_bwd: n=32 c=64 h=112 w=112 dtype=half",
    "add: n=16 c=64 h=112 w=112 dtype=float",
    "conv_fwd: n=32 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 dtype=float",
    "conv_fwd: n=32 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_wgrad: n=32 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 dtype=float",
    "batchnorm_training: n=32 c=64 h=112 w=112 dtype=float",
    "batchnorm_bwd: n=32 c=64 h=56 w=56 dtype=float",
    "layernorm: n=64 s=512 h=768 dtype=float",
    "layernorm_bwd: n=32 s=512 h=768 dtype=float",
    "rmsnorm_bwd: n=32 s=512 h=768 dtype=half",
    "matmul: m=4096 n=4096 k=4096 dtype=half",
    "maxpool: n=64 c=64 h=56 w=56 window=3 stride=2 pad=1 dtype=float",
    "reduce_norm2: dims=8192x4096 axes=1 dtype=float",
    "sdpa: b=1 h=32 s=2048 d=128 dtype=half stats=true",
    "sdpa: b=1 h=16 s=2048 d=64 dtype=float",
    "sdpa_bwd: b=1 h=16 s=2048 d=64 dtype=half",
)


def peak_bytes(engine: str, source: list[str]) -> int:
    """Of the largest process of a run; kernels note it for every child that was waited for."""
    with folder() as scratch:
        run = [sys.executable, "-m", "bench_run", *source, "--engine", engine, "-q"]
        run += ["--rounds", "1", "--iters", "3", "--warmup", "1", "--reference-cache", "off"]
        return int(cost([*run, "-o", str(scratch / "run.json")], codes=(0, 2)).peak_mib * 2**20)


def estimate(engine: str, graph) -> int:
    planned = PlannedEngine(engine, parse_spec(engine), EngineOptions(), "auto")
    return case_need(graph, planned, "cpu").host


def main(graph: list[str], op: list[str], large: bool, engine: list[str]) -> None:
    paths = [Path(path) for path in graph]
    specs = [*op, *(LARGE if large else ())]
    if not paths and not specs:
        paths = sorted((ROOT / "graphs").glob("*/*.json"))
    sources = [(path.stem, [str(path)], read_graph(path.read_bytes(), path.stem)) for path in paths]
    for spec in specs:
        (made,) = make_graphs(spec, "common")
        sources.append((spec, ["--op", spec], made))
    for key in " ".join(engine).split():
        process = peak_bytes(key, ["--op", TINY])
        ratios = {}
        for name, source, made in sources:
            need, peak = estimate(key, made), peak_bytes(key, source)
            ratios[name] = (process + need) / peak
            grown = need / max(1, peak - process)
            print(
                f"{key:10}{name[:70]:72}{peak / 1e6:8.0f} MB  ratio {ratios[name]:.2f}, "
                f"without the process {grown:.2f}",
                flush=True,
            )
        low, high = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
        print(f"{key}: process {process / 1e6:.0f} MB, {ratios[low]:.2f} ({low})", end=" ")
        print(f"to {ratios[high]:.2f} ({high}) over {len(ratios)} graphs", flush=True)


if __name__ == "__main__":
    script(main)
