"""``hipdnn:autotune``: hipDNN's own tuner picks the plan, and its claimed times stand beside ours.

Of its two tuners this is `Graph.autotune` over every engine that takes the graph, in its standard
mode; the exhaustive sweep is not used. It executes the graph many times before anything is measured
here. A time that it claims is taken by its own clock and its own rules: it is told as text and
never becomes a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.abilities import field
from bench_run.engines.hipdnn.errors import check
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.text import time_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.hipdnn.choosing import Chooser
    from bench_run.engines.hipdnn.loading import Library
    from bench_run.engines.hipdnn.plan import Buffers
    from bench_run.graph.model import Graph

TUNER, ADD, SIZE = (
    "Graph.autotune",
    "Graph.add_all_engines",
    "Graph.get_estimated_max_workspace_size",
)
HOW = f"{TUNER}, standard mode, over every engine that takes the graph"
SEED = 0
LEAST_BYTES = 1 << 20
"""hipDNN's estimate of the workspace is a lower bound: twice that, and no less than this."""


@dataclass(frozen=True)
class Tuned:
    """What hipDNN says of its candidates."""

    claims: Mapping[str, str]
    winner: int | None = None
    """Id of the engine that it names fastest; None where this release does not tell."""


def refuse_without_tuner(library: Library) -> None:
    missing = library.lacks(TUNER, ADD, SIZE)
    if missing is not None:
        raise UnsupportedGraphError(
            f"hipdnn: {library.version} has no {missing}, which hipdnn:autotune needs"
        )


def add_candidates(library: Library, native: Any, chooser: Chooser) -> None:
    """Every engine that takes the graph. Raises `UnsupportedGraphError` where none does."""
    if library.cannot_rank is None and not chooser.ranked(native):
        raise UnsupportedGraphError("hipdnn: no engine accepts this graph: nothing to tune")
    with library.calling(ADD):
        check(ADD, native.add_all_engines(*library.modes()))


def autotune(library: Library, native: Any, handle: Any, buffers: Buffers, graph: Graph) -> Tuned:
    """Lets hipDNN tune, on seeded inputs; its winner stays active on the graph."""
    buffers.upload(make_inputs(graph, SEED))
    with library.calling(SIZE):
        size = max(2 * int(native.get_estimated_max_workspace_size()), LEAST_BYTES)
    with library.calling(f"DeviceBuffer of {size} bytes for the tuner's workspace"):
        workspace = library.module.DeviceBuffer(size)
        pointer = int(workspace.ptr())
    with library.calling(TUNER):
        results = list(native.autotune(handle, buffers.pack, pointer, workspace_size=size))
    return _tuned(results)


def hold_winner(tuned: Tuned, running: int | None, chooser: Chooser) -> None:
    """Raises `EngineError` where another engine is active than the one that hipDNN names fastest:
    the claimed time would stand beside the time of something else."""
    if None not in (tuned.winner, running) and tuned.winner != running:
        claimed, real = (chooser.name_of(i) for i in (tuned.winner, running) if i is not None)
        raise EngineError(
            f"hipdnn: {TUNER} names {claimed} its winner, and {real} is active after it; not "
            "measured under the wrong name"
        )


def _is_measured(result: Any) -> bool:
    """Whether its time is one: rows of candidates that were left out have rank and time 0."""
    tried = field(result, "succeeded", True) and field(result, "benchmarked", True)
    ranked = field(result, "rank", 0) >= 0
    return bool(tried and ranked and not field(result, "excluded_by_caller", False))


def _tuned(results: list[Any]) -> Tuned:
    if not results:
        raise UnsupportedGraphError(f"hipdnn: {TUNER}: no candidates: no engine took the graph")
    done = [result for result in results if _is_measured(result)]
    if not done:
        reason = field(results[0], "error_message", "") or "no reason is given"
        raise EngineError(f"hipdnn: {TUNER}: none of {len(results)} candidates succeeded: {reason}")
    done.sort(key=lambda result: field(result, "rank", 0))
    texts = [_claim(result) for result in done]
    claims = {
        "autotune's winner claims": texts[0],
        "autotune's candidates": f"{len(results)}, of which {len(done)} were timed",
    }
    if len(texts) > 1:
        claims["autotune's others claim"] = "; ".join(texts[1:])
    winner = field(done[0], "engine_id")
    return Tuned(claims, None if winner is None else int(winner))


def _claim(result: Any) -> str:
    """Engine with its least and mean time, as far as this release tells them."""
    parts = [str(field(result, "engine_name") or field(result, "engine_id", "an engine"))]
    for name, words in (("min_time_ms", "least"), ("avg_time_ms", "mean")):
        value = field(result, name)
        if value is not None:
            parts.append(f"{words} {time_text(float(value) * 1e6)}")
    return ", ".join(parts)
