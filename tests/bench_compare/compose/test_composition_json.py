"""The JSON of a composition and its schema."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from bench_compare.report.json_text import schema
from tests.bench_compare.compose.sample import composition
from tests.bench_compare.report.shown import render


@pytest.fixture(scope="module")
def validator():
    Draft202012Validator.check_schema(schema("compose"))
    return Draft202012Validator(schema("compose"))


def test_what_is_written_satisfies_the_schema(validator):
    assert [] == [*validator.iter_errors(json.loads(render("json", composition())))]


def test_the_schema_refuses_a_field_that_is_not_there(validator):
    tree = json.loads(render("json", composition()))
    tree["chosen"]["parts"][0]["tme_ns"] = 1
    assert [*validator.iter_errors(tree)] != []
