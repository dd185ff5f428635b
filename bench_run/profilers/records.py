"""Kernels that a profiler saw, as values; what they are per iteration; the Chrome trace of them."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench_schema.document import Kernel

from bench_run.profilers.trace import DEVICE

if TYPE_CHECKING:
    from bench_run.engines.base import TraceEvent


@dataclass(frozen=True)
class Dispatch:
    """One launch of a kernel."""

    number: int
    """In order of enqueuing."""
    name: str
    begin_ns: int
    end_ns: int
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.begin_ns


Iteration = Sequence[Dispatch]


def last_iterations(
    dispatches: Sequence[Dispatch], count: int, rest_ns: int
) -> list[list[Dispatch]] | None:
    """The launches of the last `count` iterations. The profiled process rests for `rest_ns` before
    each, so that launches fall into groups; None where there are fewer groups than that."""
    groups: list[list[Dispatch]] = []
    busy_until_ns = None
    for each in sorted(dispatches, key=lambda d: (d.begin_ns, d.number)):
        if busy_until_ns is None or each.begin_ns - busy_until_ns >= rest_ns // 2:
            groups.append([])
        groups[-1].append(each)
        busy_until_ns = max(busy_until_ns or 0, each.end_ns)
    return groups[-count:] if len(groups) >= count else None


def kernels(iterations: Sequence[Iteration]) -> tuple[Kernel, ...]:
    """One row a kernel in order of its first launch: launches in an iteration (their median), and
    medians over all launches of its time and of each counter."""
    by_name: dict[str, list[Dispatch]] = defaultdict(list)
    for iteration in iterations:
        for each in iteration:
            by_name[each.name].append(each)
    return tuple(
        Kernel(
            name=name,
            count=round(statistics.median(_count(name, i) for i in iterations)),
            median_ns=statistics.median(each.duration_ns for each in launches),
            counters=_median_counters(launches),
        )
        for name, launches in by_name.items()
    )


def _count(name: str, iteration: Iteration) -> int:
    return sum(each.name == name for each in iteration)


def _median_counters(launches: Sequence[Dispatch]) -> dict[str, float]:
    names = dict.fromkeys(name for each in launches for name in each.counters)
    return {
        name: statistics.median(d.counters[name] for d in launches if name in d.counters)
        for name in names
    }


def trace_events(iterations: Sequence[Iteration]) -> list[TraceEvent]:
    """Events of Chrome's trace format on the device's lane; instants in microseconds."""
    return [_event(each, index) for index, iteration in enumerate(iterations) for each in iteration]


def _event(each: Dispatch, iteration: int) -> TraceEvent:
    return {
        "name": each.name,
        "ph": "X",
        "pid": 0,
        "tid": DEVICE,
        "ts": each.begin_ns / 1000,
        "dur": each.duration_ns / 1000,
        "args": {"iteration": iteration},
    }
