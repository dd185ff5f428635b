"""Two identical sides and a planted step: what is unclear, what is seen, and how often it is wrong.

Usage:
  pairs.py aa GRAPH... --engine=ENGINE
  pairs.py planted [--step=P] [--trials=N] [--busy=N] [--triton]
  pairs.py peers [--step=P] [--trials=N]

Options:
  --engine=ENGINE  engine of both runs
  --step=P         planted step [default: 2%]
  --trials=N       pairs of each kind [default: 20]
  --busy=N         processes that copy memory at the same time [default: 0]
  --triton         kernels for a GPU

*aa* measures the graphs twice and compares the two documents at 1 %. *planted* compares two kernels
of one graph with `--a/--b`, of which the second does so much more of the same memory traffic, and
two that are the same; `--busy` starts as many processes that copy memory. *peers* (a GPU, Triton)
times the same two kernels by `triton.testing.do_bench`, by `do_bench_cudagraph`, and by NVBench's
rule (the mean of samples until their relative standard error is below 0.5 %), each in a process of
its own: a step is called where two times differ by more than half of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.harness import folder, script

NUMPY_KERNEL = """
import numpy as np

from bench_run import kernel

EXTRA = {extra!r}


@kernel("relu")
def relu(x, y):
    x, y = x.reshape(-1), y.reshape(-1)
    np.maximum(x, 0, out=y)
    more = round(EXTRA * x.size)
    if more:
        np.maximum(x[:more], 0, out=y[:more])
"""
TRITON_KERNEL = """
import triton
import triton.language as tl

from bench_run import kernel

EXTRA, BLOCK = {extra!r}, 1024


@triton.jit
def _relu(x, y, n, programs, BLOCK: tl.constexpr):
    # Programs beyond the last one do the first blocks once more.
    place = (tl.program_id(0) % programs) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + place, mask=place < n)
    tl.store(y + place, tl.maximum(value, 0.0), mask=place < n)


@kernel("relu")
def relu(x, y):
    n = x.numel()
    programs = triton.cdiv(n, BLOCK)
    _relu[(programs + round(EXTRA * programs),)](x, y, n, programs, BLOCK=BLOCK)
"""
PEER = """
import sys

import torch

sys.path.insert(0, {folder!r})
import {module} as made

x = torch.randn({elements}, device="cuda")
y = torch.empty_like(x)
run = lambda: made.relu(x, y)
run()
from triton.testing import do_bench, do_bench_cudagraph

print(do_bench(run, return_mode="median"), flush=True)
with torch.cuda.stream(torch.cuda.Stream()):
    print(do_bench_cudagraph(run, return_mode="median"), flush=True)
samples = []
flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
while len(samples) < 10 or (
    torch.tensor(samples).std().item() / len(samples) ** 0.5
    > 0.005 * torch.tensor(samples).mean().item() and len(samples) < 5000
):
    flush.zero_()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record(); run(); end.record(); torch.cuda.synchronize()
    samples.append(begin.elapsed_time(end))
print(sum(samples) / len(samples), flush=True)
"""
NUMPY_DIMS, TRITON_DIMS = "1600000", "33554432"


def bench(*words: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Seconds of a command, and what it left."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    return time.perf_counter() - begin, done


def compared(*words: str) -> dict[str, Any]:
    """The JSON report of bench-compare."""
    _, done = bench("bench_compare", *words, "--json", "-")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def aa(graphs: list[str], engine: str, folder: Path) -> None:
    """Two runs of the same graphs, compared."""
    paths = [str(folder / f"{name}.json") for name in "ab"]
    took = [bench("bench_run", *graphs, "-e", engine, "-q", "-o", path)[0] for path in paths]
    record = compared(*paths, "--threshold", "1%")
    metrics = [case["metrics"].get(case["gate"]) for case in record["cases"]]
    verdicts = Counter(one["verdict"] for one in metrics if one)
    print(f"{engine}: {dict(verdicts)}, {took[0]:.1f} and {took[1]:.1f} s")
    _, done = bench("bench_compare", *paths, "--threshold", "1%")
    print(next((line for line in done.stdout.splitlines() if "would have been seen" in line), ""))


def kernels(folder: Path, text: str, step: float) -> tuple[str, str, str]:
    """Two kernels that are the same, and one that does more."""
    names = []
    for name, extra in (("one", 0.0), ("twin", 0.0), ("more", step)):
        path = folder / f"{name}.py"
        path.write_text(text.format(extra=extra))
        names.append(str(path))
    return names[0], names[1], names[2]


def planted(step: float, trials: int, busy: int, triton: bool, folder: Path) -> None:
    """Pairs of the same kernel, and pairs with the step."""
    text, dims = (TRITON_KERNEL, TRITON_DIMS) if triton else (NUMPY_KERNEL, NUMPY_DIMS)
    one, twin, more = kernels(folder, text, step)
    copying = "import numpy as np\na = np.ones(1 << 23)\nwhile True: b = a.copy()"
    neighbours = [subprocess.Popen([sys.executable, "-c", copying]) for _ in range(busy)]
    out = str(folder / "pair.json")
    try:
        for name, other in (("the same", twin), (f"{step:+.1%}", more)):
            ratios, verdicts, took = [], Counter[str](), []
            for _ in range(trials):
                sides = ["--a", f"kernel@{one}", "--b", f"kernel@{other}"]
                words = ["--op", f"relu: dims={dims}", *sides, "-q", "--force", "-o", out]
                seconds, done = bench("bench_run", *words)
                if done.returncode:
                    sys.exit(done.stderr)
                took.append(seconds)
                threshold = f"{step / 2:.4%}"
                record = compared(out, "--group-by", "engine", "--threshold", threshold)
                metric = record["cases"][0]["metrics"][record["cases"][0]["gate"]]
                ratios.append(metric["ratio"])
                verdicts[metric["verdict"]] += 1
            off = np.abs(np.log(ratios) - (np.log1p(step) if other == more else 0.0))
            within = int((off <= 0.005).sum())
            print(
                f"{name}: {dict(verdicts)}; ratio {np.median(ratios):.4f} "
                f"(sd {np.std(ratios):.4f}), within 0.5 % {within} of {trials}; "
                f"{np.mean(took):.1f} s each",
                flush=True,
            )
    finally:
        for process in neighbours:
            process.kill()


def peers(step: float, trials: int, folder: Path) -> None:
    """Other tools on the same kernels, each time in a process of its own."""
    one, _, more = kernels(folder, TRITON_KERNEL, step)
    names = ("do_bench", "do_bench_cudagraph", "NVBench's rule")
    times: dict[str, list[list[float]]] = {"one": [], "more": []}
    for _ in range(trials + 1):
        for name, path in (("one", one), ("more", more)):
            script = PEER.format(
                folder=str(folder), module=Path(path).stem, elements=int(TRITON_DIMS)
            )
            done = subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(done.stderr)
            times[name].append([float(line) for line in done.stdout.split()[-3:]])
    base, other = (np.log(np.array(times[name])) for name in ("one", "more"))
    for place, name in enumerate(names):
        same = np.abs(np.diff(base[:, place])) > step / 2
        seen = (other - base)[:trials, place] > step / 2
        print(
            f"{name}: between processes {base[:, place].std(ddof=1):.2%}; a step without one "
            f"{same.sum()} of {trials}, {step:+.1%} seen {seen.sum()} of {trials}"
        )


def main(
    graph: list[str],
    step: str,
    trials: int,
    busy: int,
    triton: bool,
    engine: str,
    **way: bool,
) -> None:
    wanted = float(step.rstrip("%")) / 100
    with folder() as scratch:
        if way["aa"]:
            aa(graph, engine, scratch)
        elif way["planted"]:
            planted(wanted, trials, busy, triton, scratch)
        else:
            peers(wanted, trials, scratch)


if __name__ == "__main__":
    script(main)
