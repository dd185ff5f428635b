"""How long composing takes: 53 layers, as many rows as asked for, in one document.

Usage:
  compose_speed.py [--rows=N]

Options:
  --rows=N  of the document [default: 10000]

Writes a pipeline with residual links and a document of so many rows of 3 rounds
of 20 samples into a temporary folder, then prints the processor time of the whole command, of the
choice alone (the problem made and solved), and, for one row and several forms a layer, of the
choice by time, energy and their product. Last, of layers that choose under a limit of the error:
53 and 400 among engines and layouts by time, 53 among 8 engines by energy × delay.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np

from bench_compare.compose.analysis import Composer
from bench_compare.compose.given import Inputs, read_given
from bench_compare.compose.optimum import Limit, Problem, Term, least
from bench_compare.compose.select import ComposeSettings, allowed
from bench_compare.input.load import load
from tests.bench_compare.compose import worlds
from tests.benchmarks.harness import cost, folder, middle, script

LAYERS, SAMPLES, REPEATS = 53, 20, 5
RANDOM = np.random.default_rng(0)


def world(rows, energy=False):
    """Residual links over three layers; every other plan in the other layout."""
    names = [f"l{n}" for n in range(LAYERS)]
    plans = max(1, rows // LAYERS - 2)
    writers = {
        n: (names[i - 1], *([names[i - 3]] if i % 3 == 0 else [])) for i, n in enumerate(names) if i
    }
    alone = {}
    for name in names:
        base = int(RANDOM.integers(10_000, 90_000))
        words = ["cudnn", *(f"cudnn plan=eng{k}" + " layout=nhwc" * (k % 2) for k in range(plans))]
        alone[name] = {one: int(base * RANDOM.uniform(0.8, 2)) for one in words}
    joules = {
        (name, one): float(RANDOM.uniform(1, 3)) * time_ns * 1e-7
        for name, row in alone.items()
        for one, time_ns in row.items()
        if energy
    }
    return worlds.World(
        alone,
        writers=writers,
        convert={"cudnn": (3000, 3100)},
        joules=joules,
        states=(1.0, 1.01, 0.99),
    )


def with_noise(case):
    rounds = tuple(
        replace(
            one,
            series={
                "e2e_ns": np.round(
                    one.series["e2e_ns"][0] * np.exp(RANDOM.normal(0, 0.01, SAMPLES))
                ).astype(np.int64)
            },
        )
        for one in case.rounds
    )
    return replace(case, rounds=rounds)


def document(made):
    found = worlds.parts(made)
    return replace(found, cases=tuple(map(with_noise, found.cases)))


def choice_ms(scratch, goal):
    """Processor time of making and solving the problem, without reading."""
    sources, _ = load([str(scratch / "parts.json")])
    given = read_given(
        Inputs(tuple(sources), (), scratch / "net.toml", ComposeSettings(choose=goal))
    )
    rows = allowed(given.table, given.network, given.cache, {}, limited=False)
    answer = Composer(given, rows)
    begin = time.process_time()
    space = answer.space(frugal=goal != "time")
    best = least(space.problem, goal)
    return 1000 * (time.process_time() - begin), best.optimal


def limited(layers, options=4, engines=2):
    """Layers with seams between engines, conversions between layouts and a limit that binds."""
    on, layout = (
        RANDOM.integers(0, engines, (layers, options)),
        RANDOM.integers(0, 2, (layers, options)),
    )
    convert = np.array([[0, 3000], [3100, 0]])
    terms, errors = [], []
    for n in range(layers):
        time = RANDOM.integers(10_000, 90_000) * RANDOM.uniform(0.8, 2, options)
        terms.append(Term((n,), time, np.full(options, np.nan)))
        errors.append(10 ** RANDOM.uniform(-6, -3, options))
        for writer in {n - 1, n - 3 if n % 3 == 0 else n - 1}:
            if writer >= 0:
                seam = RANDOM.uniform(-900, 900, (engines, engines))[np.ix_(on[writer], on[n])]
                pair = seam + convert[np.ix_(layout[writer], layout[n])]
                terms.append(Term((writer, n), pair, np.full(pair.shape, np.nan)))
    least_error, usual = sum(e.min() for e in errors), sum(e.mean() for e in errors)
    bound = least_error + 0.05 * (usual - least_error)
    return Problem((options,) * layers, tuple(terms), (Limit(bound, tuple(errors)),))


def limited_engines(engines=8):
    """Layers with seams where the engine changes or stays, by time and energy, and the limit."""
    terms, errors = [], []
    for n in range(LAYERS):
        time = RANDOM.integers(10_000, 90_000) * RANDOM.uniform(0.8, 2, engines)
        terms.append(Term((n,), time, time * RANDOM.uniform(1, 3, engines) * 1e-7))
        errors.append(10 ** RANDOM.uniform(-6, -3, engines))
        own = RANDOM.uniform(-900, 900, engines).clip(0)
        if n:
            seam = np.maximum(own[:, None], own)
            terms.append(Term((n - 1, n), seam, seam * 5e-8))
    least_error, usual = sum(e.min() for e in errors), sum(e.mean() for e in errors)
    bound = least_error + 0.3 * (usual - least_error)
    return Problem((engines,) * LAYERS, tuple(terms), (Limit(bound, tuple(errors)),))


def main(rows: int) -> None:
    with folder() as scratch:
        made = world(rows)
        worlds.write_pipeline(made, scratch)
        held = document(made)
        worlds.save(scratch, "parts.json", held)
        size = (scratch / "parts.json").stat().st_size / 1e6
        words = ["compose", str(scratch / "net.toml"), str(scratch / "parts.json"), "-q"]
        command = [sys.executable, "-m", "bench_compare", *words, "--choose", "time"]
        took = middle([cost(command) for _ in range(REPEATS)])
        print(
            f"{len(held.cases)} rows, {size:.0f} MB: whole command {took.processor_s:.2f} s of "
            f"processor time (median of {REPEATS}), {took.peak_mib:.0f} MiB"
        )
        print("choice by time: {:.0f} ms, optimal: {}".format(*choice_ms(scratch, "time")))
        worlds.save(scratch, "parts.json", document(world(LAYERS * 8, energy=True)))
        for goal in ("time", "energy"):
            took_ms, optimal = choice_ms(scratch, goal)
            print(
                f"{LAYERS} layers of 7 rows with energy, by {goal}: {took_ms:.0f} ms, "
                f"optimal: {optimal}"
            )
    for what, problem, goal in (
        (f"{LAYERS} layers", limited(LAYERS), "time"),
        ("400 layers", limited(400), "time"),
        (f"{LAYERS} layers of 8 engines", limited_engines(), "energy"),
    ):
        begin = time.process_time()
        best = least(problem, goal)
        took_ms = 1000 * (time.process_time() - begin)
        print(f"{what} under a limit, by {goal}: {took_ms:.0f} ms, optimal: {best.optimal}")


if __name__ == "__main__":
    script(main)
