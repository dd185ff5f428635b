"""`bench-run coverage`: which operations each engine supports, found by running each of them in its
small default shapes and in all of its data types."""

from __future__ import annotations

from dataclasses import dataclass

from bench_run.commands import CommandOutput
from bench_run.commands.usage import SHARED, topic

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from bench_run.graph.make.recipes.recipe import Recipe
    from bench_run.graph.model import Graph
    from bench_run.options import Options

    Attempt = Callable[[str, Graph], str | None]
    """Why an engine does not support a graph; None where it does."""

USAGE = f"""Show which operations each engine supports. Every operation of --op is run
once in small shapes, in all of its data types (default engines: numpy, and
torch where it is installed). `bench-run --coverage` does the same.

Usage:
  bench-run coverage [options] [--engine=SPEC]... [--knob=KV]...
            [--plugin-path=DIR]...

Examples:
  bench-run coverage
  bench-run coverage --engine cudnn

{topic("engines")}
Other options:
{SHARED}"""


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Raises `BenchRunError` where an engine that was named is not available."""
    from bench_run.options import read_options

    return CommandOutput(coverage(read_options(arguments)))


def coverage(options: Options) -> str:
    """The coverage table of the named engines, of those for the processor where none is named."""
    from bench_run.commands.supporting_engines import supporting_engines
    from bench_run.engines import PROCESSOR_ENGINES

    with supporting_engines(options, PROCESSOR_ENGINES) as engines:
        return coverage_text(engines.keys, tuple(cover(engines.keys, engines.run)))


@dataclass(frozen=True)
class Cell:
    """What became of an operation's graphs on one engine."""

    tried: int
    refusals: tuple[str, ...]

    def text(self) -> str:
        if not self.refusals:
            return "yes"
        supported = self.tried - len(self.refusals)
        return f"{supported} of {self.tried}" if supported else "no"


@dataclass(frozen=True)
class Row:
    operation: str
    direction: str
    data_types: tuple[str, ...]
    cells: tuple[Cell, ...]


def cover(engines: Sequence[str], attempt: Attempt) -> Iterator[Row]:
    """A row for each operation that an op spec can name, in every type that it has."""
    from bench_run.graph.make.spec import OPS
    from bench_run.graph.work import main_data_type

    for recipe in OPS.values():
        graphs = small_graphs(recipe)
        data_types = tuple(dict.fromkeys(main_data_type(graph) for graph in graphs))
        cells = []
        for engine in engines:
            reasons = ((graph.name, attempt(engine, graph)) for graph in graphs)
            refusals = tuple(f"{name}: {why}" for name, why in reasons if why is not None)
            cells.append(Cell(len(graphs), refusals))
        yield Row(recipe.name, recipe.direction, data_types, tuple(cells))


def small_graphs(recipe: Recipe) -> tuple[Graph, ...]:
    """Small shapes in every type; an operation that must follow another one comes after matmul."""
    from bench_run.graph.make import make_graphs

    name = f"matmul+{recipe.name}" if recipe.only_after else recipe.name
    return make_graphs(f"{name}: dtype={','.join(recipe.dtypes)}", "small")


def coverage_text(engines: Sequence[str], rows: Sequence[Row]) -> str:
    """The table, every refusal with its reason, and how many operations each engine supports."""
    from tabulate import tabulate

    table = tabulate(
        [
            (
                row.operation,
                row.direction,
                *(cell.text() for cell in row.cells),
                " ".join(row.data_types),
            )
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
