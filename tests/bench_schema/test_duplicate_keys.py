"""A key that an object has twice is refused, wherever it is and however the text is laid out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench_schema import codec, files
from bench_schema.checks.duplicate_keys import (
    WHOLE_BYTES,
    _may_repeat,
    _repeated,
    refuse_duplicate_keys,
)
from bench_schema.errors import SchemaError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import examples

DOCUMENTS = Path(__file__).parents[1] / "data" / "documents"
LAYOUTS = st.sampled_from(
    [{}, {"indent": 3}, {"separators": (",", ":")}, {"separators": (" ,\n", " : ")}]
)
NAMES = st.one_of(
    st.text(max_size=20), st.sampled_from(['"', "\\", '\\"', "{", "}", '":', "a" * 40])
)
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), NAMES),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=5)),
    max_leaves=30,
)
MARK = "the key of which there will be two"


def text_of(value, layout, ascii_only=False):
    return json.dumps(value, ensure_ascii=ascii_only, **layout).encode("utf-8", "surrogatepass")


@settings(max_examples=examples(40))
@given(VALUES, LAYOUTS, st.booleans())
def test_a_text_without_a_key_twice_passes(value, layout, ascii_only):
    assert refuse_duplicate_keys(text_of(value, layout, ascii_only), "x") is None


@settings(max_examples=examples(40))
@given(VALUES, st.lists(NAMES, unique=True, max_size=6), LAYOUTS, st.data())
def test_a_key_twice_in_one_object_is_found(value, names, layout, data):
    """The object is somewhere inside; its other members stand between and around the two."""
    places = [data.draw(st.integers(0, len(names))) for _ in range(2)]
    members = [(name, data.draw(VALUES)) for name in names]
    for number, place in enumerate(sorted(places)):
        members.insert(place + number, (f"{MARK}{number}", 1))
    text = text_of({"a": value, "b": [1, {"c": dict(members)}, value]}, layout)
    for number in (0, 1):
        text = text.replace(f'"{MARK}{number}"'.encode(), f'"{MARK}"'.encode())
    with pytest.raises(SchemaError, match=MARK):
        refuse_duplicate_keys(text, "x")


@settings(max_examples=examples(40))
@given(VALUES, VALUES)
def test_one_key_in_two_objects_passes(first, second):
    text = json.dumps([{"a": first}, {"a": {"a": second}}, {"a": 0}]).encode()
    assert refuse_duplicate_keys(text, "x") is None


@pytest.mark.parametrize("name", ["v1.json", "v2.json"])
def test_the_stored_documents_are_passed_without_a_second_reading(name):
    assert not _may_repeat((DOCUMENTS / name).read_bytes())


def test_a_text_is_read_no_further_than_the_first_key_that_is_there_twice():
    """What comes after it may be a hundred megabytes; here it is no JSON at all."""
    text = '{"cases": [{"id": "a"}, {"id": "b", "id": "c", "graph": {"name": "g"}}, what follows'
    assert (("cases", 1), "id", "g") == next(_repeated(text))


def test_file_field_case_and_key_are_named(tmp_path):
    text = (DOCUMENTS / "v2.json").read_text()
    name = json.loads(text)["cases"][0]["graph"]["name"]
    place = text.index('"index"', text.index('"cases"'))
    path = tmp_path / "twice.json"
    path.write_text(f'{text[:place]}"index": 0, {text[place:]}')
    sentence = f"{path}: cases[0].rounds[0] ({name}): the key 'index' is there twice"
    with pytest.raises(SchemaError) as caught:
        files.read(path)
    assert str(caught.value) == sentence


@pytest.fixture(scope="module")
def large():
    """A document's text of more than is looked at as a whole."""
    tree = json.loads((DOCUMENTS / "v2.json").read_bytes())
    count = 2 * WHOLE_BYTES // len(json.dumps(tree["cases"][0]))
    cases = [{**tree["cases"][0], "id": str(number)} for number in range(count)]
    return json.dumps({**tree, "cases": cases}, separators=(",", ":")).encode()


def test_a_large_document_passes(large):
    assert len(large) > WHOLE_BYTES
    assert len(codec.decode(large, "x").cases) > 500


def test_what_is_there_twice_in_each_case_of_a_large_document_is_found(large):
    text = large.replace(b'"implausible":', b'"implausible":null,"implausible":')
    with pytest.raises(SchemaError, match="the key 'implausible' is there twice"):
        codec.decode(text, "x")
