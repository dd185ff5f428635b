"""What chains of layers take, and what is predicted from the layers alone.

Usage:
  chain_truth.py measure FOLDER [--cpu] [--engine=E]... [--net=NET]... [--only=TEXT]...
                 [--rounds=N] [--iters=N] [--budget=S] [--batch=N] [--energy]
  chain_truth.py validate FOLDER [--cpu] [--engine=E]... [--net=NET]... [--only=TEXT]...
                 [--batch=N]
  chain_truth.py compare FOLDER

Options:
  --cpu         small networks on numpy and torch:cpu, on one thread; else ResNet-50 and an encoder
                block of a transformer, both half, on cudnn and torch:cuda
  --engine=E    only this engine
  --net=NET     only this network: encoder, trunk or resnet50
  --only=TEXT   only settings with this in their name, as in hot_launched
  --rounds=N    of every case [default: 5]
  --iters=N     of every case, over all rounds [default: 60]
  --budget=S    settings that would begin after so many seconds are left out [default: 150]
  --batch=N     images of the networks on a GPU [default: 32]
  --energy      joules too, of chains and what they are made of: a second for each case and round

`measure` runs every network as a chain, and its graphs and pairs of neighbours alone, hot and
weights-cold, launched and (on a GPU) replayed. FOLDER gets the pipelines and two documents of each.
chain_*.json has a chain and, in the same rounds, what it is made of, so that whatever changes on
the machine meanwhile changes both: with caches as in the chain (``--cache pass``) where it is hot,
with cold weights where it has these. parts_*.json has the same graphs and pairs alone: hot, or with
everything ``cold``, as in chains with cold weights. cuDNN has no pooling, so it runs the trunk:
ResNet-50 with a strided convolution for the first pooling, without the second and the last layer;
torch:cuda runs all of it. `validate` runs the hot chains against the composed float64 reference (at
32 images two minutes of sixteen cores, `--batch 4` a few seconds). `compare` needs no device: it
has `bench-compare compose` predict each chain, by rows as in the chain and by rows of its state,
and prints a table.
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
from bench_schema.pipeline import read_pipeline
from docopt import docopt

from tests.benchmarks.chain_pipelines import encoder, resnet50, write

GPU = {
    "encoder": lambda _batch: encoder(),
    "trunk": lambda batch: resnet50(batch, pool=False),
    "resnet50": resnet50,
}
CPU = {
    "encoder": lambda _batch: encoder(1, 64, 64, 4, dtype="float", act="+relu"),
    "resnet50": lambda _batch: resnet50(1, 64, 8, (1, 1, 1, 1), dtype="float", layout="nchw"),
}
"""Networks by name. Those for processors fit into a core's own cache of 2 MiB, the ResNet just so,
and take no time that depends on values, as NumPy's error function does."""
ON_GPU = (
    ("encoder", "cudnn"),
    ("trunk", "cudnn"),
    ("encoder", "torch:cuda"),
    ("resnet50", "torch:cuda"),
)
ON_CPU = tuple(product(CPU, ("numpy", "torch:cpu")))
CACHES = ("hot", "weights-cold")
WITH_CHAIN = {"hot": "pass", "weights-cold": "weights-cold"}
"""State of the graphs that are measured with a chain; ``pass`` leaves the chain itself hot."""
APART = {"hot": "hot", "weights-cold": "cold"}
"""State of those that are measured in a document of their own."""
AS_IN_THE_CHAIN = ("pass", "cold")
"""States in which graphs find the caches as in a chain."""
HOLDS = {True: "yes", False: "no", None: "unknown"}
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

    def words(self, cache=None):
        calm = ("--threads", "1") if self.engine in ("numpy", "torch:cpu") else ()
        return ("-e", self.engine, "--cache", cache or self.cache, *WAYS[self.way], *calm)


def settings(arguments):
    pairs, ways = (ON_CPU, ["launched"]) if arguments["--cpu"] else (ON_GPU, list(WAYS))
    every = [Setting(*pair, cache, way) for pair in pairs for cache, way in product(CACHES, ways)]
    nets, engines, only = (arguments[flag] for flag in ("--net", "--engine", "--only"))
    return [
        s
        for s in every
        if (not nets or s.net in nets)
        and (not engines or s.engine in engines)
        and (not only or any(text in s.stem for text in only))
    ]


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


def show(document, pipeline):
    for case in document.cases:
        if not case.graph.layers or "#" in case.graph.path:
            continue
        us, last = median_us(case), case.rounds[-1] if case.rounds else None
        rounds = [
            float(statistics.median(r.series[name])) / 1000
            for r in case.rounds
            for name in ("device_ns", "e2e_ns")
            if name in r.series
        ]
        checked = case.validation.status if case.validation else ""
        print(
            f"  {'-' if us is None else f'{us:.1f} us'} {last and last.device_timing} "
            f"{[round(x, 1) for x in rounds]} {checked} {case.outcome.reason or ''} "
            f"{(case.validation and case.validation.reason) or ''} "
            f"{case.plan.get('activations', '')}",
            flush=True,
        )
    failed = [case.outcome.reason for case in document.cases if case.outcome.status != "completed"]
    total = alone_us(document, pipeline)
    text = "unknown" if total is None else f"{total:.1f} us"
    print(
        f"  {len(document.cases)} cases, {len(failed)} failed {failed[:1]}; sum of graphs "
        f"alone {text}",
        flush=True,
    )


def measure(setting, folder, path, effort, energy, cpu):
    def run(what, cache, *words):
        out = folder / f"{what}_{setting.stem}.json"
        every = (path, *setting.words(cache), "--reference", "none", *effort, *words, "-o", out)
        print(f"{setting.stem}: {what} {bench_run(*every)}", flush=True)
        return files.read(out) if out.exists() else None

    joules = ("--energy",) if energy else ()
    chain = run("chain", WITH_CHAIN[setting.cache], "--chain", "--seams", *joules)
    if chain is not None:
        show(chain, read_pipeline(path))
    if not (cpu and setting.cache != "hot"):  # large caches take long
        run("parts", APART[setting.cache], "--seams")


def validate(setting, folder, path):
    out = folder / f"valid_{setting.stem}.json"
    effort = ("--rounds", "1", "--iters", "5", "--timeout", "560")
    print(f"{setting.stem}: {bench_run(path, *setting.words, '--chain', *effort, '-o', out)}")
    if out.exists():
        show(files.read(out), read_pipeline(path))


def run(arguments, folder):
    begin, budget_s = time.monotonic(), float(arguments["--budget"])
    nets = CPU if arguments["--cpu"] else GPU
    effort = ("--rounds", arguments["--rounds"], "--iters", arguments["--iters"])
    for setting in settings(arguments):
        path = write(nets[setting.net](int(arguments["--batch"])), folder)
        if time.monotonic() - begin > budget_s:
            print(f"{setting.stem}: left out, {budget_s:.0f} s are over")
        elif arguments["measure"]:
            measure(setting, folder, path, effort, arguments["--energy"], arguments["--cpu"])
        elif setting.cache == "hot":
            validate(setting, folder, path)


def composed(pipeline, chain, tables):
    """The check of a chain against the prediction by these documents, or why there is none."""
    out = chain.with_name(chain.name.replace("chain_", "composed_", 1))
    words = ["compose", pipeline, *tables, "--against", chain, "--json", out, "--quiet"]
    command = [sys.executable, "-m", "bench_compare", *map(str, words)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    checks = json.loads(out.read_text())["checks"] if out.exists() else []
    out.unlink(missing_ok=True)
    return checks[0] if checks else f"exit {done.returncode} {done.stderr.strip()}"


def compare(folder):
    """A row for each chain and each table that predicts it, and the median of all."""
    found = {"as in the chain": [], "as measured": []}
    print("| chain | rows | measured us | predicted us | interval | off by | holds | energy |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for chain in sorted(folder.glob("chain_*.json")):
        pipeline = folder / f"{chain.stem.split('_')[1]}.toml"
        for name, documents in tables(chain).items():
            check = composed(pipeline, chain, documents)
            if isinstance(check, str):
                print(f"{chain.stem}, {name}: {check}")
                continue
            found[name].append(check)
            print(row(chain.stem, name, check))
    for name, checks in found.items():
        if checks:
            print(summary(name, checks))


def tables(chain):
    """Documents by what they tell: of caches as in the chain beside those of the other state, and
    of the state that the chain was measured in alone."""
    beside = chain.with_name(chain.name.replace("chain_", "parts_", 1))
    every = [chain, beside] if beside.exists() else [chain]
    own = [p for p in every if files.read(p).run.settings.cache not in AS_IN_THE_CHAIN]
    found = {} if own == every else {"as in the chain": every}
    return {**found, "as measured": own} if own else found


def summary(name, checks):
    errors = [abs(check["log_error"]) for check in checks]
    known = [check["holds"] for check in checks if check["holds"] is not None]
    return (
        f"{name}: median |log error| {statistics.median(errors):.2%}, largest {max(errors):.2%} of "
        f"{len(errors)}; {sum(known)} of {len(known)} intervals hold"
    )


def row(name, rows, check):
    predicted, measured = check["predicted"], check["measured"]
    ends = [predicted[end] for end in ("low", "high")]
    interval = "none" if None in ends else f"{ends[0] / 1000:.1f} to {ends[1] / 1000:.1f}"
    joules = check["energy_measured_j"], check["energy_predicted_j"]
    energy = "-" if None in joules else f"{joules[0]:.4g} J, predicted {joules[1]:.4g}"
    return (
        f"| {name.removeprefix('chain_')} | {rows} | {measured['value'] / 1000:.1f} | "
        f"{predicted['value'] / 1000:.1f} | {interval} | {check['log_error']:+.2%} | "
        f"{HOLDS[check['holds']]} | {energy} |"
    )


if __name__ == "__main__":
    given = docopt(__doc__)
    target = Path(given["FOLDER"])
    compare(target) if given["compare"] else run(given, target)
