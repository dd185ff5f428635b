"""Rounds beside which the host did other work are named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench_schema.document import Surroundings

from bench_compare.comparison.circumstances.notes import disturbance, disturbed_warnings
from bench_compare.comparison.compare import compare
from bench_compare.model import Side, Source, View
from bench_compare.policy import Policy
from bench_compare.report import FORMATS
from tests.bench_compare.build import case, document, round_
from tests.bench_compare.report.shown import render

QUIET = Surroundings(window_s=1.0, others_cpu_s=0.02, steal_s=0.0, involuntary_switches=4)
BUSY = replace(QUIET, others_cpu_s=0.9)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, None),
        ({"others_cpu_s": 0.9}, "other processes were at work"),
        ({"steal_s": 0.1}, "time was stolen by other guests"),
        ({"involuntary_switches": 150}, "other processes were at work"),
        ({"window_s": 0.01, "others_cpu_s": 0.02, "involuntary_switches": 2}, None),
        ({"window_s": None, "others_cpu_s": 9.0}, None),
        ({"others_cpu_s": None, "steal_s": None, "involuntary_switches": None}, None),
    ],
)
def test_what_counts_as_a_disturbance(changes, found):
    assert found == disturbance(replace(QUIET, **changes), 2)


def test_the_same_work_of_others_is_nothing_on_a_large_host():
    assert disturbance(BUSY, 64) is None


def source(path, busy, series="e2e_ns", timing=None, cases=2):
    rounds = [
        replace(
            round_(index, {series: [100, 101, 102]}),
            surroundings=BUSY if index in busy else QUIET,
            device_timing=timing,
        )
        for index in range(5)
    ]
    return Source(path, document([case(f"g{n}", rounds) for n in range(cases)]), "bench")


def side(label, one):
    return Side(label, (one,), tuple(engine.key for engine in one.document.engines))


@pytest.mark.parametrize(
    ("busy", "sentence"),
    [
        ((1,), "a.json: round 2 of 5 disturbed: other processes were at work"),
        ((1, 3, 4), "a.json: rounds 2, 4 and 5 of 5 disturbed: other processes were at work"),
        (range(5), "a.json: all rounds disturbed: other processes were at work"),
    ],
)
def test_a_warning_names_the_rounds_of_a_document(busy, sentence):
    assert [sentence] == disturbed_warnings([side("a", source("a.json", busy))])


def test_quiet_documents_have_no_warning():
    assert [] == disturbed_warnings([side("a", source("a.json", ()))])


def test_device_times_behind_a_gate_do_not_feel_the_host():
    one = source("a.json", (1,), "device_ns", "gated events")
    assert [] == disturbed_warnings([side("a", one)])


def test_device_times_without_a_gate_do():
    one = source("a.json", (1,), "device_ns", "events")
    assert 1 == len(disturbed_warnings([side("a", one)]))


@pytest.mark.parametrize("name", FORMATS)
def test_every_output_names_the_disturbed_rounds(name):
    sides = [side(label, source(f"{label}.json", busy)) for label, busy in (("a", ()), ("b", (2,)))]
    found = compare(sides[0], sides[1:], Policy())
    assert "round 3 of 5" in " ".join(render(name, found, View(width=200)).split())


def test_a_case_says_which_of_its_rounds():
    sides = [
        side(label, source(f"{label}.json", busy)) for label, busy in (("a", ()), ("b", (0, 2)))
    ]
    found = compare(sides[0], sides[1:], Policy())
    notes = [note for note in found.cases[0].notes if note.kind == "disturbed"]
    assert [("other", "rounds 1 and 3 of 5: other processes were at work")] == [
        (note.side, note.text) for note in notes
    ]
