"""What checks cost, and whom they accuse.

Usage:
  checks.py cost [--engine=E] [--times=N] [--timer=T]
  checks.py honest [--runs=N] [--busy=N] [--templates]

Options:
  --engine=E   [default: numpy]
  --times=N    repetitions of each side, in turns [default: 3]
  --timer=T    clock of a device [default: auto]
  --runs=N     [default: 20]
  --busy=N     loops that keep a processor busy each [default: 2]
  --templates  files of ``bench-run init kernel`` in place of the table's honest engines

``cost``: twelve graphs with a reference and without, in turns: the wall time of both, their ratio,
and for each graph the ratio of its times. ``honest``: so many runs of engines that do not cheat,
next to busy loops; prints every accusation, exit code 1 if there is one.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench_schema.estimate import case_time
from bench_schema.files import read

from bench_run import run
from tests.benchmarks.harness import environment, script
from tests.support import register_engines

EXPLOITS = Path(__file__).parents[1] / "exploits"
OPS = (
    "relu: dims=1024x1024",
    "gelu_fwd: dims=512x1024",
    "softmax: dims=512x1024",
    "matmul: m=512 n=512 k=512",
    "matmul: m=128 n=128 k=128",
    "conv_fwd: n=1 c=64 h=28 w=28 k=64 r=3 s=3 pad=1",
    "layernorm: dims=512x1024",
    "add: dims=1024x1024",
    "batchnorm_training: n=8 c=32 h=28 w=28",
    "sdpa: b=1 h=8 s=128 d=64",
    "matmul+bias+relu: m=256 n=256 k=256",
    "rmsnorm: dims=512x1024",
)


def cost_of(engine: str, times: int, timer: str) -> None:
    """Print both wall times and the ratios."""
    walls = {"auto": [], "none": []}
    medians = {"auto": {}, "none": {}}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(times):
            for reference in walls:
                path = Path(folder) / "out.json"
                ops = [word for op in OPS for word in ("--op", op)]
                words = (*ops, "--engine", engine, "--reference", reference, "--quiet", "--force")
                begin = time.perf_counter()
                command = [sys.executable, "-m", "bench_run", *words, "-o", str(path)]
                subprocess.run([*command, "--timer", timer], check=False)
                walls[reference].append(time.perf_counter() - begin)
                for case in read(path).cases:
                    medians[reference].setdefault(case.graph.name, []).append(case_time(case).ns)
    checked, unchecked = (statistics.median(walls[each]) for each in ("auto", "none"))
    print(f"{engine}: {checked:.1f} s checked, {unchecked:.1f} s not: {checked / unchecked:.3f}")
    for name, values in medians["auto"].items():
        ratio = statistics.median(values) / statistics.median(medians["none"][name])
        print(f"  {name:40} {statistics.median(values) / 1e3:10.2f} µs  {ratio:.4f}")


@contextmanager
def busy_loops(count):
    """Keep so many processors busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()


def complaints(case):
    """Everything that is said against a case, in a line."""
    check = case.validation
    words = (case.implausible, check and check.status == "failed" and check.reason)
    reason = None if case.outcome.status == "completed" else case.outcome.reason
    return "; ".join(filter(None, (reason, *words)))


def accusations(runs: int, loops: int, *, templates: bool) -> int:
    """Print accusations of honest engines; return their number."""
    accused = measured = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(busy_loops(loops))
        for number in range(runs):
            for case in of_templates(folder) if templates else of_table(folder):
                measured += 1
                said = complaints(case)
                accused += bool(said)
                if said:
                    print(f"run {number}: {case.id}: {said}", flush=True)
    print(f"{measured} cases of honest engines in {runs} runs, {accused} accused")
    return accused


def of_table(folder):
    if str(folder) not in sys.path:
        os.environ["EXPLOITS"] = "honest"
        register_engines(folder, exploit="exploit_engine")
        paths = (str(folder), str(EXPLOITS), os.environ.get("PYTHONPATH", ""))
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        sys.path[:0] = [str(folder), str(EXPLOITS)]
    op = "gelu_fwd: dims=128x256 dtype=float"
    return run([], op=[op], engine=["exploit:all"], rounds=2, iterations=48, warmup=2).cases


def of_templates(folder):
    for kind in ("numpy", "cpp", "torch"):
        path = folder / kind
        path.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "bench_run", "init", "kernel", kind]
        subprocess.run(command, cwd=path, capture_output=True, check=False, env=environment())
        words = {"rounds": 1, "iterations": 24}
        (kernel,) = path.glob("my_kernel.*")
        op = "sdpa: b=1 h=4 s=64 d=64" if kind == "torch" else "matmul: m=128 n=128 k=128"
        yield from run([], op=[op], engine=[f"kernel@{kernel}"], **words).cases
        case = path / "my_case.py"
        if case.exists():
            yield from run([str(case)], engine=[f"kernel@{case}"], **words).cases


def main(
    cost: bool,
    honest: bool,
    engine: str,
    times: int,
    timer: str,
    runs: int,
    busy: int,
    templates: bool,
) -> int:
    if cost:
        cost_of(engine, times, timer)
    return int(honest and accusations(runs, busy, templates=templates) > 0)


if __name__ == "__main__":
    script(main)
