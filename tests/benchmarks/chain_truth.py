"""What chains of layers take, and what is predicted from the layers alone.

Usage:
  chain_truth.py measure FOLDER [--cpu] [--engine=E]... [--net=NET]... [--only=TEXT]...
                 [--rounds=N] [--iters=N] [--budget=S]
  chain_truth.py validate FOLDER [--cpu] [--engine=E]... [--net=NET]...
  chain_truth.py compare FOLDER

Options:
  --cpu         small networks on numpy and torch:cpu, on one thread; else ResNet-50 at batch 32 and
                an encoder block of a transformer, both half, on cudnn and torch:cuda
  --engine=E    only this engine
  --net=NET     only this network: encoder, trunk or resnet50
  --only=TEXT   only settings with this in their name, as in hot_launched
  --rounds=N    of every case [default: 5]
  --iters=N     of every case, over all rounds [default: 60]
  --budget=S    settings that would begin after so many seconds are left out [default: 240]

`measure` runs every network as a chain, and its graphs and pairs of neighbours alone, hot and
weights-cold, launched and (on a GPU) replayed: FOLDER gets the pipelines, chain_*.json and
parts_*.json. cuDNN has no pooling, so it runs the trunk: ResNet-50 with a strided convolution for
the first pooling, without the second and the last layer; torch:cuda runs all of it. `validate` runs
the hot chains against the composed float64 reference, every output. `compare` needs no device: it
has `bench-compare compose` predict each chain from its parts, and prints both.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from bench_schema import files
from bench_schema.pipeline.read import read_pipeline
from docopt import docopt

from tests.benchmarks.chain_pipelines import encoder, resnet50, write

GPU = {
    "encoder": encoder,
    "trunk": lambda: resnet50(pool=False),
    "resnet50": resnet50,
}
CPU = {
    "encoder": lambda: encoder(1, 64, 64, 4, dtype="float", act="+relu"),
    "resnet50": lambda: resnet50(1, 64, 8, (1, 1, 1, 1), dtype="float", layout="nchw"),
}
"""Networks by name. Those for processors fit into a core's own cache, as their graphs alone do, and
take no time that depends on values, as NumPy's error function does."""
ON_GPU = (
    ("encoder", "cudnn"),
    ("trunk", "cudnn"),
    ("encoder", "torch:cuda"),
    ("resnet50", "torch:cuda"),
)
ON_CPU = tuple(product(CPU, ("numpy", "torch:cpu")))
CACHES = ("hot", "weights-cold")
WAYS = {"launched": (), "replayed": ("--replay",)}


@dataclass(frozen=True)
class Setting:
    """A network on an engine in a cache state, launched or replayed."""

    net: str
    engine: str
    cache: str
    way: str

    @property
    def stem(self):
        return f"{self.net}_{self.engine.replace(':', '-')}_{self.cache}_{self.way}"

    @property
    def words(self):
        calm = ("--threads", "1") if self.engine in ("numpy", "torch:cpu") else ()
        return ("-e", self.engine, "--cache", self.cache, *WAYS[self.way], *calm)


def settings(arguments):
    pairs, ways = (ON_CPU, ["launched"]) if arguments["--cpu"] else (ON_GPU, list(WAYS))
    every = [Setting(*pair, cache, way) for pair in pairs for cache, way in product(CACHES, ways)]
    nets, engines, only = (arguments[flag] for flag in ("--net", "--engine", "--only"))
    return [
        s for s in every
        if (not nets or s.net in nets)
        and (not engines or s.engine in engines)
        and (not only or any(text in s.stem for text in only))
    ]  # fmt: skip


def bench_run(*words):
    begin = time.monotonic()
    command = [sys.executable, "-m", "bench_run", *map(str, words), "--quiet"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    said = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    return f"{time.monotonic() - begin:.0f} s, exit {done.returncode} {''.join(said)}"


def median_us(case):
    """By the device's clock where there is one, else from end to end."""
    for name in ("device_ns", "e2e_ns"):
        if name in case.summary:
            return case.summary[name].median / 1000
    return None


def alone_us(document, pipeline):
    """Sum of the graphs' own medians, each as often as it occurs; None where one is missing."""
    occurs = Counter()
    for layer in pipeline.layers:
        occurs[layer.op] += layer.repeat
    times = [median_us(case) for case in document.cases if not case.graph.layers]
    if None in times or len(times) != len(occurs):
        return None
    return sum(us * n for us, n in zip(times, occurs.values(), strict=True))


def show(document):
    for case in document.cases:
        us, last = median_us(case), case.rounds[-1] if case.rounds else None
        rounds = [float(statistics.median(r.series[name])) / 1000 for r in case.rounds
                  for name in ("device_ns", "e2e_ns") if name in r.series]  # fmt: skip
        checked = case.validation.status if case.validation else ""
        print(f"  {'-' if us is None else f'{us:.1f} us'} {last and last.device_timing} "
              f"{[round(x, 1) for x in rounds]} {checked} {case.outcome.reason or ''} "
              f"{(case.validation and case.validation.reason) or ''} "
              f"{case.plan.get('activations', '')}", flush=True)  # fmt: skip


def measure(setting, folder, path, effort):
    chain, parts = (folder / f"{what}_{setting.stem}.json" for what in ("chain", "parts"))
    words = (path, *setting.words, "--reference", "none", *effort)
    said = bench_run(*words, "--chain", "-o", chain)
    print(f"{setting.stem}: chain {said}", flush=True)
    if chain.exists():
        show(files.read(chain))
    said = bench_run(*words, "--seams", "-o", parts)
    print(f"{setting.stem}: parts {said}", flush=True)
    if setting.cache == "hot":
        passes = folder / f"passes_{setting.stem}.json"
        said = bench_run(*words, "--cache", "pass", "--seams", "-o", passes)
        print(f"{setting.stem}: as in a pass {said}", flush=True)
    if parts.exists():
        document = files.read(parts)
        failed = [c.outcome.reason for c in document.cases if c.outcome.status != "completed"]
        total = alone_us(document, read_pipeline(path))
        text = "unknown" if total is None else f"{total:.1f} us"
        print(f"  {len(document.cases)} cases, {len(failed)} failed {failed[:1]}; sum of graphs "
              f"alone {text}", flush=True)  # fmt: skip


def validate(setting, folder, path):
    out = folder / f"valid_{setting.stem}.json"
    effort = ("--rounds", "1", "--iters", "5", "--timeout", "560")
    print(f"{setting.stem}: {bench_run(path, *setting.words, '--chain', *effort, '-o', out)}")
    if out.exists():
        show(files.read(out))


def run(arguments, folder):
    begin, budget_s = time.monotonic(), float(arguments["--budget"])
    nets = CPU if arguments["--cpu"] else GPU
    effort = ("--rounds", arguments["--rounds"], "--iters", arguments["--iters"])
    for setting in settings(arguments):
        path = write(nets[setting.net](), folder)
        if time.monotonic() - begin > budget_s:
            print(f"{setting.stem}: left out, {budget_s:.0f} s are over")
        elif arguments["measure"]:
            measure(setting, folder, path, effort)
        elif setting.cache == "hot":
            validate(setting, folder, path)


def compare(folder):
    """A row for each chain that has its parts beside it, and the median of all."""
    errors, held = [], []
    for chain in sorted(folder.glob("chain_*.json")):
        parts = folder / chain.name.replace("chain_", "parts_", 1)
        pipeline = folder / f"{chain.stem.split('_')[1]}.toml"
        out = folder / chain.name.replace("chain_", "composed_", 1)
        words = ["compose", pipeline, parts, "--against", chain, "--json", out, "--quiet"]
        command = [sys.executable, "-m", "bench_compare", *map(str, words)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        checks = json.loads(out.read_text())["checks"] if out.exists() else []
        if not checks:
            print(f"{chain.stem}: exit {done.returncode} {done.stderr.strip()}")
            continue
        (check,) = checks
        errors.append(abs(check["log_error"]))
        held += [check["holds"]] if check["holds"] is not None else []
        print(row(chain.stem, check))
    if errors:
        print(f"median |log error| {statistics.median(errors):.2%}, largest {max(errors):.2%} of "
              f"{len(errors)}; {sum(held)} of {len(held)} intervals hold")  # fmt: skip


def row(name, check):
    predicted, measured = check["predicted"], check["measured"]
    ends = [predicted[end] for end in ("low", "high")]
    interval = "none" if None in ends else f"{ends[0] / 1000:.1f} to {ends[1] / 1000:.1f}"
    return (f"{name:44s} measured {measured['value'] / 1000:9.1f} us, predicted "
            f"{predicted['value'] / 1000:9.1f} ({interval}), off by {check['log_error']:+.2%}, "
            f"holds: {check['holds']}")  # fmt: skip


if __name__ == "__main__":
    given = docopt(__doc__)
    target = Path(given["FOLDER"])
    compare(target) if given["compare"] else run(given, target)
