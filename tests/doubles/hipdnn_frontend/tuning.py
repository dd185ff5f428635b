"""What tunes: the search of ``global.benchmarking``, the cache on disk, autotune.

The cache is read by every run, not only by those that tune: a plain run after a tuned one takes the
tuned time, unless its cache folder is another.
"""

from __future__ import annotations

import os
from pathlib import Path

from . import device
from .surface import behaviour, classes

WINNERS = "ingestor-winners"


def _winner(engine, graph):
    """The cache's file for an engine and a graph."""
    folder = os.environ.get("HIPDNN_CACHE_DIR") or Path.home() / ".cache" / "hipdnn"
    return Path(folder) / WINNERS / f"{engine.name}-{len(graph.nodes)}-{graph.nodes[0].type}"


def is_tuned(engine, graph):
    off = os.environ.get("HIPDNN_DISABLE_CACHE") or not behaviour.get("disk cache")
    return not off and _winner(engine, graph).exists()


def search(engine, graph):
    """Takes its time on the first call, and leaves what it found."""
    device.advance(engine.plugin.get("search_milliseconds", 0.0))
    if behaviour.get("disk cache") and not os.environ.get("HIPDNN_DISABLE_CACHE"):
        place = _winner(engine, graph)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("1")


def milliseconds(engine, tuned):
    plain = engine.plugin.get("milliseconds", 0.0)
    return engine.plugin.get("tuned_milliseconds", plain) if tuned else plain


class ExecutionTiming:
    def __init__(self, elapsed_ms, quality):
        self._elapsed_ms, self._quality, self._timed_out = elapsed_ms, quality, False


class AutotuneConfig:
    def __init__(self):
        self._mode, self._warmup_iterations, self._timed_iterations = None, 1, 3


class AutotuneResult:
    """One candidate; the winner has rank 0."""

    def __init__(self, engine, rank, time_ms):
        self._engine_id, self._engine_name, self._rank = engine.id, engine.name, rank
        self._min_time_ms = self._avg_time_ms = self._robust_time_ms = time_ms
        self._stddev_ms, self._iterations_run, self._succeeded = 0.0, 3, True
        self._benchmarked, self._error_message, self._workspace_size = True, "", 256


def results(engines):
    """A result for each engine, fastest first."""
    timed = sorted(engines, key=lambda engine: milliseconds(engine, tuned=True))
    kind = classes["AutotuneResult"]
    return [kind(e, rank, milliseconds(e, tuned=True)) for rank, e in enumerate(timed)], timed
