"""What `bench-run` writes of a folder with the same graph in two places, `bench-compare` reads."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT, graph_json

ANYWAY = "--allow-no-answer"


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Two runs over a folder of three files: two have one name and one meaning."""
    folder = tmp_path_factory.mktemp("twins")
    for place, columns in (("fast", 8), ("slow", 8), ("other", 9)):
        (folder / "graphs" / place).mkdir(parents=True)
        text = json.dumps(graph_json("add", (4, columns)))
        (folder / "graphs" / place / "add.json").write_text(text)
    paths = [folder / f"{name}.json" for name in "ab"]
    for path in paths:
        words = ["graphs", "--engine", "numpy", "--rounds", "2", "--iters", "6", "-q", "-o", path]
        command(folder, "bench_run", *words)
    return paths


def command(folder, module, *words):
    paths = os.pathsep.join((str(ROOT), str(ROOT / "schema")))
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": paths},
    )


@pytest.mark.long
def test_twins_are_cases_of_their_own_told_apart_by_their_paths(documents):
    done = command(documents[0].parent, "bench_compare", *documents, "--csv", "-", ANYWAY)
    assert done.returncode in (0, 2), done.stderr
    rows = csv.DictReader(io.StringIO(done.stdout))
    assert {"add", "add (fast/add.json)", "add (slow/add.json)"} == {row["name"] for row in rows}


@pytest.mark.long
def test_each_twin_meets_itself(documents):
    done = command(documents[0].parent, "bench_compare", *documents, "--json", "-")
    cases = json.loads(done.stdout)["cases"]
    assert [True] * 3 == [case["base"] is not None and case["other"] is not None for case in cases]
