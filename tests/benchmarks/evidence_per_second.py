"""What a run of five rounds costs on a GPU, and whether the cheaper ways give the same times.

Usage:
  evidence_per_second.py [--engine=SPEC]... [--way=WAY]... [options] [--] [FLAG]...

Options:
  --engine=SPEC  such as cudnn or torch:cuda
  --way=WAY      exec, fork, beside, unchecked, computed or kept; the first
                 three by default
  --specs=FILE   graphs, one --op a line
  --repeats=N    runs of each way [default: 2]
  --keep=DIR     where to leave the documents

FLAGs are for bench-run. Ways to run the same graphs, in turn: each round from nothing and alone
(``exec``), forked from a template and alone (``fork``), forked and prepared side by side
(``beside``). The last without checks (``unchecked``), with references that are computed
(``computed``), and with those that an earlier run kept (``kept``, whose first run computes them).
Printed for each: the wall time of the whole program, and against the first way the change of every
case's median (device time, all runs pooled) and of its spread between rounds.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from bench_schema.files import read
from bench_schema.student import t_quantile

from tests.benchmarks.harness import folder, script

WAYS = {
    "exec": ("--fresh", "exec", "--prepare", "1"),
    "fork": ("--fresh", "fork", "--prepare", "1"),
    "beside": (),
    "unchecked": ("--reference", "none"),
    "computed": ("--reference-cache", "off"),
    "kept": ("--reference-cache", "{kept}"),
}
DEFAULT = ("exec", "fork", "beside")
BOUND = 0.002
"""Of a change of a median that does not matter."""
SPECS = (
    "relu: n=1 c=64 h=56 w=56 dtype=half",
    "relu: n=64 c=256 h=28 w=28 dtype=half",
    "gelu: n=32 c=256 h=56 w=56 dtype=float",
    "add: n=64 c=256 h=28 w=28 dtype=float",
    "conv_fwd: n=32 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_fwd: n=32 c=256 h=14 w=14 k=256 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_fwd: n=16 c=512 h=28 w=28 k=128 r=1 s=1 dtype=half layout=nhwc",
    "conv_bwd: n=32 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "conv_wrw: n=32 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 dtype=half layout=nhwc",
    "matmul: m=1024 n=1024 k=1024 dtype=half",
    "matmul: m=4096 n=4096 k=4096 dtype=half",
    "matmul: m=8192 n=1024 k=1024 dtype=bfloat16",
)


def run(
    engine: str, specs: list[str], way: str, extra: list[str], folder: Path
) -> tuple[float, Path, str]:
    """Seconds of a whole run, its document, and its line of where the time went."""
    output = folder / f"{time.monotonic_ns()}.json"
    ops = [word for spec in specs for word in ("--op", spec)]
    command = [
        sys.executable,
        "-m",
        "bench_run",
        *ops,
        "--engine",
        engine,
        *(word.format(kept=folder / "kept") for word in WAYS[way]),
        *extra,
        "-o",
        str(output),
    ]
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begin
    if not output.exists():
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    lines = [line for line in done.stderr.splitlines() if line.startswith("took")]
    return seconds, output, lines[0] if lines else done.stderr[-500:]


def medians(paths: list[Path], series: str) -> dict[str, np.ndarray]:
    """By case, the logarithm of every round's median."""
    found: dict[str, list[float]] = defaultdict(list)
    for path in paths:
        for case in read(path).cases:
            for each in case.rounds:
                samples = each.series.get(series)
                if samples is not None:
                    kept = samples[each.cut.get(series, 0) :]
                    found[case.graph.path].append(float(np.log(np.median(kept))))
    return {name: np.array(values) for name, values in found.items()}


def held_against(base: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> str:
    """How the medians and the spread of rounds changed."""
    both = sorted(base.keys() & other.keys())
    changes = np.array([np.median(other[name]) - np.median(base[name]) for name in both])
    spreads = np.array([[np.std(each[name], ddof=1) for name in both] for each in (base, other)])
    certain = sum(is_beyond(base[name], other[name]) for name in both)
    return (
        f"{len(both)} cases: median {100 * np.median(changes):+.2f} %, "
        f"largest {100 * changes[np.argmax(np.abs(changes))]:+.2f} %, "
        f"{int((np.abs(changes) > BOUND).sum())} beyond 0.2 %, {certain} of them certainly; "
        f"spread of rounds {100 * np.median(spreads[0]):.2f} to {100 * np.median(spreads[1]):.2f} "
        f"% (median case), larger in {int((spreads[1] > spreads[0]).sum())}"
    )


def is_beyond(base: np.ndarray, other: np.ndarray) -> bool:
    """Whether Welch's interval of 99 % for the change lies wholly beyond `BOUND`."""
    parts = np.array([np.var(each, ddof=1) / each.size for each in (base, other)])
    error = np.sqrt(parts.sum())
    dof = parts.sum() ** 2 / (parts**2 / (base.size - 1, other.size - 1)).sum()
    reach = float(t_quantile(0.995, np.array([dof]))[0]) * error
    return bool(abs(other.mean() - base.mean()) - reach > BOUND)


def main(
    engine: list[str],
    way: list[str],
    specs: str | None,
    repeats: int,
    keep: str | None,
    flag: list[str],
) -> None:
    wanted = Path(specs).read_text().splitlines() if specs else SPECS
    wanted = [spec for spec in wanted if spec.strip()]
    with folder(keep) as kept:
        for one in engine:
            compare_ways(one, wanted, way or list(DEFAULT), repeats, flag, kept)


def compare_ways(
    engine: str, specs: list[str], ways: list[str], repeats: int, extra: list[str], folder: Path
) -> None:
    seconds, paths = defaultdict(list), defaultdict(list)
    for repeat in range(repeats):
        for way in ways[:: -1 if repeat % 2 else 1]:
            took, path, line = run(engine, specs, way, extra, folder)
            seconds[way].append(took)
            paths[way].append(path)
            print(f"{engine} {way}: {took:.1f} s  {line}", flush=True)
    for way in ways:
        walls = ", ".join(f"{s:.1f}" for s in seconds[way])
        ratio = min(seconds[way]) / min(seconds[ways[0]])
        print(f"{engine} {way}: {walls} s; {ratio:.2f} x the first way")
        for series in ("device_ns", "e2e_ns") if way != ways[0] else ():
            base = medians(paths[ways[0]], series)
            print(f"  {series}: {held_against(base, medians(paths[way], series))}")


if __name__ == "__main__":
    script(main)
