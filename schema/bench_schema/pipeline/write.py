"""A pipeline as the text of its TOML file."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench_schema.pipeline.values import Layer, Link, Pipeline


def pipeline_text(pipeline: Pipeline, folder: Path) -> str:
    """`folder` is where the text will lie: graph files are named as seen from there."""
    lines = [f"about = {_quoted(pipeline.about)}"]
    if pipeline.outputs:
        lines.append(f"output = {_list(link.text for link in pipeline.outputs)}")
    for each in pipeline.inputs:
        lines += ["", "[[input]]", f"name = {_quoted(each.name)}"]
        lines += [f"init = {_quoted(each.init)}"] if each.init is not None else []
        lines += ["weight = true"] if each.weight else []
    for layer in pipeline.layers:
        lines += ["", "[[graph]]", *_layer(layer, folder)]
    for row in pipeline.left_out:
        lines += ["", "[[left_out]]", f"operation = {_quoted(row.operation)}"]
        lines += [f"count = {row.count}", f"share = {row.share!r}"]
        lines += [f"reason = {_quoted(row.reason)}"] if row.reason else []
    return "\n".join(lines) + "\n"


def _layer(layer: Layer, folder: Path) -> Iterator[str]:
    yield f"id = {_quoted(layer.id)}"
    if layer.file is not None:
        relative = os.path.relpath(layer.file, folder).replace(os.sep, "/")
        yield f"file = {_quoted(relative)}"
    if layer.op is not None:
        yield f"op = {_quoted(layer.op)}"
    if layer.repeat != 1:
        yield f"repeat = {layer.repeat}"
    if layer.after:
        yield f"after = {_list(layer.after)}"
    if layer.links:
        yield f"tensor = {_table(layer.links)}"
    if layer.init:
        yield f"init = {_table(layer.init)}"
    if layer.weights is not None:
        yield f"weights = {_list(layer.weights)}"
    if layer.variant:
        yield f"variant = {_table(layer.variant)}"
    if layer.fingerprint is not None:
        yield f"fingerprint = {_quoted(layer.fingerprint)}"


def _table(rows: Mapping[str, str] | Mapping[str, Link]) -> str:
    texts = (
        f"{_quoted(key)} = {_quoted(value if isinstance(value, str) else value.text)}"
        for key, value in rows.items()
    )
    return f"{{ {', '.join(texts)} }}"


def _list(texts: Iterator[str] | tuple[str, ...]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    """TOML's basic strings are JSON's, but for the character DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
