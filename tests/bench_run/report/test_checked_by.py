"""The table and the last line say what outputs were compared with."""

from __future__ import annotations

import pytest

QUICK = ("--engine", "numpy", "--iters", "2", "--rounds", "1", "--warmup", "0")


@pytest.fixture
def typed(bench_run_command, graph_folder, tmp_path):
    golden = tmp_path / "golden"
    made = bench_run_command(graph_folder / "add_1.json", *QUICK, "--write-golden", golden)
    assert 0 == made.returncode
    return lambda *words: bench_run_command(graph_folder, *QUICK, *words)


def rows(done):
    lines = (line.rsplit("  ", 1) for line in done.stdout.splitlines() if line.startswith("add_"))
    return {cells[0].split()[0]: cells[1].strip() for cells in lines}


def test_one_graph_of_four_has_golden_tensors(typed, tmp_path):
    done = typed("--golden", tmp_path / "golden")
    assert {f"add_{n}": "passed, golden" if n == 1 else "passed" for n in range(4)} == rows(done)
    last = done.stdout.splitlines()[-1]
    assert "4 cases: 4 completed, 4 validation passed (3 against numpy, 1 against golden)" == last


def test_one_reference_for_all_is_named_once(typed):
    last = typed().stdout.splitlines()[-1]
    assert "4 cases: 4 completed, 4 validation passed against numpy" == last


def test_nothing_is_named_where_nothing_was_compared(typed):
    last = typed("--reference", "none").stdout.splitlines()[-1]
    assert "4 cases: 4 completed" == last


def test_wrong_outputs_say_against_what(typed, tmp_path, hostile):
    done = typed("--engine", "hostile:wrong", "--golden", tmp_path / "golden")
    last = done.stdout.splitlines()[-1]
    assert "4 validation failed (3 against numpy, 1 against golden)" in last
    assert 2 == done.returncode
