"""`doctor --engine hipdnn`: step by step, and the call at which it stops."""

from __future__ import annotations

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
