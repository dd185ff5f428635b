"""`--shard I/N`: which graphs of a run this process measures.

Every shard plans the whole run and keeps its own graphs, so nothing is handed round. A graph goes
with its meaning (all graphs of one fingerprint stay together, on all engines), whatever the order
or the folder they are named in. It prefers shards in an order drawn from its fingerprint, and takes
the first that has room: loads stay within `SLACK` of each other, and most graphs stay if they were
when N changes.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.document import Whole

from bench_run.engines import PROCESSOR_ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt
    from bench_schema.document import Work

    from bench_run.plan.cases import PlannedGraph
    from bench_run.plan.engines import PlannedEngine
    from bench_run.plan.load import Gathered

SLACK = 1.05
"""Load limit of a shard, as a multiple of the mean, above which graphs go to the next one they
prefer."""
VISIT_US = 1_000_000
"""Estimated cost of a graph whose work is small: processes, plans, settling of the clock."""
FLOPS_PER_US = 100_000.0
BYTES_PER_US = 100.0
"""Rates at which a processor works on a float64 reference: it costs the most of a large graph."""
COPIED_BYTES_PER_US, COOLED_FLOPS_PER_US = 250.0, 200_000.0
"""Rates for graphs that only a GPU computes: inputs are drawn and copied, outputs are checked, and
the clock recovers after long kernels. Two H200s shared 19 graphs as 5.8 and 3.2 s while both were
left out, as 6.6 and 4.7 s with the first."""


def estimate_us(work: Work, *, on_processor: bool) -> int:
    """Return the rough cost of a graph in microseconds; only ratios between graphs are used.
    `on_processor`: a processor computes it, possibly only for the reference."""
    flops, moved = work.flops or 0, work.moved_bytes or 0
    if not on_processor:
        return VISIT_US + round(moved / COPIED_BYTES_PER_US + flops / COOLED_FLOPS_PER_US)
    return VISIT_US + round(flops / FLOPS_PER_US + moved / BYTES_PER_US)


def needs_processor(engine: PlannedEngine) -> bool:
    """Return True if a processor computes the engine's graphs or their expected outputs."""
    spec = engine.spec
    return engine.reference != "none" or (spec.name in PROCESSOR_ENGINES and not spec.id)


def shards_of(costs: Mapping[str, int], count: int) -> dict[str, int]:
    """Return the shard of each key, from 0: the most expensive choose first."""
    loads = [0] * count
    room = SLACK * sum(costs.values()) / count
    chosen = {}
    salts = _mixed(np.arange(1, count + 1, dtype=np.uint64))
    for key in sorted(costs, key=lambda key: (-costs[key], key)):
        # Shards in the order that a key prefers them (rendezvous hashing).
        seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
        order = np.argsort(_mixed(salts ^ np.uint64(seed)), kind="stable")
        with_room = (int(each) for each in order if loads[each] <= room - costs[key])
        # The least loaded where none has room.
        shard = next(with_room, min(range(count), key=lambda each: (loads[each], each)))
        chosen[key] = shard
        loads[shard] += costs[key]
    return chosen


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply the finalizer of SplitMix64: each bit of the result depends on each bit of the
    value."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def take_shard(
    shard: str,
    graphs: Sequence[PlannedGraph],
    gathered: Gathered,
    engines: Iterable[PlannedEngine],
) -> tuple[tuple[PlannedGraph, ...], Gathered]:
    """Return the graphs of this shard, and its share of the files that could not be read."""
    index, count = (int(part) for part in shard.split("/"))
    costs: dict[str, int] = defaultdict(int)
    on_processor = any(map(needs_processor, engines))
    for graph in graphs:
        costs[graph.id.fingerprint] += estimate_us(graph.work, on_processor=on_processor)
    for failure in gathered.failures:
        costs[failure.sha256] += VISIT_US
    chosen = shards_of(costs, count)
    mine = tuple(g for g in graphs if chosen[g.id.fingerprint] == index - 1)
    failures = tuple(f for f in gathered.failures if chosen[f.sha256] == index - 1)
    return mine, replace(gathered, failures=failures)


def describe_whole(
    graphs: Iterable[PlannedGraph], engines: Iterable[PlannedEngine], gathered: Gathered
) -> Whole:
    """Return the number of graphs in all shards, and a hash of graphs and engines; the same in each
    shard."""
    meanings = sorted([g.id.fingerprint, g.id.name] for g in graphs)
    meanings += sorted([failure.sha256, "unread"] for failure in gathered.failures)
    text = json.dumps([meanings, sorted(engine.key for engine in engines)])
    return Whole(len(meanings), hashlib.sha256(text.encode()).hexdigest())
