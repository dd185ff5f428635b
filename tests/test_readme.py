"""The commands of the README and the guides, typed as they stand, as after an installation: in an
empty folder, without a clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.readme_outputs import form, outputs, shown
from tests.warm_commands import WarmCommands

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = (ROOT / "README.md", *sorted(ROOT.glob("bench_*/docs/*.md")))


def blocks(language, text=TEXT):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


SCRIPTS = {"bench-run": "bench_run", "bench-compare": "bench_compare", "python": ""}
"""What is on the path, and the module that it runs."""
OF_COMPARISONS = (
    "bench_compare.commands.compare",
    "bench_compare.comparison.compare",
    "bench_compare.report.text",
    "bench_compare.report.html",
)
"""Imported before `bench-compare` is."""
COMMANDS = [
    (page.stem, line)
    for page in PAGES
    for block in blocks("sh", page.read_text(encoding="utf-8"))
    for line in block.splitlines()
]
"""With the page that has them, in its order: a page's commands share a folder."""


@pytest.fixture(scope="module")
def commands():
    paths = os.pathsep.join((str(ROOT), str(ROOT / "schema")))
    commands = WarmCommands({**os.environ, "PYTHONPATH": paths}, OF_COMPARISONS)
    yield commands
    commands.close()


@pytest.fixture(scope="module")
def desk(tmp_path_factory, commands):
    """A folder with the two commands on the path, which run in forks."""
    folder = tmp_path_factory.mktemp("readme")
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


def run(desk, page, *command):
    folder, env, control = desk
    (folder / page).mkdir(exist_ok=True)
    return subprocess.run(
        command,
        cwd=folder / page,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        pass_fds=[control.fileno()],
    )


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_of_the_pages_works(desk, page, command):
    done = run(desk, page, "sh", "-c", command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("program", blocks("python"))
def test_a_program_of_the_readme_works(desk, program):
    done = run(desk, "python", "python", "-c", program)
    assert done.returncode == 0, done.stderr


def test_the_readme_is_read_in_three_minutes():
    assert (len(TEXT.encode()) <= 10_000, len(TEXT.split()) <= 1_200) == (True, True)


@pytest.mark.parametrize(("tool", "page"), [(p.parts[-3], p.stem) for p in PAGES[1:]])
def test_every_guide_is_printed_by_help(tool, page):
    help_of = import_module(f"{tool}.commands.help")
    assert page in help_of.GUIDES
    assert page in TEXT


def test_the_outputs_of_the_readme_have_the_form_of_real_ones(tmp_path):
    made = dict(outputs(tmp_path, "--rounds", "3", "--iters", "9", "--warmup", "1"))
    page = shown(TEXT)
    assert {name: form(text) for name, text in made.items()} == {
        name: form(text) for name, text in page.items()
    }


def test_make_words_of_the_readme_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    words = re.findall(r"(?:^|`)make ([a-z-]+)", TEXT, re.MULTILINE)
    assert set(words) <= targets
