"""Other forms of a document: one row of `FORMATS` each, document in, text out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.report.csv_text import cases_csv, samples_csv
from bench_run.report.markdown import markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_schema.document import Document

FORMATS: Mapping[str, Callable[[Document], str]] = {
    "csv": cases_csv,
    "csv_samples": samples_csv,
    "markdown": markdown,
}
"""By the option that asks for it."""
