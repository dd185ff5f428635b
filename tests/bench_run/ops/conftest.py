"""Runs of the command that the tests of this folder share."""

from __future__ import annotations

import pytest
from bench_schema.files import read

FUSED = "matmul+bias+gelu: m=16 n=8 k=32 dtype=half"
QUICK = ("--rounds", "1", "--iters", "1", "--warmup", "0", "-q")


@pytest.fixture
def run_quickly(bench_run_command, tmp_path):
    """Runs the command with one iteration and returns the process and its document."""

    def run(*words, timeout=300):
        path = tmp_path / "document.json"
        path.unlink(missing_ok=True)
        env = {"OMP_NUM_THREADS": "1"}
        done = bench_run_command(*words, *QUICK, "-o", path, timeout=timeout, env=env)
        return done, read(path) if path.exists() else None

    return run


@pytest.fixture
def fused(bench_run_command, tmp_path):
    """The path of a small graph made from an op spec, in a folder of its own."""
    folder = tmp_path / "made"
    done = bench_run_command("--op", FUSED, "--save-graphs", folder, "--dry-run")
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.json")
    return path
