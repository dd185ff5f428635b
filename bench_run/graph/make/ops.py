"""All operations that an op spec can name; a new one is a row in its family's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bench_run.graph.make.recipes.attention as attention
import bench_run.graph.make.recipes.conv as conv
import bench_run.graph.make.recipes.matmul as matmul
import bench_run.graph.make.recipes.norm as norm
import bench_run.graph.make.recipes.pointwise as pointwise
import bench_run.graph.make.recipes.quantize as quantize
import bench_run.graph.make.recipes.reduce as reduce
from bench_run.errors import UsageError

if TYPE_CHECKING:
    from bench_run.graph.make.recipes.recipe import Recipe

_MODULES = (conv, norm, matmul, pointwise, reduce, attention, quantize)

OPS: dict[str, Recipe] = {recipe.name: recipe for module in _MODULES for recipe in module.RECIPES}
"""Every operation by its name, families together."""

ALIASES: dict[str, str] = {
    alias: recipe.name for recipe in OPS.values() for alias in recipe.aliases
}

FAMILIES: dict[str, tuple[str, ...]] = {
    family: tuple(r.name for r in OPS.values() if r.family == family and not r.only_after)
    for family in dict.fromkeys(recipe.family for recipe in OPS.values())
}
"""Family → its operations."""


def find(name: str, where: str) -> Recipe:
    """The recipe of a name or alias. Raises `UsageError` with the known names."""
    known = ALIASES.get(name, name)
    if known not in OPS:
        raise UsageError(f"{where}: no operation {name!r}; choose from {', '.join(OPS)}")
    return OPS[known]


def family(name: str, where: str) -> tuple[str, ...]:
    if name not in FAMILIES:
        raise UsageError(f"{where}: no family {name!r}; choose from {', '.join(FAMILIES)}")
    return FAMILIES[name]
