"""A history as text, Markdown, JSON, JUnit or a page."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench_compare.history.model import History

FORMATS: dict[str, str] = {
    "text": "bench_compare.report.history.text",
    "markdown": "bench_compare.report.history.markdown",
    "json": "bench_compare.report.history.json_text",
    "junit": "bench_compare.report.history.junit",
    "html": "bench_compare.report.history.page",
}
"""Name to the module with its ``render(history, width)``."""


def render(name: str, history: History, width: int) -> str:
    module: Any = import_module(FORMATS[name])
    return str(module.render(history, width))
