"""Tests that the scripts of `tests/benchmarks` can be run: each imports, and explains its words."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
from docopt import docopt

from tests.benchmarks.harness import cost, folder, one_of, read

NAMES = sorted(
    path.stem
    for path in (Path(__file__).parent / "benchmarks").glob("*.py")
    if path.stem != "harness"
)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_explains_its_words(name, capsys):
    module = import_module(f"tests.benchmarks.{name}")
    usage = getattr(module, "USAGE", module.__doc__)
    with pytest.raises(SystemExit):
        docopt(usage, ["--help"])
    assert f"{name}.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", "int", 7),
        ("7", "str", "7"),
        ("0.5", "float | None", 0.5),
        (None, "int | None", None),
        (["1", "2"], "list[int]", [1, 2]),
        (True, "bool", True),
    ],
)
def test_a_word_arrives_as_the_annotation_says(text, kind, value):
    assert value == read("--word", text, kind)


def test_a_text_in_place_of_a_number_is_one_line():
    with pytest.raises(SystemExit, match="--graphs: expected a number, got 'lots'"):
        read("--graphs", "lots", "int")


def test_a_section_that_is_not_there_names_those_that_are():
    with pytest.raises(SystemExit, match="SECTION: no 'methodz'; choose from methods, cost"):
        one_of("SECTION", ["cost", "methodz"], ("methods", "cost"))


def test_the_cost_of_a_command_is_that_of_its_process():
    found = cost([sys.executable, "-c", "x = bytearray(200 << 20)"])
    assert 200 < found.peak_mib < 400
    assert 0 < found.processor_s


def test_a_command_that_fails_has_no_cost():
    with pytest.raises(AssertionError):
        cost([sys.executable, "-c", "raise SystemExit(3)"])


def test_a_folder_that_is_named_stays(tmp_path):
    with folder(str(tmp_path / "kept")) as kept, folder() as gone:
        assert gone.exists()
    assert (kept.exists(), gone.exists()) == (True, False)
