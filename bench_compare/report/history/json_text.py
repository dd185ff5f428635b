"""JSON: the whole history, for programs. Its schema is `history_v1.json` beside this file.

``bench-run --rerun-from`` reads ``rerun``: the cases that are open, with the path of the graph as
the run named it, its fingerprint and the engine's key.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from bench_compare.history.model import History

KIND, VERSION = "bench-compare history", 1


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of what `render` writes."""
    text = files("bench_compare.report.history").joinpath(f"history_v{VERSION}.json")
    loaded: dict[str, Any] = json.loads(text.read_text("utf-8"))
    return loaded


def render(history: History, width: int = 80) -> str:  # noqa: ARG001
    return orjson.dumps(record(history), option=orjson.OPT_INDENT_2).decode() + "\n"


def record(history: History) -> dict[str, Any]:
    return {"kind": KIND, "version": VERSION, **asdict(history), "rerun": rerun(history)}


def rerun(history: History) -> list[dict[str, str]]:
    """Cases of events that gate, and those that are unclear."""
    changed = {change.series for event in history.gating for change in event.changes}
    wanted = changed | {one.series for one in history.unclear}
    return [
        {"fingerprint": one.fingerprint, "engine": one.engine, "path": one.path}
        for one in history.series
        if one.id in wanted
    ]
