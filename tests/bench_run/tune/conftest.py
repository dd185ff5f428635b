"""The engine with known times, and one tuning on it that many tests look at."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from bench_schema.files import read

from tests.support import graph_json, register_engines

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def known_folder(tmp_path_factory):
    """A folder that looks like an installed distribution with the engine `known` in it."""
    folder = tmp_path_factory.mktemp("known_site")
    source = ROOT / "tests" / "doubles" / "known_engine.py"
    (folder / "known_engine.py").write_text(source.read_text())
    register_engines(folder, known="known_engine")
    return folder


@pytest.fixture(scope="session")
def known_run(known_folder, tmp_path_factory, warm_commands):
    """Runs the command in a folder of its own with that engine there."""
    desk = tmp_path_factory.mktemp("tuning")
    (desk / "small_add.json").write_text(json.dumps(graph_json()))

    def run(*words, **environment):
        paths = (ROOT, ROOT / "schema", known_folder, os.environ.get("PYTHONPATH", ""))
        python = os.pathsep.join(map(str, paths)).rstrip(os.pathsep)
        given = {**os.environ, "PYTHONPATH": python, **environment}
        return warm_commands.run([*map(str, words)], desk, given, 400)

    run.desk, run.root, run.site = desk, ROOT, known_folder
    return run


@pytest.fixture(scope="session")
def known_words():
    return ("small_add.json", "--engine", "known", "--rounds", "3", "--iters", "60")


@pytest.fixture(scope="session")
def tuned(known_run, known_words):
    """The record of a tuning over all plans, and the finished command."""
    done = known_run(
        "tune", *known_words, "--space", "plan=all", "--build-timeout", "3", "-o", "tuned.json"
    )
    assert done.returncode == 0, done.stderr
    return read(known_run.desk / "tuned.json"), done
