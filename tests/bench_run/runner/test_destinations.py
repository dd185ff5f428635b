"""What cannot be written is known before anything is measured; what was measured is never lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest
from bench_schema.files import read
from bench_schema.journal import journal_path
from bench_schema.streams import showable

QUICK = ("--engine", "numpy", "--rounds", "1", "--iters", "2", "--warmup", "0")

PROBLEMS = {
    "--csv no/such.csv": "--csv: cannot write no/such.csv: there is no directory no",
    "--csv-samples no/such.csv": "--csv-samples: cannot write no/such.csv: there is no directory",
    "--markdown small_add.json/x.md": "small_add.json is not a directory",
    "--trace no/such.json": "--trace: cannot write no/such.json: there is no directory no",
    "--trace .": "--trace: cannot write .: it is a directory",
    "-o no/such.json": "--output: cannot write no/such.json: there is no directory no",
    "--write-golden small_add.json": "--write-golden: cannot write small_add.json: small_add.json",
    "--write-golden hipdnn:small_add.json/x": "small_add.json is not a directory",
    "--save-outputs small_add.json/x": "--save-outputs: cannot write small_add.json/x",
}


@pytest.mark.parametrize("words", PROBLEMS)
def test_what_cannot_be_written_is_one_line_before_anything_runs(
    bench_run_command, small_graph, words
):
    done = bench_run_command(small_graph.name, *QUICK, *words.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert PROBLEMS[words] in done.stderr
    assert "round 1" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_named(bench_run_command, small_graph, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    done = bench_run_command(small_graph.name, *QUICK, "--csv", "locked/a.csv")
    assert (done.returncode, "locked is not writable" in done.stderr) == (1, True)


def test_golden_tensors_that_are_not_written_are_an_error(bench_run_command, small_graph):
    done = bench_run_command(
        small_graph.name, *QUICK, "--write-golden", "golden", "--reference", "none"
    )
    assert done.returncode == 1
    assert "--write-golden: not written for 1 graph: no reference was requested" in done.stderr


VANISHING = {
    "--csv": "x.csv",
    "--csv-samples": "x.csv",
    "--markdown": "x.md",
    "--trace": "x.json",
    "--write-golden": "golden",
}


@pytest.mark.long
@pytest.mark.parametrize(
    "flag",
    [
        "--trace",
        "--write-golden",
        *(pytest.param(f, marks=pytest.mark.slow) for f in list(VANISHING)[:3]),
    ],
)
def test_what_becomes_unwritable_during_the_run_costs_only_itself(
    bench_run_command, small_graph, tmp_path, hostile, flag
):
    (tmp_path / "out").mkdir()
    words = [*QUICK[2:], "--engine", "hostile:blocks-on-open", "-o", "run.json"]
    env = {"HOSTILE_BLOCKS": str(tmp_path / "out")}
    done = bench_run_command(small_graph.name, *words, flag, f"out/{VANISHING[flag]}", env=env)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "Not a directory" in done.stderr
    assert "Validation: PASSED" in done.stdout
    assert read(tmp_path / "run.json").run.complete


@pytest.mark.slow
def test_a_document_that_cannot_be_written_leaves_its_journal_and_the_table(
    bench_run_command, small_graph, tmp_path, hostile
):
    words = [*QUICK[2:], "--engine", "hostile:blocks", "-o", "run.json"]
    env = {"HOSTILE_BLOCKS": str(tmp_path / "run.json")}
    done = bench_run_command(small_graph.name, *words, env=env)
    assert done.returncode == 1
    assert "all rounds are in the journal: continue with --resume" in done.stderr
    assert "Validation: PASSED" in done.stdout
    (tmp_path / "run.json").rmdir()
    again = bench_run_command(small_graph.name, *words, "--resume", env=env)
    assert (again.returncode, read(tmp_path / "run.json").run.complete) == (0, True)


@pytest.mark.slow
def test_where_scratch_files_cannot_be_written_nothing_passes_unchecked(
    bench_run_command, small_graph
):
    """Limits of a process hold for its workers: the reference's outputs are larger."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # noqa: E731
    words = (*QUICK, "--reference-cache", "off")
    done = bench_run_command(small_graph.name, *words, preexec_fn=limit)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "the reference numpy gave no outputs: cannot write" in done.stderr
    assert "File too large" in done.stderr


@pytest.mark.slow
def test_a_file_that_is_half_written_is_not_left(bench_run_command, small_graph, tmp_path):
    (tmp_path / "x.csv").write_text("before")
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))  # noqa: E731
    words = ("--engine", "numpy", "--rounds", "1", "--iters", "50", "--csv-samples", "x.csv")
    done = bench_run_command(small_graph.name, *words, preexec_fn=limit)
    assert (done.returncode, (tmp_path / "x.csv").read_text()) == (1, "before")
    assert "x.csv: cannot be written: File too large" in done.stderr


def run(folder, words, redirections, **variables):
    """The command in a shell, for streams that are closed or full."""
    root = os.environ["BENCH_TEST_ROOT"]
    env = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root}/schema", **variables}
    line = f'"{sys.executable}" -m bench_run {words} {redirections}'
    return subprocess.run(["sh", "-c", line], cwd=folder, env=env, capture_output=True, timeout=60)


@pytest.fixture(autouse=True)
def _root(monkeypatch, root):
    monkeypatch.setenv("BENCH_TEST_ROOT", str(root))


STREAMS = {
    "full stdout": (">/dev/full", 1, b"cannot write to stdout: No space left on device"),
    "closed stdout": (">&-", 1, b"cannot write to stdout: it is closed"),
    "full stderr": ("2>/dev/full", 0, b""),
    "closed stderr": ("2>&-", 0, b""),
    "everything closed": ("<&- >&- 2>&-", 1, b""),
    "a reader that left": ("| true", 0, b""),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "full stdout",
        "everything closed",
        *(pytest.param(name, marks=pytest.mark.slow) for name in list(STREAMS)[1:4]),
        pytest.param("a reader that left", marks=pytest.mark.slow),
    ],
)
def test_the_document_is_written_whoever_reads_along(small_graph, tmp_path, name):
    redirections, code, words = STREAMS[name]
    done = run(tmp_path, f"small_add.json {' '.join(QUICK)} -o run.json", redirections)
    document = read(tmp_path / "run.json")
    assert (document.run.complete, document.cases[0].outcome.status) == (True, "completed")
    assert done.returncode == code
    assert words in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    "encoding",
    [
        "ascii",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("latin-1", "cp437", "cp1252", "utf-8")
        ),
    ],
)
def test_the_table_is_printed_in_what_the_terminal_can_show(small_graph, tmp_path, encoding):
    done = run(tmp_path, f"small_add.json {' '.join(QUICK)} -v", "", PYTHONIOENCODING=encoding)
    table = done.stdout.decode(encoding)
    assert (done.returncode, "small_add" in table, "passed" in table) == (0, True, True)
    assert "?" not in table


def test_characters_that_a_terminal_lacks_are_spelled():
    assert showable("12.35 µs ± 0.5 %, 3.2×", "ascii") == "12.35 us +- 0.5 %, 3.2x"
    assert showable("12.35 µs ± 0.5 %, 3.2×", "latin-1") == "12.35 µs ± 0.5 %, 3.2×"
    assert showable("名", "ascii") == "?"


def test_a_bad_reference_is_refused_before_a_journal_exists(bench_run_command, small_graph):
    done = bench_run_command(small_graph.name, *QUICK, "-o", "run.json", "--reference", "warp")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "--reference 'warp': no engine 'warp'; choose from numpy, torch" in done.stderr
    assert not journal_path(small_graph.with_name("run.json")).exists()


def test_a_reference_with_an_id_that_there_is_not_is_refused(bench_run_command, small_graph):
    done = bench_run_command(small_graph.name, *QUICK, "--reference", "numpy:7", "-o", "run.json")
    assert (done.returncode, "numpy has no ids" in done.stderr) == (1, True)
    assert {small_graph.name} == set(os.listdir(small_graph.parent))


def test_outputs_are_saved_without_a_reference_too(bench_run_command, small_graph, tmp_path):
    words = ("--reference", "none", "--save-outputs", "out")
    assert 0 == bench_run_command(small_graph.name, *QUICK, *words).returncode
    assert [".safetensors"] == [path.suffix for path in (tmp_path / "out").iterdir()]


def test_more_executions_than_fit_a_timeout_are_refused_at_once(bench_run_command, small_graph):
    words = ("--executions", "10000000", "--timeout", "2")
    done = bench_run_command(small_graph.name, *QUICK, *words)
    assert 1 == done.returncode
    assert "10000000 executions in one sample do not end within --timeout" in done.stdout


@pytest.mark.long
def test_without_a_limit_a_pass_ends_before_the_timeout(bench_run_command, small_graph):
    words = ("--max-time", "none", "--iters", "10000000", "--timeout", "4")
    done = bench_run_command(
        small_graph.name, "--engine", "numpy", "--rounds", "1", *words, "-o", "r.json"
    )
    assert (0, "") == (done.returncode, done.stderr.partition("Traceback")[1])
