"""A trace by PyTorch's own profiler: operations, calls and kernels."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_run.engines.base import Plan, TraceEvent
    from bench_run.streams.base import Stream


def torch_events(plan: Plan, stream: Stream, iterations: int, *, on_gpu: bool) -> list[TraceEvent]:
    """Complete events of a few iterations, each under a range of its own."""
    from torch.profiler import ProfilerActivity, profile, record_function

    kinds = [ProfilerActivity.CPU]
    if on_gpu:
        kinds.append(ProfilerActivity.CUDA)
    with profile(activities=kinds) as profiler:
        for index in range(iterations):
            with record_function(f"run {index}"):
                plan.run()
            stream.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events: list[TraceEvent] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]
