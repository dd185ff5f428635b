import json
import math

import jsonschema
import orjson
import pytest

from bench_compare.model import Verdict
from bench_compare.report import json_text
from tests.bench_compare.comparison.compositions import composed
from tests.bench_compare.report.shown import render


def written(comparison):
    return json.loads(render("json", comparison))


@pytest.mark.parametrize("which", ["suite", "hostile_suite"])
def test_the_record_satisfies_its_schema(which, request):
    record = written(request.getfixturevalue(which))
    validator = jsonschema.Draft202012Validator(json_text.schema("compare"))
    assert [] == list(validator.iter_errors(record))


def test_the_schema_is_a_schema_and_knows_every_verdict():
    schema = json_text.schema("compare")
    jsonschema.Draft202012Validator.check_schema(schema)
    assert {verdict.value for verdict in Verdict} == set(schema["$defs"]["verdict"]["enum"])


def test_a_field_that_nobody_knows_is_an_error(suite):
    record = written(suite)
    record["cases"][0]["surprise"] = 1
    with pytest.raises(jsonschema.ValidationError, match="surprise"):
        jsonschema.validate(record, json_text.schema("compare"))


def test_a_rerun_finds_what_it_needs(suite):
    slower = [case for case in written(suite)["cases"] if case["verdict"] in ("slower", "unclear")]
    facts = {
        (case["fingerprint"], case["other"]["path"], case["other"]["engine"]) for case in slower
    }
    assert ("fp-pointwise_add_n4096", "graphs/pointwise_add_n4096.json", "cudnn") in facts
    assert 3 == len(facts)


def test_numbers_that_json_cannot_hold_become_null(make):
    row = make.row(1, "g", Verdict.SLOWER, math.inf)
    assert written(make.comparison([row]))["cases"][0]["metrics"]["device_ns"]["ratio"] is None


def test_the_exit_code_is_in_the_record(suite, make):
    assert (2, 0) == (written(suite)["exit_code"], written(make.comparison([]))["exit_code"])


def test_the_text_is_what_any_writer_of_json_makes_of_it(hostile_suite):
    for comparison in (hostile_suite, composed(3)[1]):
        whole = render("json", comparison)
        again = (
            json_text.harmless(orjson.dumps(json.loads(whole), option=orjson.OPT_INDENT_2)) + "\n"
        )
        assert whole == again
