"""After every normal end the folder for temporary files is as empty as before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.usefixtures("hostile")

QUICK = ("--rounds", "2", "--iters", "4", "--warmup", "0", "--quiet")
NUMPY = ("g.json", "--engine", "numpy", *QUICK)
PAIR = ("g.json", "--a", "numpy", "--b", "hostile:fine", *QUICK)
ENDS = {
    "help": (("--help",), 0),
    "usage": (("g.json", "--nothing"), 1),
    "no such file": (("none.json", *QUICK), 1),
    "success": (NUMPY, 0),
    "document": ((*NUMPY, "-o", "a.json", "--csv", "a.csv"), 0),
    "time limit": ((*NUMPY, "--max-time", "1e-6"), 0),
    "golden": ((*NUMPY, "--write-golden", "golden"), 0),
    "forked": ((*NUMPY, "--fresh", "fork"), 0),
    "wrong": (("g.json", "--engine", "hostile:wrong", *QUICK), 2),
    "crash": (("g.json", "--engine", "hostile:segfault", *QUICK), 1),
    "hang": (("g.json", "--engine", "hostile:hang", *QUICK, "--timeout", "0.5"), 1),
    "no reference": (("g.json", "--engine", "numpy", "--reference", "hostile:segfault", *QUICK), 1),
    "unwritable": ((*NUMPY, "-o", "/proc/none/a.json"), 1),
    "nothing to tune": (("tune", "g.json", "--engine", "numpy", "-o", "tuned.json"), 1),
    "nothing to decide": ((*NUMPY, "--until", "decided"), 1),
}
SPACE = ("--engine", "hostile", "--space", "plan=best,near", "--budget", "2s", "--quiet")
SLOW_ENDS = {
    "tune": (("tune", "g.json", *SPACE, "--iters", "2", "--rounds", "2", "-o", "t.json"), None),
    "decided": ((*PAIR, "--until", "decided", "--max-rounds", "3"), 0),
}
"""Words and the exit code; None: either of 0 and 1."""


@pytest.fixture
def folder(tmp_path, small_graph):
    """Where the command runs, and its empty folder for temporary files."""
    small_graph.rename(tmp_path / "g.json")
    (tmp_path / "temporary").mkdir()
    return tmp_path


def slow(ends):
    return [pytest.param(end, marks=pytest.mark.slow) for end in ends]


@pytest.mark.long
@pytest.mark.parametrize("end", [*ENDS, *slow(SLOW_ENDS)])
def test_a_command_leaves_nothing(bench_run_command, folder, end):
    words, code = {**ENDS, **SLOW_ENDS}[end]
    scratch = folder / "temporary"
    done = bench_run_command(*words, env={"TMPDIR": str(scratch)})
    assert done.returncode in ((0, 1) if code is None else (code,)), done.stderr
    assert [] == os.listdir(scratch)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, *slow([signal.SIGTERM, signal.SIGHUP])])
def test_a_run_that_is_stopped_leaves_nothing(folder, number):
    """While it measures: its scratch folder is there."""
    scratch = folder / "temporary"
    words = ("g.json", "--engine", "hostile:hang", "--rounds", "1", "--quiet")
    process = subprocess.Popen(
        [sys.executable, "-m", "bench_run", *words],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(scratch)},
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 60
    while not list(scratch.glob("*/outputs/*/*")) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert (1, []) == (process.returncode, os.listdir(scratch)), said
