"""What lies at the top of the repository: what the design lists, and nothing else."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import ROOT

DESIGNED = {
    *("bench_run", "bench_compare", "schema", "graphs", "tests"),
    *("pyproject.toml", "Makefile", "README.md", "LICENSE"),
}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_the_top_level_holds_the_names_of_the_design_and_hidden_ones():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = {path.partition("/")[0] for path in listed.stdout.split("\0") if path}
    assert {name for name in names if not name.startswith(".")} == DESIGNED
