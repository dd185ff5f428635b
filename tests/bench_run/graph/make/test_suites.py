"""Reading suites: the good ones, and every way to be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench_run.errors import GraphError
from bench_run.graph.sources.suites import own_graphs, read_suite
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def _suite(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "some.toml"
    path.write_text(text)
    return path


def test_entries_are_files_beside_the_suite_or_op_specs(tmp_path: Path) -> None:
    text = '[[graph]]\nfile = "a.json"\nrepeat = 3\n[[graph]]\nop = "relu"\n'
    suite = read_suite(_suite(tmp_path, text))
    found = [(layer.file, layer.op, layer.repeat) for layer in suite.layers]
    assert found == [(tmp_path / "a.json", None, 3), (None, "relu", 1)]


def test_a_suite_is_named_after_its_file(tmp_path: Path) -> None:
    assert read_suite(_suite(tmp_path, '[[graph]]\nop = "relu"')).name == "some"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a list of"),
        ("graph = 3", "expected a list of"),
        ("= x", "is not a suite"),
        (f"a = {'[' * 5000}", "is not a suite"),
        ('nodes = 1\n[[graph]]\nop = "relu"', "unknown key 'nodes'"),
        ('about = 3\n[[graph]]\nop = "relu"', "about: expected text"),
        ("graph = [3]", r"graph\[0\]: expected a table"),
        ('[[graph]]\nop = "relu"\nfile = "a"', "expected one of file and op"),
        ("[[graph]]\nrepeat = 2", "expected one of file and op"),
        ("[[graph]]\nop = 4", "expected text"),
        ('[[graph]]\nop = "relu"\nrepeat = 0', "repeat=0: expected a whole number"),
        ('[[graph]]\nop = "relu"\nrepeat = true', "repeat=True: expected a whole number"),
        ('[[graph]]\nops = "relu"', "unknown key 'ops'"),
    ],
)
def test_a_wrong_suite_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        read_suite(_suite(tmp_path, text))


def test_a_missing_suite_says_so(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="cannot be read"):
        read_suite(tmp_path / "none.toml")


def test_graphs_that_come_along_are_found_by_name() -> None:
    assert (own_graphs("suite:smoke"), own_graphs("suite:graphs")) == (
        str(ROOT / "graphs" / "suites" / "smoke.toml"),
        str(ROOT / "graphs"),
    )


def test_an_argument_without_the_prefix_is_a_path() -> None:
    assert own_graphs("graphs/conv") == "graphs/conv"


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(GraphError, match=r"suite:smok: no suite.*did you mean smoke"):
        own_graphs("suite:smok")
