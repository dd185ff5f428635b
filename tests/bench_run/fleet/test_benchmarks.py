"""The scripts that measure on two GPUs run: on the engine with two devices, on any machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(twins, tmp_path):
    """Runs a script on one small graph; gives what it prints."""
    specs = tmp_path / "specs"
    specs.write_text("relu: n=2 c=4 h=8 w=8\n")

    def run(name, *words):
        command = [sys.executable, str(SCRIPTS / name), "--engine", "twin", "--specs", str(specs)]
        done = subprocess.run(
            [*command, *words],
            capture_output=True,
            text=True,
            timeout=120,
            env=dict(os.environ),
            check=False,
        )
        assert 0 == done.returncode, done.stderr[-2000:]
        return done.stdout

    return run


def test_a_plan_is_measured_alone_and_beside_the_other_device(script):
    told = script("two_gpus_pairs.py", "--pairs", "2", "--samples", "5")
    assert re.search(r"\n= pairs within a plan: \d of 2 within 0\.2 %", told)


@pytest.mark.slow
def test_whole_runs_are_compared_with_those_alone(script):
    told = script("two_gpus.py", "--rounds", "2", "--iters", "6", "--cycles", "2")
    assert re.search(
        r"one after the other: [\d.]+ s; with --parallel measure: [\d.]+ s, \d+%", told
    )
    assert "two runs alone within 0.2 % of each other: " in told


@pytest.mark.slow
def test_two_gpus_are_simulated_by_devices_that_wait():
    command = [sys.executable, str(SCRIPTS / "two_gpus_simulated.py"), "--scale", "0.05"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert 0 == done.returncode, done.stderr[-2000:]
    assert re.search(r"19 graphs on each GPU, one after the other: .* \d+%\n", done.stdout)


@pytest.mark.slow
def test_all_that_two_gpus_are_to_show_is_told_though_time_runs_out(script, tmp_path):
    told = script("two_gpus_all.py", "--out", str(tmp_path / "out"), "--seconds", "90")
    _, _, table = told.partition("====")
    assert re.search(r"\ntwo_gpus: exit code 0 .*\n    change with both at once", table)
    assert "\ntwo_gpus_pairs: " in table
    assert "\nray_gpus: " in table
