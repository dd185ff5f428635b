"""Whole sets through the command: every operation, driver lines, every dialect."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_run.graph.make.spec import OPS

ROOT = Path(__file__).resolve().parents[3]
COLLECTION = ROOT / "tests" / "data" / "graphs"
DRIVER = ROOT / "tests" / "data" / "driver" / "small.txt"
ENGINES = ("--engine", "torch", "--engine", "numpy")
CONTRADICTORY = "sdpa_pages_that_contradict.json"

pytestmark = [pytest.mark.needs("torch:cpu"), pytest.mark.slow]


def faults(document):
    """Cases that failed, crashed, or are wrong or unchecked; what is unsupported has a reason."""
    found = []
    for case in document.cases:
        status = None if case.validation is None else case.validation.status
        if case.outcome.status == "unsupported":
            found += [] if "Attributes" in case.outcome.reason else [(case.id, "no node named")]
        elif (case.outcome.status, status) != ("completed", "passed"):
            reason = case.outcome.reason or case.validation.reason
            found.append((case.id, case.outcome.status, status, reason))
    return found


def unsupported(document):
    return {case.graph.path for case in document.cases if case.outcome.status == "unsupported"}


def test_every_operation_in_small_shapes_is_right_on_both_engines(run_quickly):
    done, document = run_quickly("--op", "all", "--shapes", "small", *ENGINES)
    assert ([], 0) == (faults(document), done.returncode)
    assert len(document.cases) >= 2 * sum(each.direction != "joint" for each in OPS.values()) - 2


@pytest.mark.slow
def test_every_operation_is_right_in_every_type(run_quickly):
    spec = "all: dtype=half,bfloat16,double"
    _, document = run_quickly("--op", spec, "--shapes", "small", *ENGINES, timeout=900)
    assert [] == faults(document)


FUSED = (
    "conv_fwd+bias+relu: n=2 c=16 h=8 w=8 k=16 r=3 s=3 pad=1 dtype=half,bfloat16",
    "conv_dgrad+relu: n=2 c=16 h=8 w=8 k=16 r=3 s=3 pad=1 dtype=half",
    "matmul+bias+gelu: m=64 n=32 k=128 dtype=half,bfloat16",
    "matmul+reduce_add: m=64 n=32 k=128 dtype=half",
    "layernorm+add: dtype=half shapes=small",
)


def test_float_intermediates_of_narrow_fusions_are_not_rounded(run_quickly):
    words = [word for spec in FUSED for word in ("--op", spec)]
    _, document = run_quickly(*words, "--engine", "torch")
    assert [] == faults(document)
    assert set() == unsupported(document)


def test_driver_lines_of_every_driver_run_and_are_right(run_quickly):
    lines = [line for line in DRIVER.read_text().splitlines() if line and line[0] != "#"]
    done, document = run_quickly("--miopen-driver", DRIVER, *ENGINES)
    assert len(lines) >= 40
    assert ([], 0) == (faults(document), done.returncode)
    assert len({case.graph.name for case in document.cases}) >= 50


REASONS = ("CBAInfer is not converted", "rnn has no hipDNN node", "activation 6: a power")


def test_driver_lines_without_a_graph_say_why(bench_run_command):
    done = bench_run_command("--miopen-driver", DRIVER, "--engine", "numpy", "--dry-run")
    assert [] == [reason for reason in REASONS if reason not in done.stdout]


def test_graphs_of_every_dialect_are_right_or_unsupported_with_node_and_reason(run_quickly):
    _, document = run_quickly(COLLECTION, *ENGINES)
    assert [] == faults(document)
    assert {CONTRADICTORY} == {Path(path).name for path in unsupported(document)}
    assert 36 <= len({case.graph.path for case in document.cases})


def test_a_template_without_its_cases_is_said_to_be_left_out(bench_run_command):
    done = bench_run_command(COLLECTION, "--engine", "numpy", "--dry-run")
    assert 7 == done.stdout.count("is a sweep template, left out")
