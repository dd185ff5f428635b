"""What canaries in the outputs change in the times that are measured: nothing that can be seen.

Usage:
  canary_cost.py [ENGINE]...

The same plan is measured with and without canaries in turn, as often as `TURNS`; the ratio of the
medians is printed by turn (median, smallest, largest), for device times where the engine has them
and for end-to-end times. Without arguments: numpy, and cudnn and torch:cuda where they can run.
"""

from __future__ import annotations

import statistics
import time

from bench_run.engines import engine_module
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError
from bench_run.graph.make import make_graphs
from bench_run.measure.canaries import canaries_of
from bench_run.measure.clock_wait import wait_for_clock
from bench_run.measure.loop import NONE, REST_S, SamplingBudget, measure
from bench_run.tensors.seeded.inputs import make_inputs
from tests.benchmarks.harness import script

GPU = (
    "relu: n=1 c=64 h=32 w=32 dtype=half layout=nhwc",
    "relu: n=32 c=256 h=32 w=32 dtype=half layout=nhwc",
    "conv_fwd: n=32 c=128 h=28 w=28 k=256 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_wgrad: n=32 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "layernorm: n=4 s=2048 h=4096 dtype=bfloat16",
    "matmul: m=2048 n=2048 k=2048 dtype=half",
    "matmul: m=512 n=3072 k=768 dtype=half",
    "sdpa: b=1 h=16 hk=16 s=512 d=64 dtype=half mask=causal",
)
PROCESSOR = (
    "add: dims=64x64 dtype=float",
    "add: dims=2048x2048 dtype=float",
    "matmul: m=256 n=256 k=256 dtype=float",
)
TURNS = 8
BUDGET = SamplingBudget(warmup=5, iterations=100, rest_s=REST_S)


def main(engine: list[str]) -> None:
    for text in engine or ("numpy", "cudnn", "torch:cuda"):
        spec = parse_spec(text)
        try:
            opened = engine_module(spec.name).open(spec, EngineOptions(timer="events"))
        except EngineUnavailableError as error:
            print(f"{text}: {error}")
            continue
        print(f"{text} on {opened.facts.device_kind}: with canaries / without, {TURNS} turns")
        for op in PROCESSOR if opened.facts.device == "cpu" else GPU:
            show(opened, op)


def show(engine, op):
    graph = make_graphs(op)[0]
    try:
        plan = engine.plan(engine.build(graph, {}))
    except (UnsupportedGraphError, EngineError) as error:
        print(f"  {op}: {error}")
        return
    plan.upload(make_inputs(graph, 0))
    plan.poison()
    plan.run()
    canaries = canaries_of(plan, engine.stream, graph, plan.download(), op, may_change=True)
    ratios, medians = {}, {}
    for turn in range(TURNS):
        taken = {}
        for kind in (NONE, canaries) if turn % 2 else (canaries, NONE):
            wait_for_clock(engine.facts.device, engine.stream, REST_S)
            taken[kind is NONE] = measure(plan, engine.stream, BUDGET, canaries=kind).series
            time.sleep(REST_S)
        for name in taken[True]:
            bare, watched = (statistics.median(taken[key][name]) for key in (True, False))
            ratios.setdefault(name, []).append(watched / bare)
            medians.setdefault(name, []).append(bare)
    for name, values in ratios.items():
        print(
            f"  {statistics.median(values):.4f} ({min(values):.4f} to {max(values):.4f}) of "
            f"{statistics.median(medians[name]) / 1e3:.2f} µs {name}: {op}"
        )
    if canaries.untouched or not canaries.looked:
        raise SystemExit(f"{op}: {canaries.untouched} of {canaries.looked} looked untouched")
    canaries.close()
    plan.close()


if __name__ == "__main__":
    script(main)
