"""A time that is not believed is bad news: first in every table, its reason in one line, exit 2."""

from __future__ import annotations

from dataclasses import replace

import pytest

import bench_run
from bench_run.commands.run import exit_code
from bench_run.report.console import side_by_side, table
from bench_run.report.formats import cases_csv, markdown

WHY = "a run on changed inputs takes longer"


@pytest.fixture(scope="module")
def document():
    """The second of two cases is not believed."""
    measured = bench_run.run(
        [], op=["add: dims=4x4", "mul: dims=4x4"], engine=["numpy"], rounds=1, iterations=2
    )
    first, second = measured.cases
    return replace(measured, cases=(first, replace(second, implausible=WHY)))


@pytest.mark.parametrize("show", [table, markdown])
def test_it_stands_first_and_says_why_in_a_line(show, document):
    text = show(document)
    assert text.index("mul") < text.index("add")
    assert 1 == sum(WHY in line for line in text.splitlines())


def test_its_reason_is_a_column_of_the_csv(document):
    assert WHY in cases_csv(document)


def test_it_stands_first_where_both_sides_of_a_graph_do(document):
    engines = (document.engines[0], replace(document.engines[0], key="other"))
    cases = (*document.cases, *(replace(case, engine="other") for case in document.cases))
    text = side_by_side(replace(document, engines=engines, cases=cases))
    assert text.index("mul") < text.index("add")


def test_the_exit_code_says_so(document):
    assert 2 == exit_code(document)
    assert 0 == exit_code(replace(document, cases=document.cases[:1]))
