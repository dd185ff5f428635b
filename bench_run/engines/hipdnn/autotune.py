"""``hipdnn:autotune``: hipDNN's own tuner picks the plan, and its claimed times stand beside ours.

It executes the graph many times before anything is measured here. A time that it claims is taken by
its own clock and its own rules: it is told as text and never becomes a sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.abilities import field
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.tensors.inputs import make_inputs
from bench_run.text import time_text

if TYPE_CHECKING:
    from bench_run.engines.hipdnn.buffers import Buffers
    from bench_run.engines.hipdnn.loading import Library
    from bench_run.graph.model import Graph

TUNER, SIZE = "Graph.autotune", "Graph.get_autotune_workspace_size"
SEED = 0


def refuse_without_tuner(library: Library) -> None:
    missing = library.lacks(TUNER, SIZE)
    if missing is not None:
        raise UnsupportedGraphError(
            f"hipdnn: {library.version} has no {missing}, which hipdnn:autotune needs"
        )


def autotune(
    library: Library, native: Any, handle: Any, buffers: Buffers, graph: Graph
) -> dict[str, str]:
    """Lets hipDNN tune, on seeded inputs; its winner stays active on the graph. What it claims."""
    if library.can.has("Graph.add_all_engines", "HeuristicMode.FALLBACK"):
        with library.calling("Graph.add_all_engines"):
            native.add_all_engines(*library.modes())
    buffers.upload(make_inputs(graph, SEED))
    workspace = _workspace(library, native)
    with library.calling(TUNER):
        pointer = 0 if workspace is None else int(workspace.ptr())
        results = list(native.autotune(handle, buffers.pack, pointer))
    return _claims(results)


def _workspace(library: Library, native: Any) -> Any:
    with library.calling(SIZE):
        size = int(native.get_autotune_workspace_size())
        return library.module.DeviceBuffer(size) if size else None


def _is_measured(result: Any) -> bool:
    """Whether its time is one: rows of candidates that were left out have rank and time 0."""
    tried = field(result, "succeeded", True) and field(result, "benchmarked", True)
    return bool(tried and not field(result, "excluded_by_caller", False))


def _claims(results: list[Any]) -> dict[str, str]:
    """What hipDNN says of its candidates, the best first."""
    done = [result for result in results if _is_measured(result)]
    if not done:
        reason = field(results[0], "error_message", "") if results else "no candidates"
        raise EngineError(f"hipdnn: {TUNER}: no candidate succeeded: {reason}")
    done.sort(key=lambda result: field(result, "rank", 0))
    texts = [_claim(result) for result in done]
    claims = {"autotune's winner claims": texts[0], "autotune's candidates": str(len(results))}
    return (
        claims if len(texts) == 1 else {**claims, "autotune's others claim": "; ".join(texts[1:])}
    )


def _claim(result: Any) -> str:
    """Engine with its least and mean time, as far as this release tells them."""
    parts = [str(field(result, "engine_name") or field(result, "engine_id", "an engine"))]
    for name, words in (("min_time_ms", "least"), ("avg_time_ms", "mean")):
        value = field(result, name)
        if value is not None:
            parts.append(f"{words} {time_text(float(value) * 1e6)}")
    return ", ".join(parts)
