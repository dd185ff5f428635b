"""Records of tunings: what is valid is read for ever, what is not is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench_schema.errors import DocumentError, FutureVersionError, SchemaError
from bench_schema.tuning import tuned_decode, tuned_encode, tuned_read, tuned_save, tuned_validator

STORED = Path(__file__).resolve().parents[1] / "data" / "tuning" / "tuned_v1.json"


@pytest.fixture
def tree():
    return json.loads(STORED.read_bytes())


def decode(tree):
    return tuned_decode(json.dumps(tree).encode(), "t.json")


def test_the_stored_record_of_version_1_is_read():
    assert 1 == tuned_read(STORED).tuning_version


def test_what_is_written_is_what_was_read(tree):
    assert tree == json.loads(tuned_encode(decode(tree)))


def test_an_ordinary_validator_takes_what_we_write(tree):
    assert [] == list(tuned_validator(1).iter_errors(json.loads(tuned_encode(decode(tree)))))


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_record_survives_its_file(tmp_path, name):
    record = tuned_read(STORED)
    tuned_save(tmp_path / name, record)
    assert tuned_encode(record) == tuned_encode(tuned_read(tmp_path / name))


def test_the_future_is_refused(tree):
    with pytest.raises(FutureVersionError, match="this tool knows up to 1"):
        decode({**tree, "tuning_version": 2})


@pytest.mark.parametrize("version", [None, 0, "1", True])
def test_a_version_that_is_none_is_refused(tree, version):
    with pytest.raises(DocumentError):
        decode({**tree, "tuning_version": version})


@pytest.mark.parametrize("other", [{}, [], {"kind": "bench-compare"}, {"schema_version": 2}])
def test_what_is_no_record_is_refused(other):
    with pytest.raises(SchemaError, match="is not a record of bench-run tune"):
        decode(other)


def test_an_unknown_field_is_refused_with_its_place(tree):
    tree["entries"][0]["winer"] = 1
    with pytest.raises(SchemaError, match=r"entries\[0\].*unknown field"):
        decode(tree)


def test_a_winner_that_is_no_candidate_is_refused(tree):
    tree["entries"][0]["winner"] = 99
    with pytest.raises(SchemaError, match="names candidate 99"):
        decode(tree)


def test_a_file_that_is_cut_off_is_refused(tmp_path):
    (tmp_path / "t.json").write_bytes(STORED.read_bytes()[:-40])
    with pytest.raises(DocumentError):
        tuned_read(tmp_path / "t.json")


def test_a_record_in_place_of_a_result_is_told_from_one():
    from bench_schema.files import read

    with pytest.raises(SchemaError, match="is the record of a tuning"):
        read(STORED)


def test_what_the_compiled_schema_refuses_the_ordinary_one_explains(tree):
    tree["entries"][0]["candidates"][0]["stage"] = "flying"
    with pytest.raises(SchemaError, match="stage"):
        decode(tree)
