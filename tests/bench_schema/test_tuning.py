"""Choices of a tuning in its document: what is valid is read, what is not is refused by place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_schema.codec import decode, encode
from bench_schema.errors import SchemaError
from bench_schema.files import read
from bench_schema.tuning import Ratio, default_quality

STORED = Path(__file__).resolve().parents[1] / "data" / "tuning" / "tuned_v3.json"


@pytest.fixture
def tree():
    return json.loads(STORED.read_bytes())


def decoded(tree):
    return decode(json.dumps(tree).encode(), "t.json")


def test_a_stored_record_has_its_winner_and_all_candidates():
    (entry,) = read(STORED).tuned.entries
    assert ("near", 6) == (entry.chosen.variant["plan"], len(entry.candidates))


def test_what_is_written_is_what_was_read(tree):
    assert tree["tuned"] == json.loads(encode(decoded(tree)))["tuned"]


def test_an_older_record_is_refused_with_what_to_do():
    with pytest.raises(SchemaError, match=r"older bench-run tune.*tune again"):
        decoded({"kind": "bench-run tune", "tuning_version": 1})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda entry: entry.update(winner=99), r"entries\[0\] \(small_add\): names candidate 99"),
        (lambda entry: entry.update(tied_with=[7]), "names candidate 7, and there are 6"),
        (lambda entry: entry.update(winer=1), "unknown field"),
        (lambda entry: entry["candidates"][entry["winner"]].update(status="failed"), "is 'failed'"),
        (lambda entry: entry["candidates"][0].update(case="no"), "names the case 'no'"),
        (lambda entry: entry["candidates"][0].update(status="flying"), "status"),
        (lambda entry: entry.update(candidates=[]), "candidates"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_with_its_place(tree, change, told):
    change(tree["tuned"]["entries"][0])
    with pytest.raises(SchemaError, match=told):
        decoded(tree)


def entry_of(name, gain, winner=1, **changed):
    stored = read(STORED).tuned.entries[0]
    given = {"name": name, "gain": Ratio(gain), "winner": winner, **changed}
    return replace(stored, **given)


def quality(*entries, space=("plan=all",)):
    return default_quality(replace(read(STORED).tuned, space=space, entries=entries))


def test_a_default_is_as_good_as_its_times_next_to_the_winners():
    (found,) = quality(entry_of("a", 1.21), entry_of("b", 1.0, winner=0))
    assert ("add", 2, 1, 1.21, "a") == (
        found.family,
        found.graphs,
        found.beaten,
        found.worst_ratio,
        found.worst,
    )
    assert found.mean_ratio == pytest.approx(1.1)


def test_each_family_is_told_alone():
    entries = (entry_of("a", 1.2), entry_of("m", 1.1, family="matmul"))
    assert ["add", "matmul"] == [each.family for each in quality(*entries)]


def test_a_default_beyond_a_limit_or_without_a_rival_does_not_count():
    alone = entry_of("a", 1.0, winner=0, candidates=read(STORED).tuned.entries[0].candidates[:1])
    assert () == quality(entry_of("b", 1.2, beyond="error 1"), alone)


def test_nothing_is_told_where_the_user_varied_what_no_library_chooses():
    assert () == quality(entry_of("a", 1.2), space=("plan=all", "dtype=half,float"))
