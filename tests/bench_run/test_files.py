"""What a run keeps on disk goes when it does, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from bench_run.files import Scratch


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_closed_folder_is_gone(temporary):
    scratch = Scratch()
    (scratch.folder("inputs") / "file").write_text("kept")
    scratch.close()
    assert [] == list(temporary.iterdir())


def test_a_folder_in_use_is_let_be(temporary):
    first, second = Scratch(), Scratch()
    assert {first.path, second.path} == set(temporary.iterdir())
    second.close()
    first.close()


def test_the_folder_of_a_run_that_was_killed_is_removed_by_the_next(temporary):
    code = "import os; from bench_run.files import Scratch; Scratch(); os.kill(os.getpid(), 9)"
    env = {**os.environ, "TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", code], env=env, check=False)
    left = list(temporary.iterdir())
    scratch = Scratch()
    assert (1, [scratch.path]) == (len(left), list(temporary.iterdir()))
    scratch.close()


def test_a_folder_that_is_not_ours_is_let_be(temporary):
    other = temporary / "bench-run-by-hand"
    other.mkdir()
    (other / "notes").write_text("mine")
    Scratch().close()
    assert [other] == list(temporary.iterdir())
