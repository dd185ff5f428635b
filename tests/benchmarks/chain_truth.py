"""Chains on a GPU: ResNet-50 without pooling (batch 32, half, NHWC) and an encoder block, hot and
weights-cold, launched and replayed; beside them the sum of their graphs, each measured alone.

    python -m tests.benchmarks.chain_truth chains|parts|both FOLDER [ENGINE…]

Engines are cudnn and torch:cuda where none is named. Writes the pipelines,
``chain_NET_CACHE_HOW.json`` and ``parts_NET_CACHE_HOW.json`` (graphs alone and pairs of neighbours,
first engine only, what `bench-compare compose` reads) into FOLDER, and prints a row for each. Every
output is validated in the hot, launched chains; the others run with ``--reference none``.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from bench_schema import files
from bench_schema.pipeline.read import read_pipeline

from tests.benchmarks.chain_pipelines import encoder, resnet50, write

CACHES = ("hot", "weights-cold")
WAYS = {"launched": (), "replayed": ("--replay",)}
QUICK = ("--rounds", "3", "--iters", "60", "--max-time", "3", "--quiet")


def bench_run(*words):
    begin = time.monotonic()
    command = [sys.executable, "-m", "bench_run", *map(str, words)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    tail = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    return time.monotonic() - begin, done.returncode, "".join(tail)


def median_us(case):
    """By the device's clock where there is one, else from end to end."""
    for name in ("device_ns", "e2e_ns"):
        if name in case.summary:
            return case.summary[name].median / 1000, name
    return None, case.outcome.status


def alone_us(document, pipeline, engine):
    """Sum of the graphs' own medians, each as often as it occurs."""
    occurs = Counter()
    for layer in pipeline.layers:
        occurs[layer.op] += layer.repeat
    cases = [c for c in document.cases if not c.graph.layers and c.engine == engine]
    times = [median_us(case)[0] for case in cases]
    if None in times or len(times) != len(occurs):
        return None
    return sum(us * n for us, n in zip(times, occurs.values(), strict=True))


def show(document, label):
    for case in document.cases:
        us, series = median_us(case)
        bounds = [r.device_timing for r in case.rounds if r.device_timing][:1]
        spread = [float(statistics.median(r.series[series])) / 1000 for r in case.rounds if us]
        checked = case.validation.status if case.validation else case.outcome.reason
        text = "-" if us is None else f"{us:10.1f} us"
        print(f"{label:34s} {case.engine:11s} {text} {series:10s} rounds "
              f"{[round(x, 1) for x in spread]} {bounds} {checked} "
              f"{case.plan.get('activations', '')} {case.outcome.reason or ''}")  # fmt: skip


def chains(path, folder, setting, engines):
    stem, cache, flags, plain = setting
    out = folder / f"chain_{stem}.json"
    picked = itertools.chain.from_iterable(("--engine", e) for e in engines)
    words = (*flags, *plain, "--cache", cache, *QUICK)
    took, code, said = bench_run(path, "--chain", *picked, *words, "-o", out)
    print(f"{stem}: chains {took:.0f} s, exit {code} {said}", flush=True)
    if out.exists():
        show(files.read(out), f"chain {stem}")


def parts(path, folder, setting, engines):
    stem, cache, flags, _ = setting
    out = folder / f"parts_{stem}.json"
    words = (*flags, "--reference", "none", "--cache", cache, *QUICK)
    took, code, said = bench_run(path, "--seams", "-e", engines[0], *words, "-o", out)
    print(f"{stem}: parts {took:.0f} s, exit {code} {said}", flush=True)
    if out.exists():
        total = alone_us(files.read(out), read_pipeline(path), engines[0])
        text = "unknown" if total is None else f"{total:.1f} us"
        print(f"sum of graphs alone {stem}: {text}", flush=True)


def main(what, folder, engines):
    for made in (encoder(), resnet50(pool=False)):
        path = write(made, folder)
        for cache, (way, flags) in itertools.product(CACHES, WAYS.items()):
            plain = () if (cache, way) == ("hot", "launched") else ("--reference", "none")
            setting = f"{made.name}_{cache}_{way}", cache, flags, plain
            if what != "parts":
                chains(path, folder, setting, engines)
            if what != "chains":
                parts(path, folder, setting, engines)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("chains", "parts", "both"):
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:] or ["cudnn", "torch:cuda"])
