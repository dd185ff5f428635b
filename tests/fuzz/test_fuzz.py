"""Fuzzing for a minute, and inputs that were findings once."""

from __future__ import annotations

import random

import pytest

from tests.fuzz import mutators
from tests.fuzz.run import attempt, changed, fuzz
from tests.fuzz.targets import TARGETS

FOUND = (
    ("graphs", 0, 461),
    *(("graphs", 101, number) for number in (5047, 5558, 5643, 6135)),
    ("archives", 101, 6604),
    ("archives", 303, 2445),
    ("archives", 303, 3815),
)
"""Target, seed and number of inputs that ended in a traceback."""


@pytest.mark.slow
def test_a_minute_of_changed_inputs_gives_answers_or_one_line_errors():
    counts, findings = fuzz(list(TARGETS), random.randrange(2**31), 60)
    assert [] == [f"{finding.title}: {finding.content!r}: {finding.trace}" for finding in findings]
    assert all(counts.values())


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_ends_well_as_it_is(name):
    assert [] == [trace for seed in TARGETS[name].seeds() if (trace := attempt(name, seed))]


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_the_first_changed_inputs_end_well(name):
    # A comparison takes as long as four others; of features there are tests of their own.
    count = {"comparisons": 10, "features": 2}.get(name, 40)
    assert [] == [trace for i in range(count) if (trace := attempt(name, changed(name, 0, i)))]


@pytest.mark.parametrize(("name", "seed", "number"), FOUND)
def test_what_was_found_once_stays_fixed(name, seed, number):
    assert attempt(name, changed(name, seed, number)) is None


@pytest.mark.parametrize("name", TARGETS)
def test_a_number_names_one_input(name):
    assert changed(name, 3, 5) == changed(name, 3, 5)


def test_a_traceback_is_a_finding(monkeypatch):
    def broken(content, folder):
        raise KeyError("uid")

    monkeypatch.setitem(TARGETS, "broken", type(TARGETS["graphs"])(tuple, mutators.data, broken))
    assert "KeyError" in attempt("broken", b"")
