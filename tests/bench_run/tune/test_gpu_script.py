"""What `tune_gpu.py` makes of records, on a stored one; its steps run on a GPU only."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from bench_schema.tuning_files import tuned_read

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
    count = len(record.entries)
    assert answers[0].startswith(f"the same winner twice: {count} of {count}; 0 of the others")
    assert "0.000 % apart in the median" in answers[1]


def test_another_winner_is_told(record, answers):
    entry = next(entry for entry in record.entries if len(entry.candidates) > 1)
    other = replace(entry, winner=next(i for i in (0, 1) if i != entry.winner))
    tune_gpu.compare(replace(record, entries=(entry,)), replace(record, entries=(other,)))
    assert re.match(r"the same winner twice: 0 of 1; [01] of the others", answers[0])


def test_a_step_that_fails_is_told_and_costs_no_other(answers):
    with tune_gpu.step("energy"):
        raise AttributeError("no such thing")
    assert ["energy: failed: AttributeError: no such thing"] == answers
