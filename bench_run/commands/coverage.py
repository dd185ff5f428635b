"""Which operations which engines take: every operation in its small default shapes, tried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabulate import tabulate

from bench_run.graph.make import make_graphs
from bench_run.graph.make.ops import OPS
from bench_run.graph.work import main_data_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_run.graph.make.recipe import Recipe
    from bench_run.graph.model import Graph

    Attempt = Callable[[str, Graph], str | None]
    """Why an engine does not take a graph; None where it does."""


@dataclass(frozen=True)
class Cell:
    """What became of an operation's graphs on one engine."""

    tried: int
    refusals: tuple[str, ...]

    def text(self) -> str:
        if not self.refusals:
            return "yes"
        taken = self.tried - len(self.refusals)
        return f"{taken} of {self.tried}" if taken else "no"


@dataclass(frozen=True)
class Row:
    operation: str
    direction: str
    data_types: tuple[str, ...]
    cells: tuple[Cell, ...]


def cover(engines: Sequence[str], attempt: Attempt) -> Iterator[Row]:
    """A row for each operation that an op spec can name, in every type that it has."""
    for recipe in OPS.values():
        graphs = small_graphs(recipe)
        data_types = tuple(dict.fromkeys(main_data_type(graph) for graph in graphs))
        cells = tuple(_cell(engine, graphs, attempt) for engine in engines)
        yield Row(recipe.name, recipe.direction, data_types, cells)


def small_graphs(recipe: Recipe) -> tuple[Graph, ...]:
    """Small shapes in every type; of an operation that must follow another one, behind matmul."""
    name = f"matmul+{recipe.name}" if recipe.only_after else recipe.name
    return make_graphs(f"{name}: dtype={','.join(recipe.dtypes)}", "small")


def _cell(engine: str, graphs: Sequence[Graph], attempt: Attempt) -> Cell:
    reasons = ((graph.name, attempt(engine, graph)) for graph in graphs)
    return Cell(len(graphs), tuple(f"{name}: {why}" for name, why in reasons if why is not None))


def coverage_text(engines: Sequence[str], rows: Sequence[Row]) -> str:
    """The table, then every refusal with its reason, then how many operations each engine takes."""
    table = tabulate(
        [
            (row.operation, row.direction, *(cell.text() for cell in row.cells), _types(row))
            for row in rows
        ],
        ("operation", "direction", *engines, "data types"),
        tablefmt="simple",
        disable_numparse=True,
    )
    refusals = [f"{why}" for row in rows for cell in row.cells for why in cell.refusals]
    totals = [
        f"{engine}: {sum(not row.cells[i].refusals for row in rows)} of {len(rows)} operations"
        for i, engine in enumerate(engines)
    ]
    return "\n".join([table, "", *refusals, *([""] if refusals else []), *totals])


def _types(row: Row) -> str:
    return " ".join(row.data_types)
