"""Each text format against a stored report.

After a wanted change: BENCH_UPDATE_GOLDEN=1 pytest tests/bench_compare/report/test_golden.py
"""

import os
from pathlib import Path

import pytest

from bench_compare.model import View
from tests.bench_compare.report.shown import render

FOLDER = Path(__file__).parents[2] / "data" / "reports"
GOLDEN = {
    "suite.txt": ("text", View()),
    "suite_all_wide.txt": ("text", View(width=140, all=True)),
    "suite_color_by_time.txt": ("text", View(color=True, all=True, sort="time")),
    "suite_filtered.txt": ("text", View(all=True, filter="nhwc")),
    "suite.md": ("markdown", View()),
    "suite.csv": ("csv", View()),
    "suite.json": ("json", View()),
    "suite.xml": ("junit", View()),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_report_is_the_stored_one(name, suite):
    kind, view = GOLDEN[name]
    text = render(kind, suite, view)
    if os.environ.get("BENCH_UPDATE_GOLDEN"):
        (FOLDER / name).write_text(text, encoding="utf-8")
    assert (FOLDER / name).read_text(encoding="utf-8") == text


def test_every_text_format_has_a_stored_report():
    from bench_compare.report import FORMATS

    assert set(FORMATS) - {"html"} == {kind for kind, _ in GOLDEN.values()}
