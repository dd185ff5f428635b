"""Which plan a row is: short on the terminal, whole where there is room."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench_schema import files

from bench_run.report.console import table
from bench_run.report.formats import FORMATS

NAMES = ("eng62_k2=0_k13=1_k18=0_k25=1_k27=1_k28=2", "eng62_k2=3_k13=1_k18=0_k25=1_k27=1", "eng72")


@pytest.fixture(scope="module")
def measured(root):
    return files.read(root / "tests" / "data" / "gpu" / "three_engines_h200.json.gz")


@pytest.fixture
def rows(measured):
    """A document of one graph with a case for each name, on an engine with this key and id."""
    template = next(case for case in measured.cases if case.outcome.status == "completed")

    def make(key, identifier, varied=True):
        cases = tuple(
            replace(
                template,
                id=f"{template.graph.name} on {key} plan={name}",
                engine=key,
                variant={"plan": name} if varied else {},
                plan={**template.plan, "plan": name, "index": str(7 * place)},
            )
            for place, name in enumerate(NAMES)
        )
        return replace(measured, engines=(engine(key, identifier),), cases=cases)

    def engine(key, identifier):
        return replace(measured.engines[0], key=key, id=identifier)

    return make


def test_every_plan_of_a_graph_has_its_place_and_name_within_80_columns(rows):
    text = table(rows("cudnn:all", "all"))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert ["0 eng62_k2=0_k…", "7 eng62_k2=3_k…", "14 eng72"] == [
        line.partition("  ")[0][:15].rstrip() for line in lines[5:8]
    ]


def test_the_graph_stands_once_above_its_plans(rows):
    document = rows("cudnn:all", "all")
    assert 1 == table(document).count(document.cases[0].graph.name[:6])


def test_beside_other_engines_the_plan_gives_way_and_its_place_stays(rows):
    one, two = rows("cudnn:all+device=0", "all"), rows("cudnn:all+device=1", "all")
    both = replace(one, engines=(*one.engines, *two.engines), cases=(*one.cases, *two.cases))
    lines = table(both).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("cudnn:all+device=1 7 eng" in line for line in lines)


def test_a_plan_chosen_by_its_place_is_named(rows):
    text = table(rows("cudnn:index=3", "index=3", varied=False))
    assert "eng72" in text


def test_where_graph_and_engine_say_everything_there_is_no_plan(rows):
    text = table(rows("cudnn", None, varied=False))
    assert "eng72" not in text
    assert "\ngraph " in text


@pytest.mark.parametrize("form", ["csv", "markdown"])
def test_exports_hold_the_whole_name(rows, form):
    text = FORMATS[form](rows("cudnn:all", "all")).replace("\\", "")
    assert all(name in text for name in NAMES)


def test_markdown_has_no_column_for_plans_where_there_are_none(rows):
    assert "| plan" not in FORMATS["markdown"](rows("cudnn", None, varied=False))
