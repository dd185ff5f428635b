"""Every plan of every graph, measured: what a tuning is held against.

Usage:
  tune_every.py --out=DIR [--seconds=S] [--blocks=N] [options] [GRAPH]...

Options:
  --out=DIR       where every.json.gz goes
  --seconds=S     no new graph is begun after so many [default: 400]
  --blocks=N      visits to each plan [default: 12]
  --engine=E      an engine, or several with commas, which are then what is varied [default: cudnn]
  --cache=STATE   as of bench-run [default: rotate]
  --batch=N       reduce every batch to this

Builds every plan once and visits each in every block; none is dropped. Of each plan the file has
what was found when it was built, and the logarithm of the midmean of each block: `tune_replay` and
the tests race over them again. GRAPH is suite:resnet50-batch32 unless said otherwise.
"""

from __future__ import annotations

import gzip
import json
import math
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
from bench_schema.tuning import Limits

from bench_run.machine.device_lock import DeviceLock
from bench_run.options import Options, Validation, grouped
from bench_run.runner.planning import outline_run
from bench_run.runner.references import ReferenceStore
from bench_run.tune.building import Effort, Means, Session, fates_of
from bench_run.tune.candidates import Lister, tuned_engines
from bench_run.tune.journal import TuneJournal
from bench_run.tune.racing import run_all
from bench_run.tune.settings import Tuning, parse_space, run_options
from bench_run.worker.parent.pool import WorkerPool
from tests.benchmarks.harness import folder, script

SUITE = "suite:resnet50-batch32"
SAMPLES = 30
ROOM_BYTES = 24 << 30


@dataclass(frozen=True)
class Asked:
    graphs: tuple[str, ...]
    engines: tuple[str, ...] = ("cudnn",)
    cache: str = "rotate"
    batch: int | None = None
    blocks: int = 12
    seconds: float = 400.0
    began: float = field(default_factory=time.monotonic)

    @property
    def is_over(self):
        return time.monotonic() - self.began > self.seconds

    @property
    def space(self):
        if len(self.engines) > 1:
            return parse_space([f"engine={','.join(self.engines)}"], [])
        return parse_space(["plan=all"], self.engines)


class Setting:
    """What a tuning is made of, up to its race."""

    def __init__(self, asked, out, stack):
        tuning = Tuning(space=asked.space, record=str(out / "every"), cache=asked.cache)
        plain = Options(graphs=asked.graphs, quiet=True, scale_batch=asked.batch)
        self.options = run_options(plain, tuning)
        self.outline, self.pool = outline_run(self.options), WorkerPool(300.0)
        stack.callback(self.pool.kill)
        specs = tuple(engine.spec.text for engine in self.outline.engines)
        engines = tuned_engines(self.options, asked.space, specs)
        self.references = ReferenceStore(
            grouped(Validation, self.options), {e.key: e for e in engines}
        )
        stack.callback(self.references.close)
        self.references.announce((graph, "auto") for graph in self.outline.graphs)
        space = replace(asked.space, engines=specs)
        self.lister = Lister(space, engines[0], engines, self.pool)
        self.journal = TuneJournal(tuning.record, {}, resume=False)
        stack.callback(self.journal.close, done=True)

    def session(self, number, found):
        means = Means(
            self.pool,
            self.references,
            self.options,
            self.journal,
            ROOM_BYTES,
            Effort(),
            DeviceLock(()),
            twice=True,
        )
        return Session(f"{number}", found, means)

    @property
    def facts(self):
        return next(iter(self.pool.opened.values())).facts


def measure_all(asked, out):
    """The stored form of all graphs that there was time for."""
    rows = []
    with ExitStack() as stack:
        setting = Setting(asked, out, stack)
        for number, graph in enumerate(setting.outline.graphs):
            if asked.is_over:
                print(f"out of time: {number} of {len(setting.outline.graphs)} graphs", flush=True)
                break
            rows.append(measure_graph(number, graph, setting, asked.blocks))
        facts = setting.facts
        return {
            "device": facts.device_kind,
            "unit": facts.device,
            "libraries": dict(facts.libraries),
            "samples": SAMPLES,
            "cache": asked.cache,
            "graphs": rows,
            "seconds": round(time.monotonic() - asked.began, 1),
        }


def measure_graph(number, graph, setting, blocks):
    begin = time.monotonic()
    found = setting.lister.options(graph)
    session = setting.session(number, found)
    fates = fates_of(found, session, Limits(), lambda: False)
    built_s = time.monotonic() - begin
    entered = [i for i, fate in enumerate(fates) if fate.status == "ok"]
    visits = []

    def measure(rows, samples):
        known = session.measure([entered[r] for r in rows], samples)
        visits.extend(known.values())
        return {r: known[entered[r]] for r in rows if entered[r] in known}

    state = run_all(len(entered), measure, blocks=blocks, samples=SAMPLES)
    session.close()
    took = time.monotonic() - begin
    print(
        f"{took:5.1f} s, {built_s:.1f} of them building: {graph.id.name}, {len(found)} plans",
        flush=True,
    )
    plans = [
        row_of(i, o, f, entered, state) for i, (o, f) in enumerate(zip(found, fates, strict=True))
    ]
    return {
        "name": graph.id.name,
        "repeat": graph.loaded.repeat,
        "plans": plans,
        "blocks": state.blocks,
        "build_s": round(built_s, 2),
        "deviation": median([v.deviation for v in visits]),
        "cost": median([v.cost for v in visits]),
    }


def row_of(index, option, fate, entered, state):
    row = {"name": option.key, "status": fate.status}
    if index not in entered:
        return row
    logs = state.logs[entered.index(index)]
    return row | {
        "error": fate.error,
        "deterministic": fate.deterministic,
        "workspace": fate.workspace_bytes,
        "logs": [None if math.isnan(v) else round(float(v), 5) for v in logs],
    }


def median(values):
    return float(np.median(values)) if values else 0.0


def save(path, data):
    path.write_bytes(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9))
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB, {data['seconds']} s")


def main(
    out: str,
    seconds: float,
    blocks: int,
    engine: str,
    cache: str,
    batch: int | None,
    graph: list[str],
) -> None:
    engines = tuple(engine.split(","))
    asked = Asked(tuple(graph or [SUITE]), engines, cache, batch, blocks, seconds)
    with folder(out) as kept:
        save(kept / "every.json.gz", measure_all(asked, kept))


if __name__ == "__main__":
    script(main)
