"""Traces of a few iterations, in a pass of their own, for Chrome or Perfetto: host and device.

A worker leaves one part for each case (`leave_part`); the run joins the parts into one file, each
beginning at its own zero (`join_parts`). CUPTI sees the device and the driver's calls; an engine
whose library has a profiler of its own is asked for its trace.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.files import writing
from bench_run.profilers.base import ITERATIONS
from bench_run.streams import cupti
from bench_run.streams.cupti import demangle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_run.engines.base import Engine, Plan, TraceEvent
    from bench_run.streams.base import Stream

HOST, CALLS, DEVICE = 0, 1, 2
LANES = {HOST: "iterations", CALLS: "driver and runtime calls", DEVICE: "kernels, copies, fills"}


def leave_part(engine: Engine, plan: Plan, case_id: str, folder: str) -> None:
    """Trace some iterations of the plan and leave them in `folder`."""
    leave_events(_events(engine, plan), case_id, folder)


def _events(engine: Engine, plan: Plan) -> list[TraceEvent]:
    stream = engine.stream
    trace = engine.abilities.trace
    if trace is not None:
        return trace(plan, ITERATIONS)
    if stream.abilities.kernel_timer is not None and cupti.available():
        with cupti.Recorder(calls=True) as recorder:
            instants = _iterations(plan, stream, cupti.timestamp_ns)
        events = _host_events(instants)
        events += [_event(c.name, CALLS, c.start_ns, c.end_ns) for c in recorder.calls]
        works = recorder.records
        return events + [_event(demangle(r.name), DEVICE, r.start_ns, r.end_ns) for r in works]
    return _host_events(_iterations(plan, stream, time.perf_counter_ns))


def leave_events(events: list[TraceEvent], case_id: str, folder: str) -> None:
    """Leave the events of one case in `folder`, as its next part."""
    path = Path(folder) / f"{len(list(Path(folder).iterdir()))}.json"
    with writing(path):
        path.write_text(json.dumps({"case_id": case_id, "events": events}), encoding="utf-8")


def _iterations(plan: Plan, stream: Stream, clock: Any) -> list[tuple[int, int, int]]:
    """Begin of the call, its end, and end of the wait, of each iteration."""
    instants = []
    for _ in range(ITERATIONS):
        begin = clock()
        plan.run()
        called = clock()
        stream.synchronize()
        instants.append((begin, called, clock()))
    return instants


def _host_events(instants: Iterable[tuple[int, int, int]]) -> list[TraceEvent]:
    events = []
    for index, (begin, called, end) in enumerate(instants):
        events.append(_event(f"run {index}", HOST, begin, called))
        events.append(_event("wait", HOST, called, end))
    return events


def _event(name: str, lane: int, start_ns: int, end_ns: int) -> TraceEvent:
    span = {"ts": start_ns / 1e3, "dur": (end_ns - start_ns) / 1e3}
    return {"name": name, "ph": "X", "pid": 0, "tid": lane, **span}


def join_parts(folder: str) -> dict[str, Any]:
    """Return one Chrome trace of all parts: a process for each case (and each of its processes)."""
    paths = sorted(Path(folder).glob("*.json"), key=lambda path: int(path.stem))
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    events: list[TraceEvent] = []
    for place, part in enumerate(parts):
        # From zero on, its processes numbered from a hundred times its place.
        zero = min((event["ts"] for event in part["events"] if "ts" in event), default=0)
        numbers: dict[Any, int] = {}
        for event in part["events"]:
            numbers.setdefault(event.get("pid", 0), 100 * place + len(numbers))
        moved = [
            {**event, "pid": numbers[event.get("pid", 0)]}
            | ({"ts": event["ts"] - zero} if "ts" in event else {})
            for event in part["events"]
        ]
        name = part["case_id"]
        events += [_name_track("process_name", number, 0, name) for number in numbers.values()]
        lanes = {(e["pid"], e["tid"]) for e in moved if e.get("tid") in LANES}
        events += [_name_track("thread_name", p, t, LANES[t]) for p, t in sorted(lanes)]
        events += moved
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _name_track(what: str, process: int, thread: int, name: str) -> TraceEvent:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
