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
PAGES = (*sorted(ROOT.glob("bench_*/docs/*.md")), *sorted(ROOT.glob("graphs/*.md")))

FRAGMENT = re.compile(r"(What|Whether|Of|How|Where|By|Which|Who|Whose|As|In|For|With|That)\b")
NOUN = re.compile(r"(One|Each|Every|All|Both|Most|Its|No|None|Nothing|Names|Why|Such|Without)\b")
NO_NOUN = re.compile(r"\b(?<!\b[Tt]here )(is|are) no( (?!longer\b|more\b)[a-z]|$)|\bhas none\b")
NOTHING = re.compile(r"\b[Tt]here (is|are) no [a-z]")
PEOPLE = re.compile(r"\b(who|whoever|nobody|somebody|anybody|everybody)\b", re.IGNORECASE)

Finding = tuple[int, str, str]


def _described(tree: ast.AST) -> dict[int, bool]:
    """Return the ids of docstrings and of descriptions of values; True if a function has it."""
    found = {
        id(node.value): False
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and isinstance(node.body[0], ast.Expr):
            values = any("property" in ast.unparse(each) for each in node.decorator_list)
            found[id(node.body[0].value)] = not values
    return found


def _wording(text: str) -> str | None:
    """Return the rule that a text breaks wherever it stands."""
    if NO_NOUN.search(text):
        return "write 'is not a' or 'does not have'"
    if PEOPLE.search(text):
        return "name the case, the caller or the process, not a person"
    return None


def findings(path: Path) -> Iterator[Finding]:
    """Yield line, text and rule of each text of a module that breaks one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    described = _described(tree)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        text, of_function = " ".join(node.value.split()), described.get(id(node))
        if of_function is not None and FRAGMENT.match(text):
            yield node.lineno, text, "begin with a verb (function) or a noun (value)"
        elif of_function and NOUN.match(text):
            yield node.lineno, text, "begin with a verb"
        elif of_function is not None and NOTHING.search(text):
            yield node.lineno, text, "write 'without' or 'does not have'"
        elif " " in text and (rule := _wording(text)):
            yield node.lineno, text, rule
    with tokenize.open(path) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.COMMENT and (rule := _wording(token.string)):
                yield token.start[0], token.string, rule


def of_page(path: Path) -> Iterator[Finding]:
    """Yield the same for each line of a page."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if rule := _wording(line):
            yield number, line, rule


def main() -> int:
    """Print every finding; return 1 if there are any."""
    count = 0
    modules = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
    for path, found in [(p, findings(p)) for p in modules] + [(p, of_page(p)) for p in PAGES]:
        for line, text, rule in found:
            count += 1
            sys.stdout.write(f"{path.relative_to(ROOT)}:{line}: {text[:80]} [{rule}]\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
