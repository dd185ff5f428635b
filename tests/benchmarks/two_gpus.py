"""What measuring on two GPUs of a host at the same time costs, and whether it changes a time.

Usage:
  two_gpus.py [options]

Options:
  --engine=SPEC    [default: cudnn]
  --reference=HOW  [default: none]
  --rounds=N       [default: 5]
  --iters=N        [default: 100]
  --cycles=N       whole runs of every kind, in turn [default: 3]
  --keep=DIR       where to leave the documents
  --specs=FILE     other graphs than the 19 here, one --op a line
  --seconds=S      for all of it: no run begins that would not be over by then [default: 3600]

19 graphs. A cycle is a run of each GPU alone (`--device 0`, `--device 1`), one of both with
`--device all --parallel measure`, and one shared by both (`--shard 1/2`, `--shard 2/2`, two
processes at once); every second cycle goes backwards. A run before them is not counted: it
measures the ceilings.

Printed: wall times. By case, the time alone, how much runs alone differ among themselves (standard
deviation), and the change with both at once, with its 95 % interval. And how often two runs lie
within 0.2 % of each other: two runs alone, and a run alone and one with both at once. What was not
run, or cut off (Ctrl-C, SIGTERM), is left out. Lines that begin with ``= `` are the answers.
"""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from itertools import chain, combinations, product
from pathlib import Path
from types import SimpleNamespace

from bench_schema.estimate import two_sided
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
WITHIN = math.log(1.002)
STEP_NS = 32.0
"""Of the clock behind an H200's device times."""
TOLD = ("took ", "devices side by side", "GPU-", "TWIN-", "TIMED-")
"""Beginnings of lines that say where time went."""


def read_ops(path):
    return OPS if path is None else tuple(Path(path).read_text().splitlines())


def start(chosen, output, *words):
    ops = [word for op in chosen.ops for word in ("--op", op)]
    sampling = ["--rounds", str(chosen.rounds), "--iters", str(chosen.iters)]
    command = [
        sys.executable,
        "-m",
        "bench_run",
        *ops,
        "--engine",
        chosen.engine,
        *sampling,
        "--reference",
        chosen.reference,
        "--force",
        "-o",
        str(output),
        *words,
    ]
    paths = [str(ROOT), str(ROOT / "schema"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    output.with_suffix(".json.journal").unlink(missing_ok=True)
    log = output.with_suffix(".log").open("w")
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)


def timed(chosen, folder, runs):
    """Seconds until all have ended. `runs`: name and flags of each."""
    begin = time.perf_counter()
    outputs = [folder / f"{name}.json" for name, _ in runs]
    started = [start(chosen, path, *words) for path, (_, words) in zip(outputs, runs, strict=True)]
    try:
        codes = [process.wait() for process in started]
    except KeyboardInterrupt:
        end(started)
        raise
    seconds = time.perf_counter() - begin
    print(f"{' and '.join(name for name, _ in runs)}: {seconds:.1f} s")
    for path in outputs:
        lines = path.with_suffix(".log").read_text().splitlines()
        if not set(codes) <= {0, 2}:
            raise SystemExit("\n".join(lines[-20:]))
        for line in lines:
            if line.startswith(TOLD):
                print(f"    {line}")
    sys.stdout.flush()
    return seconds


def end(started):
    """Interrupted runs keep what they measured."""
    for process in started:
        process.send_signal(signal.SIGINT)
    for process in started:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def logs_of(path):
    """By device and graph, the logarithm of the time: mean over rounds of their medians."""
    document = json.loads(path.read_bytes())
    devices = {engine["key"]: engine["device"] for engine in document["engines"]}
    found = {}
    for case in document["cases"]:
        series = [each["series"] for each in case["rounds"]]
        name = next(name for name in SERIES if name in series[0])
        medians = [math.log(statistics.median(each[name])) for each in series]
        found[devices[case["engine"]], case["graph"]["name"]] = statistics.fmean(medians)
    return found


def by_case(documents):
    found = defaultdict(list)
    for document in documents:
        for key, value in document.items():
            found[key].append(value)
    return found


def share_within(pairs):
    near = [abs(a - b) <= WITHIN for a, b in pairs]
    return f"{sum(near)} of {len(near)} ({sum(near) / max(1, len(near)):.0%})"


def compare(alone, together):
    """A line for each case, then how many are within the limit. Both: logarithms by case."""
    counts, changes = defaultdict(int), []
    print(f"{'graph':<50} {'alone ns':>10} {'step %':>6} {'alone ±':>7} {'change %':>8} {'±':>5}")
    for key in sorted(alone.keys() & together.keys()):
        mine, theirs = alone[key], together[key]
        change = statistics.fmean(theirs) - statistics.fmean(mine)
        spread, half = uncertainty(mine, theirs)
        changes.append(change)
        verdict = "within" if abs(change) <= WITHIN else "beyond"
        if half is not None and abs(change) > WITHIN and abs(change) - half <= WITHIN:
            verdict = "not told apart"
        elif half is not None and abs(change) + half <= WITHIN:
            verdict = "within, whole interval"
        counts[verdict] += 1
        time_ns = math.exp(statistics.fmean(mine))
        row = f"{key[0][-4:]} {key[1]}"[:50]
        print(
            f"{row:<50} {time_ns:10.0f} {100 * STEP_NS / time_ns:6.2f} {100 * spread:7.2f} "
            f"{100 * change:+8.2f} {100 * (half or math.nan):5.2f}  {verdict}"
        )
    if not changes:
        return
    mean = statistics.fmean(changes)
    print(f"= change with both at once, mean of {len(changes)} cases: {100 * mean:+.3f} %")
    print("= change and 0.2 %: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))


def uncertainty(mine, theirs):
    """Standard deviation of runs alone, and half of the 95 % interval of the change."""
    spread = statistics.stdev(mine) if len(mine) > 1 else math.nan
    degrees = len(mine) + len(theirs) - 2
    if degrees < 1:
        return spread, None
    squares = sum(sum((x - statistics.fmean(g)) ** 2 for x in g) for g in (mine, theirs))
    share = 1 / len(mine) + 1 / len(theirs)
    return spread, two_sided(degrees) * math.sqrt(squares / degrees * share)


def run_cycles(chosen, folder):
    """Seconds and documents of each kind of run."""
    seconds, documents = defaultdict(list), defaultdict(list)
    both = ("--device", "all", "--parallel", "measure")
    kinds = {
        "alone0": [("alone0", ("--device", "0"))],
        "alone1": [("alone1", ("--device", "1"))],
        "both": [("both", both)],
        "shards": [(f"shard{n}", ("--device", str(n), "--shard", f"{n + 1}/2")) for n in (0, 1)],
    }
    warm = SimpleNamespace(**{**vars(chosen), "rounds": 2, "iters": 10})
    begin = time.monotonic()
    try:
        timed(warm, folder, [("warm", both)])
        for cycle, kind in turns(list(kinds), chosen.cycles):
            known = seconds.get(kind) or list(chain(*seconds.values()))
            needed_s = max(known, default=0.0)
            if time.monotonic() - begin + needed_s > chosen.seconds:
                print(f"no time is left for {kind}")
                continue
            runs = [(f"{name}_{cycle}", words) for name, words in kinds[kind]]
            seconds[kind].append(timed(chosen, folder, runs))
            documents[kind] += [logs_of(folder / f"{name}.json") for name, _ in runs]
    except KeyboardInterrupt:
        print("interrupted: what is complete is told")
    return seconds, documents


def turns(kinds, cycles):
    """Every second cycle goes backwards."""
    return [(n, kind) for n in range(cycles) for kind in kinds[:: -1 if n % 2 else 1]]


def tell_times(seconds, graphs):
    alone = seconds["alone0"] + seconds["alone1"]
    if not alone:
        return
    one = statistics.fmean(alone)
    print(f"= {graphs} graphs on one GPU: {one:.1f} s")
    if seconds["both"]:
        both = statistics.fmean(seconds["both"])
        print(
            f"= {graphs} graphs on each GPU, one after the other: {2 * one:.1f} s; with "
            f"--parallel measure: {both:.1f} s, {both / (2 * one):.0%}"
        )
    if seconds["shards"]:
        shards = statistics.fmean(seconds["shards"])
        print(
            f"= {graphs} graphs, half of them on each GPU: {shards:.1f} s, {shards / one:.0%} of "
            "one GPU"
        )


def main():
    given = docopt(__doc__)
    chosen = SimpleNamespace(
        ops=read_ops(given["--specs"]),
        engine=given["--engine"],
        reference=given["--reference"],
        **{name: int(given[f"--{name}"]) for name in ("rounds", "iters", "cycles")},
        seconds=float(given["--seconds"]),
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(given["--keep"] or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        seconds, documents = run_cycles(chosen, folder)
    alone, together = by_case(documents["alone0"] + documents["alone1"]), by_case(documents["both"])
    compare(alone, together)
    pairs = [pair for runs in alone.values() for pair in combinations(runs, 2)]
    print(f"= two runs alone within 0.2 % of each other: {share_within(pairs)}")
    pairs = [pair for key, runs in together.items() for pair in product(alone[key], runs)]
    print(f"= a run alone and one with both at once: {share_within(pairs)}")
    tell_times(seconds, len(chosen.ops))


if __name__ == "__main__":
    main()
