"""Lint of the English in docstrings, comments, messages and guides: ``python -m tests.english``.

ruff's D401 sees to the verbs of functions' docstrings; these are the rules that it does not have.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("bench_run", "bench_compare", "schema")

FRAGMENT = re.compile(r"(What|Whether|Of|How|Where|By|Which|Who|Whose|As|In|For|With|That)\b")
NO_NOUN = re.compile(r"(?<!\b[Tt]here )\b(is|are) no (?!longer\b|more\b)[a-z]|\bhas none\b")
PEOPLE = re.compile(r"\b(who|whoever|nobody|somebody|anybody|everybody)\b", re.IGNORECASE)

Finding = tuple[int, str, str]


def _strings(tree: ast.AST) -> Iterator[tuple[ast.Constant, bool]]:
    """Yield every string with True if it is a docstring or the description of a value."""
    described = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, id(node) in described


def _wording(text: str) -> str | None:
    """Return the rule that a text breaks wherever it stands."""
    if NO_NOUN.search(text):
        return "write 'is not a' or 'does not have'"
    if PEOPLE.search(text):
        return "name the case, the caller or the process, not a person"
    return None


def findings(path: Path) -> Iterator[Finding]:
    """Yield line, text and rule of each text of a module that breaks one."""
    for node, describes in _strings(ast.parse(path.read_text(encoding="utf-8"))):
        text = " ".join(node.value.split())
        if describes and FRAGMENT.match(text):
            yield node.lineno, text, "begin with a verb (function) or a noun (value)"
        elif " " in text and (rule := _wording(text)):
            yield node.lineno, text, rule
    with tokenize.open(path) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.COMMENT and (rule := _wording(token.string)):
                yield token.start[0], token.string, rule


def main() -> int:
    """Print every finding; return 1 if there are any."""
    count = 0
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for line, text, rule in findings(path):
                count += 1
                sys.stdout.write(f"{path.relative_to(ROOT)}:{line}: {text[:80]} [{rule}]\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
