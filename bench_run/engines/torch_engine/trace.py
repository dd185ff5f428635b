"""A trace by PyTorch's own profiler: operations, calls and kernels."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench_run.engines.base import Plan, Stream


def torch_events(plan: Plan, stream: Stream, iterations: int) -> list[dict[str, Any]]:
    """Complete events of a few iterations, each under a range of its own."""
    from torch.profiler import ProfilerActivity, profile, record_function

    kinds = [ProfilerActivity.CPU]
    if stream.clock != "host" or hasattr(stream, "expect"):
        kinds.append(ProfilerActivity.CUDA)
    with profile(activities=kinds) as profiler:
        for index in range(iterations):
            with record_function(f"run {index}"):
                plan.run()
            stream.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        found = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return [event for event in found if event.get("ph") == "X"]
