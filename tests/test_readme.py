"""The commands of the README and the guides, typed as they stand, as after an installation: in an
empty folder, without a clone."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.readme_outputs import form, outputs, shown

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = (ROOT / "README.md", *sorted(ROOT.glob("bench_*/docs/*.md")))


def blocks(language, text=TEXT):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


COMMANDS = [
    pytest.param(page.stem, line, marks=[pytest.mark.long] * (page.stem != "README"))
    for page in PAGES
    for block in blocks("sh", page.read_text(encoding="utf-8"))
    for line in block.splitlines()
]
"""With the page that has them, in its order: a page's commands share a folder."""


@pytest.fixture(scope="module")
def typed(tmp_path_factory, shell):
    """Runs a command in the folder of its page."""
    folder = tmp_path_factory.mktemp("readme")

    def run(page, *words):
        (folder / page).mkdir(exist_ok=True)
        return shell(words, folder / page)

    return run


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_of_the_pages_works(typed, page, command):
    done = typed(page, "sh", "-c", command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("program", blocks("python"))
def test_a_program_of_the_readme_works(typed, program):
    done = typed("python", "python", "-c", program)
    assert done.returncode == 0, done.stderr


def test_the_readme_is_read_in_three_minutes():
    assert (len(TEXT.encode()) <= 10_000, len(TEXT.split()) <= 1_200) == (True, True)


@pytest.mark.parametrize(("tool", "page"), [(p.parts[-3], p.stem) for p in PAGES[1:]])
def test_every_guide_is_printed_by_help(tool, page):
    help_of = import_module(f"{tool}.commands.help")
    assert page in help_of.GUIDES
    assert page in TEXT


@pytest.mark.long
def test_the_outputs_of_the_readme_have_the_form_of_real_ones(tmp_path):
    small = ["matmul: m=64 n=64 k=64", "relu: dims=64x64", "add: dims=64x64"]
    effort = ("--rounds", "3", "--iters", "9", "--warmup", "1")
    made = dict(outputs(tmp_path, "numpy", "numpy+threads=2", small, *effort))
    page = shown(TEXT)
    assert {name: form(text) for name, text in made.items()} == {
        name: form(text) for name, text in page.items()
    }


def test_make_words_of_the_readme_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    words = re.findall(r"(?:^|`)make ([a-z-]+)", TEXT, re.MULTILINE)
    assert set(words) <= targets
