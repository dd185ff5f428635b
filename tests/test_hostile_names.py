"""Names from documents: whatever they hold, no output of either command steers a terminal with
them, and every row of CSV keeps its cells and holds no formula."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest
from bench_schema.document import Outcome
from bench_schema.packing import FORMULA_STARTS, csv_line
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_compare.comparison.compare import compare
from bench_compare.model import Source, View
from bench_compare.policy import Policy
from bench_compare.report import FORMATS
from bench_compare.report.single import ShownRun
from bench_run.report import console, formats
from bench_run.text import visible
from tests.bench_compare.build import case, document, engine, side, steady
from tests.bench_compare.report.shown import render
from tests.support import examples

PARTS = (
    *(
        "\x1b[31m",
        "\x1b]0;title\x07",
        "\x9b31m",
        "\r",
        "\n",
        "\t",
        "\x00",
        "\x7f",
        "\u202e",
        "\u2066",
    ),
    *("=", "+", "-", "@", "＝", '"', "'", ",", ";", "|", "`", "<", "&", " ", "a", "ü", "1"),
)
NAMES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join)
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys; it may break lines and stop at tabs."""


def named(name, label, slower=1.0):
    random = np.random.default_rng(0)
    told = {"family": name, "path": name, "variant": {name: name}, "notes": (name,)}
    failed = Outcome("failed", reason=name, phase="run", detail=name)
    cases = [
        case(name, steady(random, 1e6 * slower), **told),
        case("plain", steady(random, 1e6)),
        case(f"x{name}", outcome=failed, **told),
    ]
    engines = [engine(device_kind=name)]
    return document(cases, label=label, run_id=label, engines=engines)


def assert_table(text):
    """All rows as wide as their head, and no cell that a spreadsheet would compute."""
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert {len(head)} == {len(row) for row in rows}
    numbers = re.compile(r"-?[\d.]+(e[+-]?\d+)?")
    cells = [cell for row in rows for cell in row if not numbers.fullmatch(cell)]
    assert not [cell for cell in cells if cell.startswith(FORMULA_STARTS)]


@pytest.mark.long
@given(NAMES)
@settings(max_examples=examples(30), deadline=None)
def test_no_report_of_a_comparison_steers_a_terminal(name):
    base, other = named(name, "a"), named(name, name, 1.2)
    found = compare(side("a", base), [side(name, other)], Policy())
    view = View(all=True)
    for shown in (found, ShownRun(Source(name, other, "bench"))):
        for form in FORMATS:
            assert STEERING.search(render(form, shown, view)) is None, form
        assert_table(render("csv", shown, view))


@given(NAMES)
@settings(max_examples=examples(60), deadline=None)
def test_no_report_of_a_run_steers_a_terminal(name):
    found = named(name, name)
    for make in formats.FORMATS.values():
        assert STEERING.search(make(found)) is None
    for make in (console.table, console.details):
        assert STEERING.search(visible(make(found))) is None
    assert_table(formats.cases_csv(found))
    assert_table(formats.samples_csv(found))


@given(st.lists(st.text() | NAMES | st.floats(allow_nan=False) | st.none(), min_size=2))
def test_a_row_of_csv_has_its_cells_in_every_reader(cells):
    [row] = csv.reader(io.StringIO(csv_line(cells), newline=""))
    assert len(cells) == len(row)
    texts = [(text, cell) for text, cell in zip(row, cells, strict=True) if isinstance(cell, str)]
    assert not [text for text, _ in texts if text.startswith(FORMULA_STARTS)]
    printable = [(text, cell) for text, cell in texts if cell.isprintable()]
    assert all(text in (cell, f"'{cell}") for text, cell in printable)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("two\nlines", '"two\nlines"'),
        ("a\rb", "a\\rb"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ('=HYPERLINK("x")', '"\'=HYPERLINK(""x"")"'),
        ("\n=1", '"\'\n=1"'),
        (-1.5, "-1.5"),
        (None, ""),
    ],
)
def test_cells_are_written_so(cell, text):
    assert f"x,{text}" == csv_line(["x", cell])
