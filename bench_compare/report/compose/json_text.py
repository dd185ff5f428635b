"""JSON: the whole composition, for programs; bench_schema has its schema, `composition_v1.json`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson
from bench_schema.checks.acceptor import VERSIONS

if TYPE_CHECKING:
    from bench_compare.compose.model import Composition

KIND, VERSION = "bench-compare compose", 1


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of what `render` writes."""
    loaded: dict[str, Any] = json.loads((VERSIONS / f"composition_v{VERSION}.json").read_bytes())
    return loaded


def render(composition: Composition, width: int = 80) -> str:  # noqa: ARG001
    return orjson.dumps(record(composition), option=orjson.OPT_INDENT_2).decode() + "\n"


def record(composition: Composition) -> dict[str, Any]:
    return {"kind": KIND, "version": VERSION, **asdict(composition)}
