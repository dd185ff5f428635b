"""One graph from a chain of operations and typed parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.graph.make.build import Builder, Value
from bench_run.graph.make.naming import graph_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.make.parameters import Parameter
    from bench_run.graph.make.recipes.recipe import Recipe
    from bench_run.graph.model import Graph


def chain_parameters(chain: tuple[Recipe, ...]) -> dict[str, Parameter]:
    """What a chain takes, by key: all of the first operation, choices of those that follow."""
    rows = {row.key: row for row in chain[0].parameters}
    for recipe in chain[1:]:
        for row in recipe.parameters:
            if not row.shape and row.key not in ("dtype", "layout"):
                rows.setdefault(row.key, row)
    return rows


def check_chain(chain: tuple[Recipe, ...], where: str) -> None:
    """Refuses an operation that cannot stand where it stands."""
    if chain[0].only_after:
        raise UsageError(f"{where}: {chain[0].name} follows another operation: conv_fwd+bias")
    for recipe in chain[1:]:
        if not recipe.chains:
            raise UsageError(f"{where}: {recipe.name} cannot follow another operation")


def make_graph(chain: tuple[Recipe, ...], given: Mapping[str, Any]) -> Graph:
    """The graph; `given` holds typed values by key, all of them known to the chain."""
    head = chain[0]
    rows = chain_parameters(chain)
    params = dict(head.complete(_defaults(head, given)))
    for recipe in chain[1:]:
        own = _defaults(recipe, given).items()
        params.update((key, choice) for key, choice in own if key in rows and key not in params)
    builder = Builder(params["dtype"])
    value: Value | None = None
    for place, recipe in enumerate(chain):
        builder.last = place == len(chain) - 1
        value = recipe.build(builder, _defaults(recipe, given) if place else params, value)
    return builder.graph(graph_name((r.name for r in chain), rows.values(), params))


def _defaults(recipe: Recipe, given: Mapping[str, Any]) -> dict[str, Any]:
    """The operation's parameters, each as given or at its default."""
    return {
        row.key: given[row.key] if row.key in given else recipe.defaults.get(row.key, row.default)
        for row in recipe.parameters
    }
