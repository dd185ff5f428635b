"""Renderers: a report in, text out. They arrange what was decided and decide nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bench_compare.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_schema.report.model import Report

    from bench_compare.model import View

FORMATS: dict[str, str] = {
    "text": "bench_schema.report.text:render",
    "markdown": "bench_schema.report.markdown:render",
    "csv": "bench_schema.report.csv_text:render",
    "json": "bench_compare.report.json_text:render",
    "junit": "bench_compare.report.junit:render",
    "html": "bench_compare.report.html:render",
}
"""Format to ``module:function``, each ``(report, view) -> str``; loaded when asked for."""


def figures_of(report: Report) -> Iterator[tuple[str, str]]:
    """Yield every figure of the page, those of panels too, as the name of a file and JSON that
    plotly opens (`plotly.io.read_json`)."""
    from bench_compare.report.figures.base import exported

    page = report.page()
    yield from ((f"{one.id}.json", exported(one.figure)) for one in (*page.charts, *page.more))
    for panel in page.panels:
        for at, figure in enumerate(panel.figures, start=1):
            yield f"{panel.id}-{at}.json", exported(figure)


def render(name: str, report: Report, view: View) -> str:
    """Return the report in the format `name`; raises `UsageError` for an unknown format."""
    if name not in FORMATS:
        raise UsageError(f"no report format {name!r}; choose from {', '.join(FORMATS)}")
    module, function = FORMATS[name].split(":")
    text: str = getattr(import_module(module), function)(report, view)
    return text
