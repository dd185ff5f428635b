"""JSON: the record, for programs. Sorting, filtering and colours do not apply.

Each kind has a schema: `comparison_v3.json`, `history_v2.json` and `single_v1.json` beside this
file, and bench_schema's `composition_v3.json`. ``bench-run --rerun-from`` reads it back.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import orjson
from bench_schema.checks.acceptor import VERSIONS
from bench_schema.packing import CONTROLS

if TYPE_CHECKING:
    from bench_schema.report.model import Report

    from bench_compare.model import View

BLOCK = 256
"""Items of which all values are held at once."""
SCHEMAS = {
    "compare": files("bench_compare.report") / "comparison_v3.json",
    "history": files("bench_compare.report") / "history_v2.json",
    "single": files("bench_compare.report") / "single_v1.json",
    "compose": VERSIONS / "composition_v3.json",
}


def schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a kind of report."""
    loaded: dict[str, Any] = json.loads(SCHEMAS[kind].read_text("utf-8"))
    return loaded


def render(report: Report, view: View) -> str:  # noqa: ARG001 - the record is whole
    payload, answer = report.payload(), report.conclusion
    conclusion = {
        "word": answer.word,
        "sentence": answer.sentence,
        "hint": answer.hint,
        "exit_code": answer.exit_code,
    }
    tree = {"kind": payload.tree["kind"], "conclusion": conclusion, **payload.tree}
    around = harmless(orjson.dumps(tree, option=orjson.OPT_INDENT_2))
    if not payload.count:
        return f"{around}\n"
    before, empty, after = around.rpartition(f'"{payload.key}": []')
    items = []
    for start in range(0, payload.count, BLOCK):
        values = payload.items(range(start, min(start + BLOCK, payload.count)))
        text = orjson.dumps(values, option=orjson.OPT_INDENT_2)[1:-2]
        items.append(harmless(text.replace(b"\n", b"\n  ")))  # in texts it is an escape
    return "".join((before, empty[:-1], ",".join(items), "\n  ]", after, "\n"))


def harmless(data: bytes) -> str:
    """Decode JSON and escape characters that control a terminal; JSON itself escapes only the first
    32."""
    text = data.decode()
    if text.isascii() and "\x7f" not in text:  # as nearly all are
        return text
    return CONTROLS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)
