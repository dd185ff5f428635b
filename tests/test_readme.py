"""The README's commands, typed as they stand, in a copy of what they need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench_run.graph.format.hipdnn_json import read_graph, write_graph
from bench_run.graph.scale import scale_batch
from tests.warm_commands import WarmCommands

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


SCRIPTS = {"bench-run": "bench_run", "bench-compare": "bench_compare", "python": ""}
"""What is on the path, and the module that it runs."""
OF_COMPARISONS = (
    "bench_compare.commands.compare",
    "bench_compare.comparison.compare",
    "bench_compare.report.text",
    "bench_compare.report.html",
)
"""Imported before `bench-compare` is."""
COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if line.strip()]


def small(graph):
    """With a batch of one; of element-wise graphs the first axis is cut."""
    if any(node.type != "PointwiseAttributes" for node in graph.nodes):
        return scale_batch(graph, 1) or graph
    cut = tuple(replace(t, dims=(1, *t.dims[1:])) for t in graph.tensors)
    return replace(graph, tensors=cut)


@pytest.fixture(scope="module")
def commands():
    paths = os.pathsep.join((str(ROOT), str(ROOT / "schema")))
    commands = WarmCommands({**os.environ, "PYTHONPATH": paths}, OF_COMPARISONS)
    yield commands
    commands.close()


@pytest.fixture(scope="module")
def desk(tmp_path_factory, commands):
    """A folder with the graphs, in small batches, and the two commands on the path, which run in
    forks."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "graphs", folder / "graphs")
    for path in (folder / "graphs" / "smoke").glob("*.json"):
        path.write_bytes(write_graph(small(read_graph(path.read_bytes(), path.name))))
    binaries = folder / "bin"
    binaries.mkdir()
    ask = f'"{sys.executable}" -I -S "{ROOT}/tests/forking.py" {commands.control.fileno()}'
    for name, words in SCRIPTS.items():
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec {ask} {words} "$@"\n')
        script.chmod(0o755)
    paths = os.pathsep.join((str(ROOT), str(ROOT / "schema")))
    env = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": paths}
    return folder, env, commands.control


FULL = ("bench-run suite:smoke",)
"""At full batch, half a minute."""


def run(desk, *command):
    folder, env, control = desk
    return subprocess.run(
        command,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        pass_fds=[control.fileno()],
    )


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=pytest.mark.slow) if command in FULL else command
        for command in COMMANDS
    ],
)
def test_a_command_of_the_readme_works(desk, command):
    if find_spec("torch") is None and ("--torch" in command or "net/net.toml" in command):
        pytest.skip("these need PyTorch")
    done = run(desk, "sh", "-c", command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("program", blocks("python"))
def test_a_program_of_the_readme_works(desk, program):
    done = run(desk, "python", "-c", program)
    assert done.returncode == 0, done.stderr


def test_make_words_of_the_readme_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    words = re.findall(r"(?:^|`)make ([a-z-]+)", TEXT, re.MULTILINE)
    assert set(words) <= targets
