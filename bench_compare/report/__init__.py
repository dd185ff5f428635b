"""Renderers: a report in, text out. They arrange what was decided and decide nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bench_compare.errors import UsageError

if TYPE_CHECKING:
    from bench_compare.model import View
    from bench_compare.report.model import Report

FORMATS: dict[str, str] = {
    "text": "bench_compare.report.text:render",
    "markdown": "bench_compare.report.markdown:render",
    "csv": "bench_compare.report.csv_text:render",
    "json": "bench_compare.report.json_text:render",
    "junit": "bench_compare.report.junit:render",
    "html": "bench_compare.report.html:render",
}
"""Format to ``module:function``, each ``(report, view) -> str``; loaded when asked for."""


def render(name: str, report: Report, view: View) -> str:
    """Return the report in the format `name`; raises `UsageError` for an unknown format."""
    if name not in FORMATS:
        raise UsageError(f"no report format {name!r}; choose from {', '.join(FORMATS)}")
    module, function = FORMATS[name].split(":")
    text: str = getattr(import_module(module), function)(report, view)
    return text
