"""Time and memory of bench-compare, from the shell, on generated documents; peers beside it.

Usage:
  compare_speed.py [--keep=FOLDER] [--peers=PYTHON] [--largest=N]

Options:
  --keep=FOLDER   for the documents
  --peers=PYTHON  an interpreter that has pyperf and pytest-benchmark
  --largest=N     cases of the largest documents [default: 10000]

Prints one line a size: the median of three calls, wall and processor time, and peak memory; for the
largest size also of documents with all that a run on a GPU tells (telemetry, checks, surroundings,
validation). With
``--peers`` the same samples are compared by
``pyperf compare_to`` and shown by ``pytest-benchmark compare`` (which tests nothing), for a tenth
of the cases: both grow linearly, the line says how many there were.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from bench_schema import files
from bench_schema.document import Case, Document, Surroundings, Work

from tests.bench_compare.build import (
    STARTED,
    case,
    document,
    gpu_case,
    gpu_document,
    gpu_round,
    gpu_validation,
    round_,
)
from tests.benchmarks.harness import cost, folder, in_turns, middle, script

SIZES = ((2, 100), (1000, 1000), (10_000, 1000))
"""(cases, samples of each)."""
GOALS = {2: (0.35, None), 1000: (0.6, None), 10_000: (4.0, 900)}
"""Cases → seconds, MiB."""
PAGE_GOAL_S = 2.0
"""What the page of the largest size may add."""
ROUNDS = 5
PEER_SHARE = 10
PHASES = ("load_ns", "import_ns", "build_ns", "plan_ns", "first_run_ns")
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


def of_a_gpu(cases: int, samples: int, seed: int) -> Document:
    """The same with the fields that documents of a GPU have."""
    host = {"host": "box-7", "device_uuid": "GPU-1", "device_timing": "gated events"}
    beside = Surroundings(0.19, 0.0, 0.0, 1.05, 0, 2600.0, 45.0, (), 0)
    made = []
    for number, one in enumerate(generated(cases, samples, seed).cases):
        rounds = []
        for each in one.rounds:
            times = each.series["e2e_ns"]
            more = {**host, "device_bound_ns": 30.0, "surroundings": beside}
            rounds.append(gpu_round(each.index, {"device_ns": times}, times[:10], **more))
        sha = f"{number:064x}"
        made.append(
            gpu_case(
                one.graph.name,
                rounds,
                one.summary["e2e_ns"].median,
                family=one.graph.family,
                sha256=sha,
                fingerprint=sha,
                init={name: np.copy(one.init["plan_ns"]) for name in PHASES},
                summary={"device_ns": one.summary["e2e_ns"]},
                validation=gpu_validation(),
            )
        )
    return gpu_document(f"seed {seed}", made, ["cudnn"], hour=8 + seed, driver="570")


def _levels(cases: int):
    return 10 ** np.random.default_rng(0).uniform(4, 7, cases)


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


def pytest_benchmark_file(document: Document, path: Path, cases: int) -> None:
    """The first cases as pytest-benchmark stores them, with its statistics worked out."""
    benchmarks = [_pytest_benchmark(one) for one in document.cases[:cases]]
    head = {"version": "4.0.0", "datetime": STARTED, "machine_info": {}, "commit_info": {}}
    path.write_text(json.dumps({**head, "benchmarks": benchmarks}))


def _pytest_benchmark(one: Case) -> dict[str, Any]:
    values = np.concatenate([r.series["e2e_ns"] for r in one.rounds]) / 1e9
    low, median, high = np.percentile(values, (25, 50, 75)).tolist()
    stats = {
        "min": float(values.min()),
        "max": float(values.max()),
        "mean": float(values.mean()),
        "stddev": float(values.std(ddof=1)),
        "rounds": len(values),
        "median": median,
        "iqr": high - low,
        "q1": low,
        "q3": high,
        "iqr_outliers": 0,
        "stddev_outliers": 0,
        "outliers": "0;0",
        "ld15iqr": low,
        "hd15iqr": high,
        "ops": 1 / float(values.mean()),
        "total": float(values.sum()),
        "iterations": 1,
        "data": values.tolist(),
    }
    name = one.graph.name
    texts = {"group": None, "name": name, "fullname": name, "params": None, "param": None}
    return {**texts, "extra_info": {}, "options": {}, "stats": stats}


def line(what: str, command: list[str], goal: str = "") -> float:
    """Prints it and returns the wall seconds."""
    wall, processor, peak = middle([cost(command, codes=(0, 2)) for _ in range(3)])
    print(
        f"{what:40}  {wall:6.2f} s  {processor:6.2f} s of processor  {peak:5.0f} MiB  {goal}",
        flush=True,
    )
    return wall


def run_peers(kept: Path, documents: list[Document], python: str, share: int) -> None:
    """Both peers on the first `share` cases of the documents."""
    makers = {"pyperf": pyperf_file, "pytest-benchmark": pytest_benchmark_file}
    commands = {
        "pyperf": [python, "-m", "pyperf", "compare_to", "-q"],
        "pytest-benchmark": [str(Path(python).with_name("pytest-benchmark")), "compare"],
    }
    samples = sum(one.series["e2e_ns"].size for one in documents[0].cases[0].rounds)
    for peer, make in makers.items():
        paths = [kept / f"{peer}_{name}.json" for name in ("a", "b")]
        for path, made in zip(paths, documents, strict=True):
            make(made, path, share)
        command = [*commands[peer], *map(str, paths)]
        line(f"{peer}, {share} x {samples} x 2", command)


BASELINE = """
import sys, numpy, orjson
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        tree = orjson.loads(file.read())
    for case in tree["cases"]:
        for one in case["rounds"]:
            for samples in one["series"].values():
                numpy.median(numpy.array(samples))
"""
"""What a script of ten lines would do: parse, and one median a round."""
RATIO_GOALS = {"table": 0.4, "csv": 0.7, "json": 0.7, "html": 0.7}


def run_ratios(paths: list[Path], tool: list[str], kept: Path) -> None:
    """Every output against the ten lines, in turns; two small documents against NumPy's import."""
    python = sys.executable
    commands = {"ten lines": [python, "-c", BASELINE, *map(str, paths)], "table": tool}
    for name in ("csv", "json", "html"):
        commands[name] = [*tool, f"--{name}", str(kept / f"report.{name}"), "-q"]
    found = in_turns(commands, 3, codes=(0, 2))
    base = found["ten lines"]
    for name, (wall, processor, peak) in found.items():
        goal = f"  goal {RATIO_GOALS[name]}" if name in RATIO_GOALS else ""
        print(
            f"  {name:12} {wall:6.2f} s, x {wall / base[0]:.2f}{goal}; "
            f"processor {processor:6.2f} s, x {processor / base[1]:.2f}; {peak:5.0f} MiB",
            flush=True,
        )


def save_both(kept: Path, size: tuple[int, int], kind: str = "") -> list[Path]:
    """Made by a process of its own: the most memory of this one counts for all that it starts."""
    paths = [kept / f"{kind}{name}_{size[0]}.json" for name in ("a", "b")]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        for seed, path in enumerate(paths):
            apart.submit(_save, path, size, seed, kind).result()
    return paths


def _save(path: Path, size: tuple[int, int], seed: int, kind: str) -> None:
    files.save(path, of_a_gpu(*size, seed) if kind else generated(*size, seed))


def run_fields(kept: Path, size: tuple[int, int]) -> None:
    """The ratios for documents of a GPU."""
    paths = save_both(kept, size, "gpu_")
    print(f"the same with the fields of documents of a GPU, {size[0]} x {size[1]} x 2")
    tool = [str(Path(sys.executable).with_name("bench-compare")), *map(str, paths)]
    run_ratios(paths, tool, kept)


def run_small(kept: Path) -> None:
    """Two documents of two cases, against what importing NumPy takes, in turns."""
    paths = [kept / f"{name}_{SIZES[0][0]}.json" for name in ("a", "b")]
    tool = [str(Path(sys.executable).with_name("bench-compare")), *map(str, paths)]
    ways = {"NumPy": [sys.executable, "-c", "import numpy"], "tool": tool}
    found = in_turns(ways, 9, codes=(0, 2))
    ratio = found["tool"].processor_s / found["NumPy"].processor_s
    print(f"two small documents: x {ratio:.2f} of importing NumPy (processor), goal 3")


def run_size(kept: Path, size: tuple[int, int], peers: str | None) -> None:
    cases, samples = size
    paths = save_both(kept, size)
    tool = [str(Path(sys.executable).with_name("bench-compare")), *map(str, paths)]
    seconds, mib = GOALS.get(cases, (None, None))
    text = f"goal {seconds} s" + (f", {mib} MiB" if mib else "") if seconds else ""
    plain = line(f"bench-compare, {cases} x {samples} x 2", tool, text)
    if cases == SIZES[0][0]:
        run_small(kept)
    if cases == SIZES[-1][0]:
        run_ratios(paths, tool, kept)
        run_fields(kept, size)
    page = [*tool, "--html", str(kept / "page.html"), "-q"]
    whole = line(f"  and its page, {cases} cases", page)
    goal = f", goal {PAGE_GOAL_S} s" if cases == SIZES[-1][0] else ""
    print(f"  the page adds {whole - plain:.2f} s{goal}")
    if peers is not None:
        documents = [generated(cases, samples, seed) for seed in (0, 1)]
        run_peers(kept, documents, peers, max(cases // PEER_SHARE, 2))


def main(keep: str | None, peers: str | None, largest: int) -> None:
    with folder(keep) as kept:
        for size in SIZES:
            if size[0] <= largest:
                run_size(kept, size, peers)


if __name__ == "__main__":
    script(main)
