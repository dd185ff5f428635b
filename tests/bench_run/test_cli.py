"""The command as a process: one clear line for bad input, the answer on stdout, exit codes."""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys

import pytest
from bench_schema.codec import decode
from bench_schema.files import read

from tests.conftest import ROOT
from tests.support import graph_json

QUICK = ("--engine", "numpy", "--rounds", "1", "--iters", "2", "--warmup", "0")


def one_line(done):
    """The one line of stderr, free of tracebacks."""
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def changed(**changes):
    graph = graph_json()
    graph.update(changes)
    return json.dumps(graph)


def tensor_changed(**changes):
    graph = graph_json()
    graph["tensors"][0].update(changes)
    return json.dumps(graph)


BAD_FILES = {
    "not JSON": ("{", "not JSON"),
    "no graph": ('{"a": 1}', "bad.json"),
    "unknown node": (
        changed(nodes=[{**graph_json()["nodes"][0], "type": "Frobnicate"}]),
        "nodes[0].type",
    ),
    "dims and strides": (tensor_changed(dims=[4, 8, 2]), "tensors[0]"),
    "duplicate uid": (tensor_changed(uid=1), "uid"),
    "nobody produces it": (tensor_changed(virtual=True), "tensors[0]"),
    "petabytes": (tensor_changed(dims=[2**25, 2**25], strides=[2**25, 1]), "4,096 TiB"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_graph_is_one_line_that_names_file_and_field(bench_run_command, tmp_path, name):
    text, fragment = BAD_FILES[name]
    (tmp_path / "bad.json").write_text(text)
    done = bench_run_command("bad.json", *QUICK)
    line = one_line(done)
    assert done.returncode == 1
    assert "bad.json" in line
    assert fragment in line


BAD_WORDS = [
    (("no_such_file.json",), "no_such_file.json"),
    (("empty",), "empty"),
    (("g.json", "--engine", "warp"), "no engine 'warp'; choose from numpy, torch"),
    (("g.json", "--iterations", "3"), "no flag --iterations; --iters N"),
    (("g.json", "--warmup"), "--warmup needs a value"),
    (("g.json", "--warmup", "many"), "--warmup: expected a whole number, got 'many'"),
    (("g.json", "-o", "no/such/folder/a.json", "-q"), "cannot"),
    (("g.json", "--engine", "numpy:5"), "numpy"),
    ((), "no GRAPH, --op, --miopen-driver or --benchdnn was given"),
]


@pytest.mark.parametrize(("words", "fragment"), BAD_WORDS, ids=[" ".join(w) for w, _ in BAD_WORDS])
def test_bad_words_are_one_line_and_exit_1(bench_run_command, tmp_path, words, fragment):
    (tmp_path / "empty").mkdir()
    (tmp_path / "g.json").write_text(json.dumps(graph_json()))
    done = bench_run_command(*words)
    assert (done.returncode, fragment in one_line(done)) == (1, True)


def test_a_broken_file_among_good_ones_costs_that_file_only(bench_run_command, graph_folder):
    (graph_folder / "add_0.json").write_text(tensor_text := tensor_changed(dims=[4]))
    done = bench_run_command(graph_folder, "-o", "a.json", *QUICK)
    statuses = [case.outcome.status for case in read(graph_folder.parent / "a.json").cases]
    assert (done.returncode, statuses.count("completed"), statuses.count("failed")) == (1, 3, 1)
    assert tensor_text


def test_an_output_that_cannot_be_written_is_said_before_anything_is_measured(
    bench_run_command, small_graph
):
    endless = ("--engine", "numpy", "--rounds", "1", "--min-time", "900", "--max-time", "none")
    done = bench_run_command(small_graph, "-o", "/proc/no/run.json", *endless, "--quiet")
    assert done.returncode == 1
    assert "/proc/no/run.json" in one_line(done)


@pytest.mark.long
def test_a_full_disk_is_one_line_and_keeps_what_was_saved(bench_run_command, graph_folder):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))

    done = bench_run_command(
        graph_folder,
        "-o",
        "a.json",
        "--engine",
        "numpy",
        "--rounds",
        "5",
        "--quiet",
        preexec_fn=small_files,
    )
    journal = graph_folder.parent / "a.json.journal"
    assert done.returncode == 1
    assert "cannot be written" in one_line(done)
    assert journal.read_bytes().endswith(b"\n")


@pytest.mark.long
def test_the_table_is_no_wider_than_80_columns(bench_run_command, graph_folder):
    long_name = graph_json("a_very_long_name_" * 6)
    (graph_folder / "long.json").write_text(json.dumps(long_name))
    done = bench_run_command(graph_folder, *QUICK)
    table = done.stdout.split("\n\n")[1]
    assert max(len(line) for line in table.splitlines()) <= 80


def test_the_answer_is_on_stdout_and_the_conversation_on_stderr(bench_run_command, small_graph):
    done = bench_run_command(small_graph, *QUICK)
    found = ("small_add" in done.stdout, "round 1 of 1" in done.stderr)
    assert (0, True, True) == (done.returncode, *found)


def test_nothing_is_coloured_in_a_pipe(bench_run_command, small_graph):
    done = bench_run_command(small_graph, *QUICK)
    assert "\x1b" not in done.stdout + done.stderr


def test_quiet_says_nothing(bench_run_command, small_graph):
    done = bench_run_command(small_graph, *QUICK, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_verbose_shows_every_statistic(bench_run_command, small_graph):
    done = bench_run_command(small_graph, *QUICK, "-v")
    names = ("min", "p5", "median", "p90", "p95", "p99", "max", "mean", "std", "mad", "init")
    assert [name for name in names if name not in done.stdout] == []


def test_csv_goes_to_stdout_alone(bench_run_command, small_graph):
    done = bench_run_command(small_graph, *QUICK, "--csv", "-")
    header, row = done.stdout.splitlines()
    assert header.startswith("id,graph,path")
    assert "completed" in row


def test_the_document_goes_to_stdout_alone(bench_run_command, small_graph, tmp_path):
    done = bench_run_command(small_graph, *QUICK, "-o", "-", "-q")
    document = decode(done.stdout.encode(), "stdout")
    assert (0, ["completed"]) == (done.returncode, [c.outcome.status for c in document.cases])
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "-", "--csv", "-"], "-o - and a text format: only one can go to stdout ('-')"),
        (["-o", "-", "--resume"], "--resume needs -o FILE: the run to continue"),
        (["--trace", "-"], "--trace: a trace is a file; it does not go to stdout ('-')"),
    ],
)
def test_what_cannot_go_to_stdout_is_refused(bench_run_command, small_graph, words, message):
    assert f"bench-run: {message}" == one_line(bench_run_command(small_graph, *words))


@pytest.mark.parametrize("words", [["tune", "--space", "engine=numpy,torch:cpu"], ["merge"]])
def test_what_is_read_while_it_is_written_needs_a_file(bench_run_command, small_graph, words):
    said = one_line(bench_run_command(*words, small_graph, "-o", "-"))
    assert said.startswith(f"bench-run: {words[0]}: -o - is not possible")


@pytest.mark.slow
def test_an_engine_that_cannot_run_is_named_once(bench_run_command, small_graph):
    said = one_line(bench_run_command(small_graph, "-e", "torch:cuda:99", "-q"))
    assert (1, True) == (said.count("torch:cuda:99"), said.startswith("bench-run: engine torch"))


@pytest.mark.parametrize("flag", ["-o", "--csv", "--trace", "--save-outputs"])
def test_a_name_that_is_too_long_for_a_file_is_one_line(bench_run_command, small_graph, flag):
    said = one_line(bench_run_command(small_graph, *QUICK, "-q", flag, "a" * 300))
    assert f"{'a' * 300}: " in f"{said}: "


@pytest.mark.parametrize("flag", ["--csv", "--csv-samples"])
def test_no_name_is_a_formula_in_a_spreadsheet(bench_run_command, tmp_path, flag):
    (tmp_path / "g.json").write_text(json.dumps(graph_json("=1+cmd|' /C calc'!A0")))
    rows = csv.reader(bench_run_command("g.json", *QUICK, flag, "-").stdout.splitlines())
    cells = [cell for row in rows for cell in row]
    assert not any(cell.startswith("=") for cell in cells)
    assert "'=1+cmd|' /C calc'!A0" in cells


def test_samples_csv_has_one_row_an_iteration(bench_run_command, small_graph, tmp_path):
    bench_run_command(small_graph, *QUICK, "--csv-samples", "s.csv")
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 3


def test_markdown_escapes_hostile_names(bench_run_command, tmp_path):
    (tmp_path / "g.json").write_text(json.dumps(graph_json("a|b<script>`")))
    done = bench_run_command("g.json", *QUICK, "--markdown", "-")
    assert r"`` a\|b<script>` ``" in done.stdout


def test_wrong_outputs_exit_2(hostile, bench_run_command, small_graph):
    done = bench_run_command(small_graph, *QUICK[2:], "--engine", "hostile:wrong")
    assert (done.returncode, "wrong: 1 of 32 elements of c" in done.stdout) == (2, True)


def test_a_named_reference_that_cannot_check_exits_1_and_says_so_once(
    bench_run_command, small_graph, tmp_path
):
    words = ("--reference", "golden", "--quiet", "-o", "a.json")
    done = bench_run_command(str(small_graph), *QUICK, *words)
    (case,) = read(tmp_path / "a.json").cases
    assert (done.returncode, case.outcome.status) == (1, "completed")
    assert case.validation.status == "not checked"
    assert "not checked: 1 of 1 case: the graph has no golden tensors" in one_line(done)


def test_no_reference_is_no_missing_one(bench_run_command, small_graph):
    done = bench_run_command(str(small_graph), *QUICK, "--reference", "none", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")


def test_energy_that_nobody_counts_is_one_line(bench_run_command, small_graph):
    done = bench_run_command(str(small_graph), *QUICK, "--energy", "--quiet")
    assert done.returncode == 0
    assert "--energy: not measured: /sys/class/powercap" in one_line(done)


def test_a_crash_exits_1(hostile, bench_run_command, small_graph):
    done = bench_run_command(small_graph, *QUICK[2:], "--engine", "hostile:segfault")
    assert (done.returncode, "SIGSEGV" in done.stdout) == (1, True)


@pytest.mark.long
def test_two_engines_side_by_side_with_the_change(hostile, bench_run_command, small_graph):
    done = bench_run_command(small_graph, *QUICK[2:], "--a", "hostile:slow", "--b", "numpy")
    assert done.returncode == 0
    assert "× faster" in done.stdout.partition("Speedup:   B is ")[2].partition("\n")[0]


def test_two_engines_that_differ_exit_2(hostile, bench_run_command, small_graph):
    done = bench_run_command(small_graph, *QUICK[2:], "--a", "numpy", "--b", "hostile:wrong")
    assert (done.returncode, "Accuracy comparison: FAILED" in done.stdout) == (2, True)


def test_a_dry_run_lists_the_cases(bench_run_command, graph_folder):
    done = bench_run_command(graph_folder, "--dry-run", *QUICK)
    assert done.stdout.splitlines()[-1].startswith("4 cases, 2 iterations in 1 round each: ")


def test_every_engine_is_listed_with_its_remedy(hostile, bench_run_command):
    done = bench_run_command("--list-engines")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("numpy", "torch", "hostile", "auto here:"))


def test_help_is_fast(root):
    """At most 2.5 times an empty Python and 30 ms more, in processor time: others on the machine
    do not count."""

    def spent_s():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def best(*words):
        times = []
        for _ in range(5):
            begin = spent_s()
            subprocess.run(
                [sys.executable, *words], check=True, stdout=subprocess.DEVNULL, cwd=root
            )
            times.append(spent_s() - begin)
        return min(times)

    assert best("-m", "bench_run", "--help") <= 2.5 * best("-c", "pass") + 0.030


STOPPED_WHILE_COLLECTING = """
import signal, sys, time
from bench_run.cli import stop_like_an_interrupt

class Collected:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

stop_like_an_interrupt()
try:
    Collected()
    time.sleep(20)
except KeyboardInterrupt:
    sys.exit(7)
"""


def test_a_stop_that_python_drops_comes_again():
    command = [sys.executable, "-c", STOPPED_WHILE_COLLECTING]
    found = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (7, b"") == (found.returncode, found.stderr)


TUNED = ("--op", "matmul: m=8 n=8 k=8", "--space", "dtype=float,half", "--rounds", "3")


@pytest.mark.parametrize(
    "words",
    [
        (*QUICK, "--op", "relu: dims=4x8", "--op", "fix: dims=4x8"),
        ("tune", *TUNED, "-e", "numpy", "-o", "t.json"),
    ],
)
def test_a_strict_interpreter_finds_nothing_to_warn_of(tmp_path, words):
    done = subprocess.run(
        [sys.executable, "-m", "bench_run", *words, "-q"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error", "PYTHONPATH": f"{ROOT}:{ROOT / 'schema'}"},
        capture_output=True,
        text=True,
    )
    assert (0, "") == (done.returncode, done.stderr)
