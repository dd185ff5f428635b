"""How true device times are, measured on the GPU at hand.

Usage:
  gpu_truth.py [--engine=SPEC] [--only=CASE]... [SECTION]...

Options:
  --engine=SPEC  of methods (cudnn or torch:cuda) and levels (any) [default: cudnn]
  --only=CASE    of methods and levels, such as "relu 64K"

methods: every way to time the same plan, beside the device's own records (CUPTI's span), and
what one more execution adds to a queue of them (nothing recorded, no marks between: an upper bound,
longer than the truth by the gap between two executions, 0.6 to 0.9 µs here);
levels: the time that `bench-run` states with 20, 100, 1,000 iterations and by time, with CUPTI's
records and without; repeat: medians of one case in ten fresh processes; cost: wall time of
`bench-run` over 50 graphs of 100 iterations beside a bare loop of the same executions; engines:
outcomes of all graphs of ``graphs/`` (and of the folders named in GRAPHS) on cudnn, torch and
torch+compile. Everything without a word. Needs cuDNN, cupti-python, PyTorch and Triton.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path

from bench_schema import files
from bench_schema.estimate import case_time

from bench_run.engines import cudnn, engine_module
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.make import make_graphs
from bench_run.graph.sources.load import load
from bench_run.graph.sources.suites import own_graphs, read_suite
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.clock_wait import wait_for_clock
from bench_run.measure.kernel_pass import SHORT_NS
from bench_run.measure.loop import REST_S, on_device
from bench_run.streams import cupti
from bench_run.tensors.seeded.inputs import make_inputs
from tests.benchmarks.harness import one_of, script

ROOT = Path(__file__).resolve().parents[2]
CASES = {
    "relu 64K": "relu: n=1 c=64 h=32 w=32 dtype=half",
    "relu 1M": "relu: n=16 c=64 h=32 w=32 dtype=half",
    "relu 16M": "relu: n=16 c=64 h=128 w=128 dtype=half",
    "matmul 1024": "matmul: m=1024 n=1024 k=1024 dtype=half",
    "matmul 4096": "matmul: m=4096 n=4096 k=4096 dtype=half",
    "conv 1x1": "conv_fwd: n=16 c=512 h=28 w=28 k=128 r=1 s=1 dtype=half layout=nhwc",
    "conv 3x3": "conv_fwd: n=32 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "sdpa": "sdpa: b=4 h=16 s=1024 d=64 dtype=half",
}
SAMPLES = 100
REPEATED_SAMPLES = 200
"""As many as CUPTI's pass takes."""
TURNS = 3
"""Methods take turns, so that what drifts hits all of them."""


def methods(spec, cases):
    """Median of each method for each case, microseconds, and our error against CUPTI's span."""
    parsed = parse_spec(spec)
    engine = engine_module(parsed.name).open(parsed, EngineOptions(timer="events"))
    print(f"{engine.facts.device_kind}, {date.today()}, {dict(engine.facts.libraries)}")
    print(f"{spec}: medians of {SAMPLES * TURNS}, µs")
    print(
        f"{'case':12}" + "".join(f"{name:>13}" for name in METHODS) + f"{'ours-cupti':>13}{'':>9}"
    )
    for name, text in cases.items():
        graph = make_graphs(text)[0]
        plan = engine.plan(engine.build(graph, {}))
        plan.upload(make_inputs(graph, 0))
        plan.run()
        wait_for_clock(engine.facts.device, engine.stream, REST_S)
        taken = {method: [] for method in METHODS}
        for _ in range(TURNS):
            for method in METHODS:
                time.sleep(REST_S)
                taken[method] += METHODS[method](engine, plan)
        plan.close()
        show(name, {method: statistics.median(found) for method, found in taken.items()})


def show(name, medians):
    error_ns = medians["ours"] - medians["cupti"]
    cells = "".join(f"{value / 1e3:13.2f}" for value in medians.values())
    chosen = "cupti" if medians["ours"] < SHORT_NS else "events"
    print(
        f"{name:12}{cells}{error_ns / 1e3:13.2f}{error_ns / medians['cupti']:9.2%} auto: {chosen}"
    )


def ours(engine, plan):
    budget = SamplingBudget(0, SAMPLES, rest_s=REST_S)
    return on_device(plan, engine.stream, budget, 1_000_000)


def by_cupti(engine, plan):
    with cupti.Recorder() as recorder:
        count = len(ours(engine, plan))
    groups = cupti.iterations(recorder.records, count)
    assert groups is not None
    return [cupti.span_ns(group) for group in groups]


def ours_recorded(engine, plan):
    """Our events while CUPTI records: it lengthens the gaps between the kernels of one plan."""
    with cupti.Recorder():
        return ours(engine, plan)


QUEUED = (1, 5)


def queue(engine, plan):
    """What one more execution between two marks takes: marks and corrections cancel."""
    stream, medians = engine.stream, []
    for count in QUEUED:
        found = []
        for _ in range(10):
            time.sleep(REST_S / 5)
            with stream.gate():
                begin = stream.mark()
                for _ in range(count):
                    plan.run()
                end = stream.mark()
            stream.synchronize()
            found.append(stream.elapsed_ns(begin, end))
        medians.append(statistics.median(found))
    return [(medians[1] - medians[0]) / (QUEUED[1] - QUEUED[0])]


def events(engine, plan, wait=False):
    stream, marks = engine.stream, []
    for _ in range(SAMPLES):
        begin = stream.mark()
        plan.run()
        marks.append((begin, stream.mark()))
        if wait:
            stream.synchronize()
    stream.synchronize()
    return [stream.elapsed_ns(*pair) for pair in marks]


def host(engine, plan):
    found = []
    for _ in range(SAMPLES):
        begin = time.perf_counter_ns()
        plan.run()
        engine.stream.synchronize()
        found.append(time.perf_counter_ns() - begin)
    return found


def do_bench(engine, plan):
    """Triton's, on PyTorch's stream; it flushes the L2 cache before each run."""
    import torch
    import triton.testing

    handle = getattr(engine.stream, "handle", None) or engine.stream._handle
    stream = torch.cuda.ExternalStream(handle.value)
    with torch.cuda.stream(stream):
        found_ms = triton.testing.do_bench(plan.run, warmup=5, rep=25, return_mode="median")
    torch.cuda.synchronize()
    return [found_ms * 1e6]


def do_bench_cudagraph(engine, plan):
    """Triton's, for work on PyTorch's current stream: replays as many executions as fill 1/10 of
    the time in one graph."""
    import torch
    import triton.testing

    if engine.facts.libraries.get("torch") is None:
        return [math.nan]
    found_ms = triton.testing.do_bench_cudagraph(plan.run, rep=20, return_mode="median")
    torch.cuda.synchronize()
    return [found_ms * 1e6]


METHODS = {
    "cupti": by_cupti,
    "ours": ours,
    "ours in it": ours_recorded,
    "queue": queue,
    "events": events,
    "events+sync": lambda engine, plan: events(engine, plan, wait=True),
    "do_bench": do_bench,
    "its graph": do_bench_cudagraph,
    "host": host,
}


def bench_run(*words, output):
    """The document of a run, its wall time, and what it said of that."""
    paths = [str(ROOT), str(ROOT / "schema"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    begin = time.perf_counter()
    command = [sys.executable, "-m", "bench_run", *map(str, words), "--force", "-o", str(output)]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    taken_s = time.perf_counter() - begin
    if done.returncode not in (0, 2):
        print(done.stderr[-2000:])
    said = done.stderr.splitlines()[-1]
    document = json.loads(Path(output).read_text()) if Path(output).exists() else None
    return document, taken_s, said


ITERATIONS = (20, 100, 1000, None)


def levels(folder, spec, cases):
    """The stated time by number of iterations and clock."""
    ops = [word for text in cases.values() for word in ("--op", text)]
    rows = {}
    for timer in ("auto", "events"):
        for count in ITERATIONS:
            words = ["--engine", spec, "--timer", timer, "--reference", "none"]
            words += [] if count is None else ["--iters", count]
            path = folder / f"levels-{timer}-{count}.json"
            document, taken_s, _ = bench_run(*ops, *words, output=path)
            if document is None:  # an engine without this clock
                continue
            print(f"{timer} {count or 'by time'}: {taken_s:.1f} s", flush=True)
            timed = {case.graph.name: case_time(case) for case in files.read(path).cases}
            for name, text in cases.items():
                rows.setdefault(name, []).append(timed[make_graphs(text)[0].name])
    for name, times in rows.items():
        print(f"{name:12}" + "".join(map(level, times)))


def level(time):
    """Microseconds, and half of the interval."""
    if time is None:
        return f"{'–':>16}"
    return f"{time.ns / 1e3:9.2f} ±{100 * (time.half_width_ratio or 0):4.1f}%"


def repeat(folder):
    """Spread of a case's median over ten fresh processes, cool."""
    words = [word for spec in CASES.values() for word in ("--op", spec)]
    words += ["--engine", "cudnn", "--rounds", "10", "--reference", "none"]
    words += ["--iters", str(10 * REPEATED_SAMPLES)]
    document, taken_s, _ = bench_run(*words, output=folder / "repeat.json")
    print(f"medians of 10 fresh processes of {REPEATED_SAMPLES} samples ({taken_s:.0f} s)")
    for case in document["cases"]:
        medians = [statistics.median(r["series"]["device_ns"]) for r in case["rounds"]]
        middle = statistics.median(medians)
        spread, deviation = max(medians) - min(medians), statistics.stdev(medians)
        print(
            f"{case['graph']['name']:55} {middle / 1e3:9.2f} µs  whole range {spread / middle:.2%}"
            f"  standard deviation {deviation / middle:.2%}  {case['notes']}"
        )


def cost(folder):
    """Wall time of the tool over 50 graphs beside a bare loop of the same executions."""
    paths = []
    for suite in ("resnet50-batch32", "gemm", "activations", "batchnorm"):
        for entry in read_suite(Path(own_graphs(f"suite:{suite}"))).layers:
            for graph in make_graphs(entry.op):
                paths.append(folder / f"{graph.name}.json")
                paths[-1].write_bytes(write_graph(graph))
    paths = paths[:50]
    begin = time.perf_counter()
    busy_s = bare(paths)
    bare_s = time.perf_counter() - begin
    print(f"bare loop {bare_s:.1f} s, {busy_s:.2f} s of it in runs", flush=True)
    words = ["--engine", "cudnn", "--rounds", "5", "--iters", "100", "--warmup", "10"]
    checked, checked_s, said = bench_run(*paths, *words, output=folder / "cost.json")
    _, unchecked_s, said_unchecked = bench_run(
        *paths, *words, "--reference", "none", output=folder / "bare.json"
    )
    samples_s = (
        sum(
            sum(r["series"]["e2e_ns"]) + sum(r["series"].get("device_ns", []))
            for case in checked["cases"]
            for r in case["rounds"]
        )
        / 1e9
    )
    init = Counter()
    for case in checked["cases"]:
        for phase, values in case["init"].items():
            init[phase] += sum(values) / 1e9
    print(
        f"{len(paths)} graphs x 100 iterations: bare loop {bare_s:.1f} s ({busy_s:.2f} s in runs)"
    )
    print(f"bench-run {checked_s:.1f} s with validation: it {said}")
    print(f"bench-run {unchecked_s:.1f} s without: it {said_unchecked}")
    print(
        f"  samples {samples_s:.2f} s; initialisation of 5 rounds:",
        {k: round(v, 1) for k, v in init.items()},
    )


def bare(paths):
    """Build, plan, upload, run 110 times, wait; seconds in runs."""
    engine = cudnn.open(EngineSpec("cudnn", "cudnn"), EngineOptions(timer="host"))
    busy_s = 0.0
    for path in paths:
        graph = load([str(path)]).graphs[0].graph
        try:
            plan = engine.plan(engine.build(graph, {}))
        except (EngineError, UnsupportedGraphError) as error:
            print("  left out:", path.name, str(error)[:80])
            continue
        plan.upload(make_inputs(graph, 0))
        begin = time.perf_counter()
        for _ in range(110):
            plan.run()
        engine.stream.synchronize()
        busy_s += time.perf_counter() - begin
        plan.close()
    return busy_s


def engines(folder):
    """Outcomes of all graphs, by engine."""
    graphs = [ROOT / "graphs", *os.environ.get("GRAPHS", "").split()]
    words = ["--iters", "20", "--rounds", "1", "--warmup", "3", "--check-budget", "0"]
    for spec in ("cudnn", "torch:cuda", "torch:cuda+compile"):
        words += ["--engine", spec]
    document, taken_s, _ = bench_run(*graphs, *words, output=folder / "engines.json")
    print(f"all graphs on three engines ({taken_s:.0f} s)")
    counts = Counter()
    for case in document["cases"]:
        status, validation = case["outcome"]["status"], case["validation"]
        verdict = "" if validation is None else validation["status"]
        counts[case["engine"], status, verdict] += 1
        if status not in ("completed", "unsupported") or verdict == "failed":
            reason = case["outcome"]["reason"] or validation["reason"]
            print(f"  {case['id']}: {status} {verdict}: {reason[:160]}")
    for key, count in sorted(counts.items()):
        print(f"  {' '.join(key):50} {count}")


SECTIONS = {
    "methods": lambda _, *words: methods(*words),
    "levels": levels,
    "repeat": lambda folder, *_: repeat(folder),
    "cost": lambda folder, *_: cost(folder),
    "engines": lambda folder, *_: engines(folder),
}


def main(engine: str, only: list[str], section: list[str]) -> None:
    kept = os.environ.get("KEEP")
    cases = {name: CASES[name] for name in one_of("--only", only, CASES) or CASES}
    with tempfile.TemporaryDirectory() as temporary:
        for name in one_of("SECTION", section, SECTIONS) or SECTIONS:
            SECTIONS[name](Path(kept or temporary), engine, cases)
            print(flush=True)


if __name__ == "__main__":
    script(main)
