"""What the person at the terminal sees is text, whatever names in files hold."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.text import one_line, visible
from tests.support import graph_json

ESCAPE, BELL, ERASE = "\x1b", "\x07", "\x9b2J"
HOSTILE = f"relu{ESCAPE}]0;owned{BELL}{ERASE}\r\u2028\u202e"


@given(st.text())
def test_control_characters_become_signs_and_nothing_else_changes(text):
    shown = visible(text)
    assert len(shown) == len(text)
    assert all(a == b or b == "\N{REPLACEMENT CHARACTER}" for a, b in zip(text, shown, strict=True))
    assert all(sign in "\n\t" or not 0 <= ord(sign) < 32 for sign in shown)


@given(st.text())
def test_a_cell_of_a_table_is_one_line(text):
    assert len(one_line(text).splitlines()) <= 1


def hostile_graph(**node):
    graph = graph_json()
    graph["name"] = HOSTILE
    graph["tensors"][0]["name"] = HOSTILE
    graph["nodes"][0].update(name=HOSTILE, **node)
    return json.dumps(graph)


def raw(done):
    return {sign for sign in done.stdout + done.stderr if sign != "\n" and not sign.isprintable()}


@pytest.mark.long
def test_a_hostile_name_reaches_the_terminal_as_text(bench_run_command, tmp_path):
    (tmp_path / "h.json").write_text(hostile_graph())
    quick = ("--engine", "numpy", "--rounds", "1", "--iters", "2", "--warmup", "0")
    for more in (quick, ("--dry-run",), ("--describe",)):
        done = bench_run_command("h.json", *more)
        assert (done.returncode, raw(done), "relu" in done.stdout) == (0, set(), True)


def test_a_hostile_name_in_an_error_reaches_the_terminal_as_text(bench_run_command, tmp_path):
    (tmp_path / "h.json").write_text(hostile_graph(type="Frob" + HOSTILE))
    done = bench_run_command("h.json", "--dry-run")
    assert (done.returncode, raw(done)) == (1, set())
