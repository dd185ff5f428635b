"""Which operators take longer or shorter for other values: zeros, ones, sorted, denormal numbers.

Usage:
  operator_values.py ENGINE [OUT]

ENGINE is torch:cpu, torch:cuda or numpy; OUT a JSON file. Run: each operator
of ``--op`` on its common shape with these values in every floating-point input, in turn with
random ones (`multinomial` refuses weights of zero). A ratio counts where it is beyond `LEAST`, on
the same side, in each quarter of the turns. ``make tables`` writes them into the page.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median

import numpy as np

from bench_run.engines import engine_module
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.errors import BenchRunError
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.make.spec import OPS, make_graphs
from bench_run.tensors.seeded.inputs import make_inputs
from tests.benchmarks.harness import script

LEAST = 1.3
TURNS, BUDGET_S = 24, 1.0
DATA = Path(__file__).parents[1] / "data" / "operator_values.json"


def fillings(storages, graph):
    """Name → storages. Whole numbers, positions and truth values stay as they are."""
    floats = [t for t in graph.inputs if DTYPES[t.data_type].kind == "float"]
    made = {"random": storages}
    for name, fill in (
        ("zeros", np.zeros_like),
        ("ones", np.ones_like),
        ("sorted", np.sort),
        ("denormal", lambda values: np.full_like(values, 1e-40)),
    ):
        made[name] = {**storages, **{t.uid: fill(storages[t.uid]) for t in floats}}
    return made if floats else {}


def ratios(engine, graph):
    """Filling → its time over that of random values, where the difference is clear."""
    built = engine.build(graph, {})
    sets = {n: (engine.plan(built), s) for n, s in fillings(make_inputs(graph, 0), graph).items()}
    for plan, storages in sets.values():
        plan.upload(storages)
        plan.run()
        engine.stream.synchronize()
    times = {name: [] for name in sets}
    end = time.perf_counter() + BUDGET_S
    for turn in range(TURNS):
        for name, (plan, _) in sets.items():
            start = time.perf_counter_ns()
            for _ in range(3):
                plan.run()
            engine.stream.synchronize()
            times[name].append(time.perf_counter_ns() - start)
        if turn >= 7 and time.perf_counter() > end:
            break
    found = {}
    for name, values in times.items():
        pairs = [a / b for a, b in zip(values, times["random"], strict=True)]
        quarters = [median(pairs[i::4]) for i in range(4)]
        if min(quarters) > LEAST or max(quarters) < 1 / LEAST:
            found[name] = round(median(pairs), 2)
    for plan, _ in sets.values():
        plan.close()
    return found


def main(engine: str, out: str | None) -> None:
    spec, path = parse_spec(engine), Path(out or DATA)
    opened = engine_module(spec.name).open(spec, EngineOptions(threads=1))
    found = {}
    for name, recipe in OPS.items():
        if recipe.only_after or recipe.direction != "fwd" or name == "multinomial":
            continue
        try:
            row = ratios(opened, make_graphs(name)[0])
        except BenchRunError:
            continue
        if row:
            found[name] = row
            print(name, row, flush=True)
    opened.close()
    known = json.loads(path.read_text()) if path.exists() else {}
    lines = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in {**known, engine: found}.items())
    path.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    script(main)
