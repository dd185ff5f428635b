"""Time and memory of bench-compare, from the shell, on generated documents; peers beside it.

    python -m tests.benchmarks.compare_speed [--keep FOLDER] [--pyperf PYTHON] [--largest 10000]

Prints one line a size: the median of three calls, wall time and peak memory. With ``--pyperf``
(an interpreter that has pyperf) the same samples are compared by ``pyperf compare_to``, for a tenth
of the cases: its time grows linearly, the line says so.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_schema import codec
from bench_schema.document import Document, Work

from tests.bench_compare.build import case, document, round_

SIZES = ((2, 100), (1000, 1000), (10_000, 1000))
"""(cases, samples of each)."""
GOALS = {2: (0.35, None), 1000: (0.6, None), 10_000: (4.0, 900)}
"""Cases → seconds, MiB."""
ROUNDS = 5
PEER_SHARE = 10
FAMILIES = ("conv_fwd", "matmul", "relu", "batchnorm_inference", "conv_fwd+bias+relu")


def generated(cases: int, samples: int, seed: int) -> Document:
    """Every twentieth case of an odd seed is 5 % slower."""
    random = np.random.default_rng(seed)
    levels = _levels(cases)
    made = []
    for number, level in enumerate(levels):
        slow = 1.05 if seed % 2 and number % 20 == 0 else 1.0
        centre = level * slow * np.exp(random.normal(0, 0.003, (ROUNDS, 1)))
        noise = random.normal(0, 0.005, (ROUNDS, samples // ROUNDS))
        times = np.rint(centre * np.exp(noise)).astype(np.int64)
        made.append(
            case(
                f"graph_{number:05d}",
                [round_(n, {"e2e_ns": row}, cut=None) for n, row in enumerate(times)],
                family=FAMILIES[number % len(FAMILIES)],
                init={
                    "plan_ns": np.full(ROUNDS, int(level * 50)) + random.integers(0, 999, ROUNDS)
                },
                work=Work(10**6, 10**5, 10.0),
                summaries=True,
            )
        )
    return document(made, label=None, run_id=f"seed {seed}")


def _levels(cases: int):
    return 10 ** np.random.default_rng(0).uniform(4, 7, cases)


def measured(command: list[str]) -> tuple[float, float, int]:
    """(seconds, peak MiB, exit code) of a command, the median of three calls."""
    calls = [_call(command) for _ in range(3)]
    seconds = statistics.median(call[0] for call in calls)
    return seconds, max(call[1] for call in calls), calls[0][2]


def _call(command: list[str]) -> tuple[float, float, int]:
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode == 1:
            raise SystemExit(process.stderr.read().decode())
    return time.perf_counter() - begin, usage.ru_maxrss / 1024, process.returncode


def pyperf_file(document: Document, path: Path, cases: int) -> None:
    """The first cases of a document as pyperf stores them: a run for each round, seconds."""
    benchmarks = []
    for one in document.cases[:cases]:
        runs = [
            {"values": (r.series["e2e_ns"] / 1e9).tolist(), "warmups": [], "metadata": {}}
            for r in one.rounds
        ]
        metadata = {"name": one.graph.name, "loops": 1, "unit": "second"}
        benchmarks.append({"metadata": metadata, "runs": runs})
    path.write_text(json.dumps({"version": "1.0", "metadata": {}, "benchmarks": benchmarks}))


def line(what: str, seconds: float, mebibytes: float, goal: str) -> None:
    print(f"{what:48}  {seconds:7.2f} s  {mebibytes:6.0f} MiB  {goal}", flush=True)


def run_size(folder: Path, size: tuple[int, int], pyperf: str | None) -> None:
    cases, samples = size
    documents = [generated(cases, samples, seed) for seed in (0, 1)]
    paths = [folder / f"{name}_{cases}.json" for name in ("a", "b")]
    for path, made in zip(paths, documents, strict=True):
        codec.save(path, made)
    tool = [str(Path(sys.executable).with_name("bench-compare")), *map(str, paths)]
    goal = GOALS.get(cases, (None, None))
    text = f"goal {goal[0]} s" + (f", {goal[1]} MiB" if goal[1] else "") if goal[0] else ""
    line(f"bench-compare, {cases} x {samples} x 2", *measured(tool)[:2], text)
    page = [*tool, "--html", str(folder / "page.html"), "-q"]
    line(f"  and its page, {cases} cases", *measured(page)[:2], "")
    if pyperf is None:
        return
    share = max(cases // PEER_SHARE, 2)
    for path, made in zip(paths, documents, strict=True):
        pyperf_file(made, path.with_suffix(".pyperf"), share)
    peer = [pyperf, "-m", "pyperf", "compare_to", "-q"]
    peer += [str(path.with_suffix(".pyperf")) for path in paths]
    line(f"pyperf compare_to, {share} x {samples} x 2", *measured(peer)[:2], "")


def main(argv: list[str]) -> None:
    words = dict(zip(argv[::2], argv[1::2], strict=True))
    largest = int(words.get("--largest", SIZES[-1][0]))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(words.get("--keep", temporary))
        for size in SIZES:
            if size[0] <= largest:
                run_size(folder, size, words.get("--pyperf"))


if __name__ == "__main__":
    main(sys.argv[1:])
