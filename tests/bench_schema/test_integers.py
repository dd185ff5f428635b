"""Arrays of samples are read as JSON is, and nothing else is taken for one."""

import json

import pytest
from bench_schema import codec
from bench_schema.errors import DocumentError
from hypothesis import given
from hypothesis import strategies as st

LIMIT = 2**53 - 1


@pytest.fixture(scope="session")
def read(stored_tree):
    """Read the first series of the stored document with other text in its place."""
    tree = stored_tree()
    tree["cases"] = tree["cases"][:1]
    rounds = tree["cases"][0]["rounds"] = tree["cases"][0]["rounds"][:1]
    rounds[0].update(series={"e2e_ns": "HERE"}, cut={}, checks=None)
    before, after = json.dumps(tree).split('"HERE"')

    def found(text):
        document = codec.decode(f"{before}{text}{after}".encode(), "a.json")
        return document.cases[0].rounds[0].series["e2e_ns"].tolist()

    return found


@given(values=st.lists(st.integers(0, LIMIT), max_size=99))
def test_arrays_are_read_as_json_is(read, values):
    assert values == read(json.dumps(values))


@pytest.mark.parametrize("odd", ["1.5", "-12", '"1"', "[1]", "{ }", "nul", "true", str(LIMIT + 1)])
def test_one_value_that_is_not_a_duration_among_many_is_refused(read, odd):
    with pytest.raises(DocumentError):
        read(f"[{'123,' * 1000}{odd}]")


def test_an_integer_may_be_written_as_json_schema_allows(read):
    assert [123, 12] == read("[ 123, 12.0 ]")


@pytest.mark.parametrize("text", ['"1,2,3"', '{"a":1}', "123", "null"])
def test_other_values_are_not_arrays(read, text):
    with pytest.raises(DocumentError):
        read(text)
