"""What it costs to measure on two GPUs of a host at the same time, and whether it changes a time.

Usage:
  two_gpus.py [options]

Options:
  --engine=SPEC    [default: cudnn]
  --reference=HOW  [default: none]
  --rounds=N       [default: 5]
  --iters=N        [default: 100]
  --runs=N         of each GPU alone [default: 2]

19 graphs. Each GPU alone (`--device 0`, `--device 1`), both with `--device all --parallel measure`,
and the suite split over both (`--shard 1/2`, `--shard 2/2`, two processes at once). For each, the
wall time; for the first two, medians of the same GPU beside each other, with the standard deviation
of medians between runs alone.
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
from pathlib import Path
from types import SimpleNamespace

from docopt import docopt

ROOT = Path(__file__).resolve().parents[2]
OPS = (
    "relu: n=1 c=64 h=32 w=32 dtype=half layout=nhwc",
    "relu: n=32 c=256 h=32 w=32 dtype=half layout=nhwc",
    "gelu: n=64 c=128 h=56 w=56 dtype=float layout=nchw",
    "add: n=128 c=256 h=14 w=14 dtype=float",
    "conv_fwd: n=32 c=128 h=28 w=28 k=256 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_fwd: n=32 c=256 h=28 w=28 k=256 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_fwd: n=32 c=64 h=56 w=56 k=256 r=1 s=1 dtype=half layout=nhwc",
    "conv_dgrad: n=32 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_wgrad: n=32 c=128 h=28 w=28 k=128 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "layernorm: n=4 s=2048 h=4096 dtype=bfloat16",
    "rmsnorm: n=1 s=2048 h=4096 dtype=bfloat16",
    "matmul: m=7168 n=7168 k=7168 dtype=bfloat16",
    "matmul: m=2048 n=2048 k=2048 dtype=half",
    "matmul: m=512 n=3072 k=768 dtype=half",
    "matmul: m=1 n=4096 k=1024 dtype=half",
    "sdpa: b=4 h=32 hk=8 s=2048 d=128 dtype=bfloat16 mask=causal",
    "sdpa: b=1 h=16 hk=16 s=512 d=64 dtype=half mask=causal",
    "batchnorm_training: n=64 c=64 h=56 w=56 dtype=float",
    "batchnorm_inference: n=32 c=64 h=56 w=56 dtype=float",
)
SERIES = ("device_ns", "e2e_ns")
WITHIN = 0.002


def start(chosen, output, *words):
    ops = [word for op in OPS for word in ("--op", op)]
    sampling = ["--rounds", str(chosen.rounds), "--iters", str(chosen.iters)]
    command = [sys.executable, "-m", "bench_run", *ops, "--engine", chosen.engine, *sampling,
               "--reference", chosen.reference, "--quiet", "-o", str(output), *words]  # fmt: skip
    paths = [str(ROOT), str(ROOT / "schema"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.Popen(command, cwd=ROOT, env=env)


def timed(*processes):
    """Seconds until all have ended."""
    begin = time.perf_counter()
    started = [start(*words) for words in processes]
    codes = [process.wait() for process in started]
    assert set(codes) <= {0, 2}, f"bench-run ended with {codes}"
    return time.perf_counter() - begin


def medians(path):
    """By device and graph; and, of the rounds, how many had companions."""
    document = json.loads(path.read_bytes())
    devices = {engine["key"]: engine["device"] for engine in document["engines"]}
    found, beside = {}, 0
    for case in document["cases"]:
        series = next(name for name in SERIES if name in case["summary"])
        key = devices[case["engine"]], case["graph"]["name"]
        found[key] = case["summary"][series]["median"]
        known = [each["surroundings"] or {} for each in case["rounds"]]
        beside += sum(bool(each.get("companions")) for each in known)
    return found, beside


def compare(alone, together):
    """Prints each case; gives the share within `WITHIN` of the mean alone."""
    within, logs = 0, []
    print(f"{'graph':<56} {'alone':>12} {'± %':>6} {'together':>12} {'change %':>9}")
    for key in sorted(together):
        runs = [run[key] for run in alone if key in run]
        mean = statistics.fmean(runs)
        spread = 100 * statistics.stdev(runs) / mean if len(runs) > 1 else math.nan
        ratio = together[key] / mean
        logs.append(math.log(ratio))
        within += abs(ratio - 1) <= WITHIN
        name = f"{key[0][-4:]} {key[1]}"[:56]
        change = 100 * (ratio - 1)
        print(f"{name:<56} {mean:12.1f} {spread:6.2f} {together[key]:12.1f} {change:+9.2f}")
    mean = 100 * (math.exp(statistics.fmean(logs)) - 1)
    print(f"{within} of {len(together)} within {100 * WITHIN:g} %, geometric mean {mean:+.3f} %")


def main():
    given = docopt(__doc__)
    chosen = SimpleNamespace(
        engine=given["--engine"],
        reference=given["--reference"],
        **{name: int(given[f"--{name}"]) for name in ("rounds", "iters", "runs")},
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone, seconds = [], []
        for run in range(chosen.runs):
            for device in (0, 1):
                output = folder / f"alone{device}_{run}.json"
                seconds.append(timed((chosen, output, "--device", str(device))))
                alone.append(medians(output)[0])
        together = folder / "together.json"
        both_s = timed((chosen, together, "--device", "all", "--parallel", "measure"))
        shards = [(chosen, folder / f"shard{n}.json", "--device", str(n), "--shard", f"{n + 1}/2")
                  for n in (0, 1)]  # fmt: skip
        shards_s = timed(*shards)
        found, beside = medians(together)
        compare(alone, found)
        one_s = statistics.fmean(seconds)
        rounds = len(found) * chosen.rounds
        print(f"{beside} of {rounds} rounds were measured beside the other GPU")
        print(f"one GPU, 19 graphs: {one_s:.1f} s")
        print(f"both GPUs, each 19 graphs, one GPU after the other: {2 * one_s:.1f} s")
        print(f"the same with --parallel measure: {both_s:.1f} s, {both_s / one_s / 2:.0%}")
        print(f"19 graphs, half of them on each GPU: {shards_s:.1f} s, {shards_s / one_s:.0%}")


if __name__ == "__main__":
    main()
