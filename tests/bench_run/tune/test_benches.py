"""Candidates of several graphs built side by side, as on an accelerator; here on a processor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from bench_schema.tuning import tuned_read

from bench_run.machine.device_lock import DeviceLock
from bench_run.options import Options
from bench_run.tune.building import MOST, side_by_side
from tests.support import graph_json

pytestmark = pytest.mark.slow

COMMAND = """
import sys
from pathlib import Path
import bench_run.tune.races as races
from bench_run.cli import entry
from bench_run.machine.device_lock import DeviceLock

races.side_by_side = lambda *_: 3
races.DeviceLock = lambda _, tell: DeviceLock(["pretended"], Path("locks"), tell)
entry()
"""
GRAPHS = ("one.json", "two.json", "three.json", "four.json")


def start(known_run, folder, *words):
    for index, name in enumerate(GRAPHS):
        graph = graph_json(name.partition(".")[0], dims=(4, 8 + index))
        (folder / name).write_text(json.dumps(graph))
    paths = (known_run.root, known_run.root / "schema", known_run.site)
    given = ("--engine", "known", "--rounds", "3", "--iters", "60", "--build-timeout", "4")
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "tune", *GRAPHS, *given, *words, "-o", "t.json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition, limit_s=60):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def lines_of(folder):
    path = folder / "t.json.races"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.fixture(scope="module")
def beside(known_run, tmp_path_factory):
    """The record of four graphs, of which three are built at a time, and what was said."""
    folder = tmp_path_factory.mktemp("beside")
    process = start(known_run, folder, "--space", "plan=all")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return tuned_read(folder / "t.json"), said


def test_each_graph_has_its_winner(beside):
    winners = [e.candidates[e.winner].variant["plan"] for e in beside[0].entries]
    assert ["near"] * len(GRAPHS) == winners


def test_plans_that_misbehave_cost_only_themselves(beside):
    for entry in beside[0].entries:
        found = {c.variant.get("plan"): c.status for c in entry.candidates}
        assert ("crashed", "timed out", "wrong") == (found["crash"], found["hang"], found["wrong"])


def test_graphs_are_built_in_groups_and_race_in_their_order(beside):
    said = [line.split(" (")[0] for line in beside[1].splitlines()]
    groups = [line for line in said if line.startswith("building the candidates of ")]
    assert ["one, two, three", "four"] == [line.partition(" of ")[2] for line in groups]
    raced = [line.rpartition(" ")[2] for line in said if line.startswith("tuning ")]
    assert ["one", "two", "three", "four"] == raced


def test_what_took_how_long_is_told(beside):
    line = next(line for line in beside[1].splitlines() if line.startswith("races: took "))
    assert "building candidates" in line


def test_what_is_killed_when_it_is_interrupted_did_not_fail(known_run, tmp_path):
    process = start(known_run, tmp_path, "--space", "plan=near,best,hang")
    wait_for(lambda: lines_of(tmp_path) >= 8)  # three graphs hang in their last plan
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    kept = (tmp_path / "t.json.races").read_text()
    assert (1, 0) == (process.returncode, kept.count("crashed")), said
    again = start(known_run, tmp_path, "--space", "plan=near,best,hang", "--resume")
    _, said = again.communicate(timeout=120)
    assert again.returncode == 0, said
    for entry in tuned_read(tmp_path / "t.json").entries:
        assert "near" == entry.candidates[entry.winner].variant["plan"]


@pytest.fixture(scope="module")
def waited(known_run, tmp_path_factory):
    """What was kept while another run had the device, and the record; one plan is none."""
    folder = tmp_path_factory.mktemp("waited")
    held = DeviceLock(["pretended"], folder / "locks").acquire(alone=True)
    process = start(known_run, folder, "--space", "plan=near,nosuch")
    wait_for(lambda: lines_of(folder) == 1)
    time.sleep(1.5)
    kept = lines_of(folder)
    held.release()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return kept, tuned_read(folder / "t.json")


def test_another_run_that_measures_on_the_device_is_waited_for(waited):
    assert 1 == waited[0]


def test_a_plan_that_the_engine_does_not_list_is_told(waited):
    candidates = waited[1].entries[0].candidates
    found = next(c for c in candidates if c.variant.get("plan") == "nosuch")
    said = "known lists no plan 'nosuch' for this graph; it lists usual, best, near, moody, slow"
    assert ("unsupported", True) == (found.status, found.reason.startswith(said))


@pytest.mark.parametrize(("devices", "most"), [(["cpu"], 1), ([], 1), (["GPU-1", "cpu"], 1)])
def test_on_a_processor_nothing_is_built_beside_anything(devices, most):
    assert most == side_by_side(Options(graphs=("a",)), devices, 1, 9)


def test_no_more_graphs_are_built_at_a_time_than_there_are():
    assert 1 == side_by_side(Options(graphs=("a",), prepare=8), ["GPU-1"], 1, 1)


def test_a_few_graphs_are_built_at_a_time_on_an_accelerator():
    assert MOST == side_by_side(Options(graphs=("a",), prepare=8), ["GPU-1"], 1, 9)
