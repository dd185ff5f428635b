"""Templates that start before the rest of the program is read."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench_run.cli import main
from bench_run.options import Options
from bench_run.runner.early import early_launcher
from bench_run.worker import life as start
from tests.support import child_pids

pytestmark = pytest.mark.usefixtures("hostile", "fresh_workers")

FORKING = ("-e", "hostile:fine+fork", "--iters", "2", "--quiet", "--rounds")


@pytest.fixture
def made(monkeypatch):
    """The templates that are started."""
    found = []

    class Counted(start.Template):
        def __init__(self, *given):
            super().__init__(*given)
            found.append(self)

    monkeypatch.setattr(start, "Template", Counted)
    return found


@pytest.mark.long
def test_a_run_forks_its_workers_from_the_template_that_started_early(made, small_graph, tmp_path):
    out = tmp_path / "out.json"
    assert 0 == main([str(small_graph), *FORKING, "2", "-o", str(out)])
    assert 1 == len(made)
    assert "fork" == json.loads(out.read_text())["run"]["settings"]["worker_start"]


@pytest.mark.long
def test_a_run_of_one_round_starts_none(made, small_graph, tmp_path):
    assert 0 == main([str(small_graph), *FORKING, "1", "-o", str(tmp_path / "out.json")])
    assert made == []


def test_what_is_wrong_with_a_run_ends_the_templates(made, tmp_path, capsys):
    others = child_pids()
    assert 1 == main([str(tmp_path / "no.json"), *FORKING, "2"])
    assert "no.json" in capsys.readouterr().err
    assert [False] == [template._process.poll() is None for template in made]
    assert child_pids() <= others


def test_an_engine_that_does_not_exist_is_left_to_who_plans_the_run(made):
    with early_launcher(Options(graphs=("x",), engine=("nonsense",))):
        assert made == []


def test_nothing_that_takes_long_is_imported_for_it():
    code = "import sys, bench_run.runner.early; sys.exit('numpy' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode
