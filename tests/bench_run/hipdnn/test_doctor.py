"""`doctor --engine hipdnn`: step by step, and the call at which it stops."""

from __future__ import annotations

import json
import tarfile

import pytest

from bench_run.cli import main

DOCTOR = ("doctor", "--engine", "hipdnn")


def test_every_step_that_works_is_listed_with_what_the_bindings_have(release, capsys):
    release("sweep")
    assert 0 == main(DOCTOR)
    shown = capsys.readouterr().out
    assert "yes  run once and wait, " in shown
    assert "yes  compare the outputs with the reference: passed" in shown
    assert "  no  HipStallGate.close\n" in shown


@pytest.mark.parametrize(
    ("failure", "step", "call"),
    [
        ("validate:INVALID_VALUE", "make the operation graph: failed", "Graph.validate: "),
        ("build_plans:HANDLE_ERROR", "build the plan, allocate and", "Graph.build_plans: "),
        ("execute:GRAPH_EXECUTION_FAILED", "run once and wait: failed", "Graph.execute: "),
    ],
)
def test_it_says_at_which_call_it_stops(release, capsys, failure, step, call):
    release("newest", fail=failure)
    assert 1 == main(DOCTOR)
    shown = capsys.readouterr().out
    assert f"no   {step}" in shown
    assert call in shown


def test_a_library_that_does_not_load_is_the_first_step(release, capsys):
    release(import_error="1")
    assert 1 == main(DOCTOR)
    shown = capsys.readouterr().out
    assert shown.startswith("no   load the library")
    assert "libhipdnn_backend.so: cannot open shared object" in shown


def report(path):
    """Names and texts of what is in a report."""
    with tarfile.open(path) as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive}
    return {name.removeprefix("report/"): text.decode() for name, text in members.items()}


@pytest.mark.long
def test_a_report_holds_all_that_a_developer_asks_for(release, tmp_path, capsys):
    release()
    path = tmp_path / "hipdnn.tar.gz"
    assert 0 == main((*DOCTOR, "--report", str(path)))
    found = report(path)
    assert ["doctor.txt", "engine.txt", "offers.txt", "run.json", "run.txt"] == list(found)
    assert f"For an issue: {path} (doctor.txt, engine.txt, " in capsys.readouterr().out
    assert "notes RUNTIME_COMPILATION" in " ".join(found["offers.txt"].split())
    assert 7 == found["run.txt"].count(": completed")
    cases = json.loads(found["run.json"])["cases"]
    assert {"passed"} == {case["validation"]["status"] for case in cases}
    assert 1 == main((*DOCTOR, "--report", str(path)))
    assert "--force replaces it" in capsys.readouterr().err


def test_what_cannot_be_had_is_the_sentence_why(release, tmp_path):
    release(import_error="1")
    assert 1 == main((*DOCTOR, "--report", str(tmp_path / "hipdnn.tar.gz")))
    found = report(tmp_path / "hipdnn.tar.gz")
    for name in ("engine.txt", "offers.txt", "run.txt"):
        words = " ".join(found[name].split())
        assert "libhipdnn_backend.so: cannot open shared object" in words


def test_a_report_needs_its_engine(capsys):
    assert 1 == main(("doctor", "--report", "x"))
    assert "--report: name the engine to report on: --engine hipdnn" in capsys.readouterr().err
