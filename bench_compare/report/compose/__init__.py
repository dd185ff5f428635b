"""A composition as text, Markdown, JSON or a page."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench_compare.compose.model import Composition

FORMATS: dict[str, str] = {
    "text": "bench_compare.report.compose.text",
    "markdown": "bench_compare.report.compose.markdown",
    "json": "bench_compare.report.compose.json_text",
    "html": "bench_compare.report.compose.page",
}
"""Name to the module with its ``render(composition, width)``."""


def render(name: str, composition: Composition, width: int) -> str:
    module: Any = import_module(FORMATS[name])
    return str(module.render(composition, width))
