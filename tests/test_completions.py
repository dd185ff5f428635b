"""Completion scripts: those of the wheel are as the flags are, and each shell reads them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.completions import ROOT, files

MADE = dict(files())


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
def test_a_script_has_the_flags_of_today(path):
    """After a change: make tables."""
    assert path.read_text(encoding="utf-8") == MADE[path]


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
def test_a_shell_reads_its_script(path):
    name = "fish" if path.suffix else ("zsh" if path.name.startswith("_") else "bash")
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    read = subprocess.run([name, "-n", path], capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")


TYPED = [
    ("bench-run tu", "tune"),
    ("bench-run --cache ", "hot cold rotate weights-cold pass"),
    ("bench-run --strict", "--strict"),
    ("bench-run tune --spa", "--space"),
    ("bench-run help netw", "networks"),
    ("bench-run -e numpy --a torch:cu", "torch:cuda"),
    ("bench-run --iters ", ""),
    ("bench-compare hist", "history"),
    ("bench-compare pages --ou", "--output"),
]


@pytest.mark.parametrize(("typed", "found"), TYPED)
def test_bash_completes(typed, found):
    tool = typed.partition(" ")[0]
    function = "_" + tool.replace("-", "_")
    script = f'source "$1"; COMP_WORDS=("${{@:2}}"); COMP_CWORD=$(($#-2)); {function}'
    path = ROOT / tool.replace("-", "_") / "completions" / tool
    done = subprocess.run(
        ["bash", "-c", f'{script}; echo "${{COMPREPLY[*]}}"', "bash", path, *typed.split(" ")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.strip(), done.stderr) == (found, "")
