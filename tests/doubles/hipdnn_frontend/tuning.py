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
from .surface import make, namespace

WINNERS = "ingestor-winners"
TRUE = ("1", "true", "on", "yes", "enable", "enabled")


def _is_on(variable):
    return os.environ.get(variable, "").strip().lower() in TRUE


def is_forced():
    return _is_on("HIPDNN_FORCE_BENCHMARKING")


def _shard(engine):
    """The cache's file for an engine; None where there is no cache."""
    if _is_on("HIPDNN_DISABLE_CACHE"):
        return None
    folder = os.environ.get("HIPDNN_CACHE_DIR") or Path.home() / ".cache" / "hipdnn"
    name = (engine.name or engine.hexadecimal).replace(":", "_")
    arch = os.environ.get("HIPDNN_DOUBLE_ARCH", "gfx942")
    return Path(folder) / WINNERS / "1.2.0" / name / arch / "winners.jsonl"


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


def timing(elapsed_ms, quality=None, *, timed_out=False):
    """An `ExecutionTiming` of the next quality, or of the one given."""
    if quality is None:
        quality = next(_qualities) if device.can_stall() else "UNSTALLED"
    kind = namespace["TimingQuality"][quality]
    return make("ExecutionTiming", elapsed_ms=elapsed_ms, quality=kind, timed_out=timed_out)


def results(plans, config, room):
    """Results of all plans, fastest first, and the plans that were timed; without room for their
    workspace, or filtered out, they are not."""
    wanted = config._engine_id_filter or [plan.engine.id for plan in plans]
    kept = [plan for plan in plans if plan.engine.id in wanted]
    kept.sort(key=lambda plan: milliseconds(plan.engine, tuned=True))
    failing = [p for p in kept if not room or p.engine.plugin.get("untunable", False)]
    timed = [plan for plan in kept if plan not in failing]
    if not timed:
        raise RuntimeError("Autotune failed: no candidate could be benchmarked: no room")
    rows = [_result(p, -1, config, "the workspace budget is exceeded") for p in failing]
    rows += [_result(p, -1, config, "", left_out=True) for p in plans if p not in kept]
    return rows + [_result(p, rank, config, "") for rank, p in enumerate(timed)], timed


def _result(plan, rank, config, error, *, left_out=False):
    """One candidate; the winner has rank 0, one that failed -1."""
    time_ms = milliseconds(plan.engine, tuned=True) if rank >= 0 else 0.0
    setting = namespace["KnobSetting"]
    return make(
        "AutotuneResult",
        engine_id=plan.engine.id,
        engine_name=plan.engine.name or "",
        knob_settings=[setting(name, value) for name, value in plan.settings.items()],
        rank=rank,
        min_time_ms=time_ms,
        avg_time_ms=time_ms,
        robust_time_ms=time_ms,
        iterations_run=config._timed_iterations if rank >= 0 else 0,
        succeeded=rank >= 0,
        benchmarked=rank >= 0,
        error_message=error,
        workspace_size=256,
        excluded_by_caller=left_out,
        mode_used=config._mode,
    )


def store(config, results_, storage):
    """Writes the winner where the storage names a file."""
    if storage._file_path is not None and str(storage._file_path):
        best = next(row for row in results_ if row._rank == 0)
        rows = [{"engine_id": best._engine_id, "engine_name": best._engine_name}]
        Path(storage._file_path).write_text(json.dumps({"engine_overrides": rows}))
