"""What the float64 references of a run cost: computed, and read from what an earlier run kept.

Usage:
  reference_cost.py [--specs=FILE] [--repeats=N] [--cores=N]

Options:
  --specs=FILE   graphs, one --op a line; by default those of evidence_per_second.py
  --repeats=N    times each way, in turn [default: 2]
  --cores=N      as if the machine had so many; all by default

Through the run's own store and helpers, without an engine that is timed. Printed for each way: wall
time until the last graph's outputs are there, and processor time of all helpers; then for each
graph what its helper took in a process of its own, one after the other.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from bench_run.options import Options, Validation, grouped
from bench_run.plan.cases import PlannedGraph, plan_graph
from bench_run.plan.load import gather
from bench_run.runner.references import Helpers, ReferenceStore
from tests.benchmarks.evidence_per_second import SPECS
from tests.benchmarks.harness import folder, script


def children_s() -> float:
    """Processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(graphs: list[PlannedGraph], cache: str, cores: int | None) -> tuple[float, float, str]:
    """Wall seconds, processor seconds, and where the outputs came from."""
    used = children_s()
    options = Options(reference_cache=cache)
    store = ReferenceStore(
        grouped(Validation, options), {}, helpers=Helpers(options.timeout_s, cores)
    )
    begin = time.monotonic()
    try:
        store.announce((graph, "numpy") for graph in graphs)
        store.compute_ahead()
        found = [store.validation_settings(graph, "numpy") for graph in graphs]
        took = time.monotonic() - begin
    finally:
        store.close()
    return took, children_s() - used, " and ".join(sorted({str(one.source) for one in found}))


def main(specs: str | None, repeats: int, cores: int | None) -> None:
    wanted = Path(specs).read_text().splitlines() if specs else SPECS
    gathered = gather(Options(op=tuple(spec for spec in wanted if spec.strip())))
    graphs = [plan_graph(loaded) for loaded in gathered.graphs]
    with folder() as scratch:
        kept = f"{scratch}/kept"
        for way in ("off", kept) * repeats:
            took, used, source = timed(graphs, way, cores)
            print(f"{len(graphs)} references {source}: {took:.2f} s, {used:.2f} s of processors")
            sys.stdout.flush()
        size = sum(path.stat().st_size for path in Path(kept).rglob("*.npy"))
        print(f"kept: {size / 1e6:.0f} MB")
        print_each(graphs, kept)


def print_each(graphs: list[PlannedGraph], kept: str) -> None:
    for graph in graphs:
        rows = [timed([graph], way, 1)[1] for way in ("off", kept)]
        print(f"{graph.id.name[:60]:62}{rows[0]:8.2f}{rows[1]:8.2f} s of a processor")


if __name__ == "__main__":
    script(main)
