"""What `tune_gpu.py` makes of records, on a stored one; its steps run on a GPU only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench_schema.tuning import tuned_read

from tests.benchmarks import tune_gpu

STORED = Path(__file__).resolve().parents[2] / "data" / "tuning" / "tuned_v1.json"


@pytest.fixture
def record():
    return tuned_read(STORED)


@pytest.fixture
def answers(monkeypatch):
    told = []
    monkeypatch.setattr(tune_gpu, "answers", told)
    return told


def test_gains_are_told_with_their_reasons(record):
    for entry in record.entries:
        told = tune_gpu.gain_of(entry)
        assert ("x, " in told, entry.reason in told) == (entry.gain is not None, True)


def test_a_record_agrees_with_itself(record, answers):
    tune_gpu.compare(record, record)
    count = sum(map(tune_gpu.told, record.entries))
    assert f"{count} of {count} (100 %) strictly, {count} (100 %) within ties" in answers[0]
    assert "0.000 % apart in the median" in answers[1]


@pytest.fixture
def turned(record):
    """The first entry with several candidates, and the same with another winner."""
    entry = next(e for e in record.entries if len(e.candidates) > 1 and tune_gpu.told(e))
    timed = [c.index for c in entry.candidates if c.time_ns is not None]
    return entry, replace(entry, winner=next(i for i in timed if i != entry.winner))


def compared(record, one, two):
    tune_gpu.compare(replace(record, entries=(one,)), replace(record, entries=(two,)))


def test_another_winner_is_told(record, turned, answers):
    one, two = (replace(entry, tied_with=()) for entry in turned)
    compared(record, one, two)
    assert "not within ties" in answers[0]
    assert "0 of 1 (0 %) strictly, 0 (0 %) within ties" in answers[1]


def test_winners_that_both_call_tied_agree_within_ties(record, turned, answers):
    one, two = turned
    compared(record, replace(one, tied_with=(two.winner,)), replace(two, tied_with=(one.winner,)))
    assert "0 of 1 (0 %) strictly, 1 (100 %) within ties" in answers[1]


def test_winners_that_only_one_calls_tied_do_not(record, turned, answers):
    one, two = turned
    compared(record, replace(one, tied_with=(two.winner,)), replace(two, tied_with=()))
    assert "0 of 1 (0 %) strictly, 0 (0 %) within ties" in answers[1]


def test_answers_are_in_a_file_at_once(tmp_path, answers):
    tune_gpu.tell("one", tmp_path)
    tune_gpu.tell("two", tmp_path)
    assert "one\ntwo\n" == (tmp_path / "answers.txt").read_text()


def test_a_step_that_fails_is_told_and_costs_no_other(answers):
    with tune_gpu.step("energy"):
        raise AttributeError("no such thing")
    assert ["energy: failed: AttributeError: no such thing"] == answers
