"""Comments and docstrings name files and names of ours that are there."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOPS = ("bench_run", "bench_compare", "schema/bench_schema")
FILES = sorted(path for top in TOPS for path in (ROOT / top).rglob("*.py"))
FILE = re.compile(r"[\w/]*\w\.py\b")
NAMED = re.compile(r"(?<!`)`([A-Za-z_][\w.]*\w)(?:\(\))?`(?!`)")
FOREIGN = {"my.py", "module.py", "FILE.py"}
"""Files of users."""


def prose(path):
    """Yield line number and text of each comment and each string that is a statement."""
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            yield node.lineno, node.value.value


@cache
def paths():
    tops = ("bench_run", "bench_compare", "schema", "tests", "graphs")
    return [path.relative_to(ROOT).as_posix() for top in tops for path in (ROOT / top).rglob("*")]


@cache
def words():
    """Every name in the code of the packages, its texts of one line, and paths; not in prose."""
    found = {part for path in paths() for part in re.split(r"[/.]", path)} | set(dir(builtins))
    for path in FILES:
        text = path.read_text("utf-8")
        told = {
            node.lineno
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
        }
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                found.add(token.string)
            elif "STRING" in tokenize.tok_name[token.type] and token.start[0] not in told:
                found.update(re.findall(r"\w+", token.string) if "\n" not in token.string else ())
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_prose_names_is_there(path):
    missing = []
    for line, text in prose(path):
        files = (name for name in FILE.findall(text) if name not in FOREIGN)
        gone = [n for n in files if not any(f"/{each}".endswith(f"/{n}") for each in paths())]
        gone += (n for n in NAMED.findall(text) if not set(n.split(".")) <= words())
        missing += (f"line {line}: {name}" for name in gone)
    assert not missing
