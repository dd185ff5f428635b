"""Counters of a processor by `perf stat`."""

import shutil

import pytest

from bench_run.profilers.perf import parse

TABLE = """# started on Fri Nov 27 06:49:49 2026

50.0;msec;task-clock;177640731;100.00;0.424;CPUs utilized
20;;page-faults;177640731;100.00;0.000;/sec
<not supported>;;instructions;0;100.00;;
<not counted>;;cycles;0;100.00;;
"""


def test_values_are_those_of_one_iteration_of_five():
    (row,) = parse(TABLE).kernels
    assert (row.median_ns, row.counters) == (10e6, {"page-faults": 4.0})


def test_a_note_names_what_the_machine_does_not_count():
    assert parse(TABLE).notes == ("perf: this machine does not count instructions, cycles",)


@pytest.mark.parametrize("text", ["", "# nothing\n", "<not supported>;;cycles;0;100.00;;\n"])
def test_a_table_without_values_is_none(text):
    assert parse(text) is None


@pytest.mark.long
def test_a_case_on_the_processor_is_counted_or_says_what_is_missing(bench_run_command, small_graph):
    words = ("--engine", "numpy", "--rounds", "1", "--iters", "2", "--counters", "basic", "-v")
    done = bench_run_command(small_graph, *words)
    assert done.returncode == 0
    if shutil.which("perf") is None:
        assert "--counters: perf is not on the PATH: install linux-perf" in done.stderr
    else:
        assert "counters of one iteration: " in done.stdout or "perf counted nothing" in done.stderr


def test_a_set_that_does_not_exist_is_refused_with_those_that_do(bench_run_command, small_graph):
    done = bench_run_command(small_graph, "--counters", "all")
    assert done.returncode == 1
    assert "--counters: no set 'all'; choose from memory, compute, basic" in done.stderr
