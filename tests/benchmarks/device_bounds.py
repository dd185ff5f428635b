"""Which clock tells a device time best: events, CUPTI's records, or both with a queue's gaps.

Usage:
  device_bounds.py [--specs=FILE] [--engine=SPEC]

Options:
  --specs=FILE   graphs, one --op a line
  --engine=SPEC  cudnn or torch:cuda [default: cudnn]

For each graph: how many kernels an execution has; the medians by events (corrected), by the span of
CUPTI's records, by the sum of its kernels, and as `bench-run` states it with its bound; and what
one more execution adds to a queue in which nothing records and no marks lie, less the average gap
in it. Microseconds, medians of three turns; the last columns are held against that queue.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from bench_run.engines import engine_module
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.make import make_graphs
from bench_run.measure.clock_wait import wait_for_clock
from bench_run.measure.kernel_pass import added_ns, record_kernels
from bench_run.measure.loop import REST_S, Measured, SamplingBudget, on_device
from bench_run.tensors.seeded.inputs import make_inputs
from tests.benchmarks.harness import script

SPECS = (
    "relu: n=1 c=8 h=8 w=8 dtype=half",
    "relu: n=1 c=64 h=32 w=32 dtype=half",
    "matmul: m=1 n=1024 k=512 dtype=half",
    "conv_fwd: n=1 c=64 h=14 w=14 k=64 r=1 s=1 dtype=half layout=nhwc",
    "conv_fwd: n=4 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_fwd: n=32 c=256 h=14 w=14 k=256 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_wgrad: n=32 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "layernorm: n=4 s=512 h=1024 dtype=half",
    "sdpa: b=1 h=16 s=512 d=64 dtype=half",
)
TURNS = 3
BUDGET = SamplingBudget(0, 60, rest_s=REST_S)
COLUMNS = ("events", "span", "sum", "stated", "bound", "queue")


def one_turn(engine, plan):
    """Each clock once, in this order: nothing has been recorded before the first turn's events."""
    events = on_device(plan, engine.stream, BUDGET, 1_000_000)
    queue = added_ns(plan, engine.stream, statistics.median(events))
    measured = Measured({}, {"device_ns": events, "e2e_ns": []}, "iterations")
    recorded = record_kernels(plan, engine.stream, BUDGET, measured)
    series = recorded.measured.series
    kernels = sum(kernel.count for kernel in recorded.kernels)
    total = statistics.median(series.get("kernel_sum_ns", events))
    span = statistics.median(series.get("kernel_span_ns", events))
    gap = (queue - total) / max(1, kernels)
    stated, bound = statistics.median(series["device_ns"]), recorded.bound_ns or 0
    return kernels, (statistics.median(events), span, total, stated, bound, queue - gap)


def main(specs: str | None, engine: str) -> None:
    spec = parse_spec(engine)
    opened = engine_module(spec.name).open(spec, EngineOptions(timer="auto"))
    correction = opened.stream.correction_ns()
    print(f"{opened.facts.device_kind}, {spec.text}; correction of events {correction:.0f} ns")
    print(f"{'case':40} kernels" + "".join(f"{name:>9}" for name in COLUMNS) + "  events stated")
    for text in filter(None, Path(specs).read_text().splitlines() if specs else SPECS):
        show(opened, text)


def show(engine, text):
    graph = make_graphs(text)[0]
    try:
        plan = engine.plan(engine.build(graph, {}))
    except UnsupportedGraphError:
        return
    plan.upload(make_inputs(graph, 0))
    plan.run()
    wait_for_clock(engine.facts.device, engine.stream, REST_S)
    turns = [one_turn(engine, plan) for _ in range(TURNS)]
    medians = [statistics.median(column) for column in zip(*(row for _, row in turns), strict=True)]
    against = [100 * (medians[place] / medians[-1] - 1) for place in (0, 3)]
    print(
        f"{text[:40]:40} {turns[0][0]:7}"
        + "".join(f"{value / 1e3:9.2f}" for value in medians)
        + "".join(f"{each:+6.1f}%" for each in against),
        flush=True,
    )
    plan.close()


if __name__ == "__main__":
    script(main)
