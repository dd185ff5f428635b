"""What tunes: the search of ``global.benchmarking``, the cache on disk, autotune.

The cache is read by every run, not only by those that tune: a plain run after a tuned one takes the
tuned time, unless its cache folder is another, and a second search finds the winner of the first
and costs nothing. As upstream's it has a file for each version, engine and chip, whose lines are
keyed by what the graph means: `WINNERS`/version/engine/chip/winners.jsonl.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

from bench_run.graph.fingerprint import fingerprint

from . import device
from .surface import behaviour, classes

WINNERS = "ingestor-winners"
TRUE = ("1", "true", "on", "yes", "enable", "enabled")


def _is_on(variable):
    return os.environ.get(variable, "").strip().lower() in TRUE


def is_forced():
    return _is_on("HIPDNN_FORCE_BENCHMARKING")


def _shard(engine):
    """The cache's file for an engine; None where there is no cache."""
    if _is_on("HIPDNN_DISABLE_CACHE") or not behaviour.get("disk cache"):
        return None
    folder = os.environ.get("HIPDNN_CACHE_DIR") or Path.home() / ".cache" / "hipdnn"
    name = engine.name.replace(":", "_")
    arch = os.environ.get("HIPDNN_DOUBLE_ARCH", "gfx942")
    return Path(folder) / WINNERS / behaviour["version"] / name / arch / "winners.jsonl"


def is_tuned(engine, graph):
    shard = _shard(engine)
    if shard is None or not shard.exists():
        return False
    lines = map(json.loads, shard.read_text().splitlines())
    return fingerprint(graph) in (line["key"] for line in lines)


def search(engine, graph):
    """Takes its time on the first call, and leaves what it found; a winner that is there already
    is taken as it is."""
    if is_tuned(engine, graph):
        return
    device.advance(engine.plugin.get("search_milliseconds", 0.0))
    shard = _shard(engine)
    if shard is not None:
        shard.parent.mkdir(parents=True, exist_ok=True)
        with shard.open("a") as out:
            out.write(json.dumps({"key": fingerprint(graph)}) + "\n")


def milliseconds(engine, tuned):
    plain = engine.plugin.get("milliseconds", 0.0)
    return engine.plugin.get("tuned_milliseconds", plain) if tuned else plain


_qualities = itertools.cycle(os.environ.get("HIPDNN_DOUBLE_QUALITY", "DEVICE_ONLY").split(","))


def timing_quality():
    """That of the next timed execution."""
    return next(_qualities) if device.can_stall() else "UNSTALLED"


class ExecutionTiming:
    def __init__(self, elapsed_ms, quality, timed_out):
        self._elapsed_ms, self._quality, self._timed_out = elapsed_ms, quality, timed_out


class AutotuneConfig:
    def __init__(self):
        self._mode, self._warmup_iterations, self._timed_iterations = None, 1, 3


class AutotuneResult:
    """One candidate; the winner has rank 0, one that failed -1."""

    def __init__(self, engine, rank, time_ms, error=""):
        self._engine_id, self._engine_name, self._rank = engine.id, engine.name, rank
        self._min_time_ms = self._avg_time_ms = self._robust_time_ms = time_ms
        self._stddev_ms, self._iterations_run, self._succeeded = 0.0, 3, not error
        self._benchmarked, self._error_message, self._workspace_size = not error, error, 256


def results(engines, room):
    """A result for each engine, fastest first; without room for their workspace all fail."""
    timed = sorted(engines, key=lambda engine: milliseconds(engine, tuned=True))
    failing = [e for e in timed if not room or e.plugin.get("untunable", False)]
    timed = [e for e in timed if e not in failing]
    kind = classes["AutotuneResult"]
    found = [kind(e, -1, 0.0, "the workspace budget is exceeded") for e in failing]
    return [
        *found,
        *(kind(e, rank, milliseconds(e, tuned=True)) for rank, e in enumerate(timed)),
    ], timed
