"""The operations of op specs as Markdown, for graphs/README.md; a test holds the two together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.graph.make.ops import OPS
from bench_run.graph.make.parameters import expected, show_value

if TYPE_CHECKING:
    from bench_run.graph.make.parameters import Parameter
    from bench_run.graph.make.recipe import Recipe


def operations_table() -> str:
    """Every operation: its family, other names, gradients, and what it computes."""
    rows = ["| Family | Operation | Gradients | What it computes |", "| --- | --- | --- | --- |"]
    return "\n".join((*rows, *(_operation_row(recipe) for recipe in OPS.values())))


def parameters_table() -> str:
    """Every parameter once, with the operations that take it in this meaning."""
    rows = ["| Key | Value | Meaning | Operations |", "| --- | --- | --- | --- |"]
    users: dict[tuple[str, str, str], list[Recipe]] = {}
    for recipe in OPS.values():
        for row in recipe.parameters:
            if row.key != "dtype":
                users.setdefault((row.key, _values(row), row.help), []).append(recipe)
    lines = (
        f"| `{key}` | {values} | {words} | {_users(recipes)} |"
        for (key, values, words), recipes in users.items()
    )
    return "\n".join((*rows, *lines))


def _operation_row(recipe: Recipe) -> str:
    names = " ".join(f"`{name}`" for name in (recipe.name, *recipe.aliases))
    gradients = " ".join(f"`{name}`" for name in recipe.backward)
    return f"| {recipe.family} | {names} | {gradients} | {_cell(recipe.summary)} |"


def _values(row: Parameter) -> str:
    words = expected(row).removeprefix("one of ")
    usual = "" if row.default is None else f" ({show_value(row.default, row.kind)})"
    return _cell(words + usual)


def _users(recipes: list[Recipe]) -> str:
    """Families where all of one take it, else names."""
    words = []
    for family in dict.fromkeys(recipe.family for recipe in recipes):
        takers = [recipe.name for recipe in recipes if recipe.family == family]
        every = [r.name for r in OPS.values() if r.family == family and not r.only_after]
        words += [f"all of {family}"] if set(every) <= set(takers) and len(every) > 1 else takers
    return ", ".join(words)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
