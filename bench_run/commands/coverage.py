"""`bench-run coverage`: which operations or graphs each engine supports, found by running each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench_run.commands import CommandOutput
from bench_run.commands.usage import FLAGS, SHARED, repeatable, topic
from bench_run.settings import TOPICS

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from bench_run.graph.make.recipes.recipe import Recipe
    from bench_run.graph.model import Graph
    from bench_run.options import Options

    Attempt = Callable[[str, Graph], Mapping[str, str | None]]
    """Why an engine, and each that it offers, does not support a graph; None where it does."""

SECTIONS = (*TOPICS["input"], *TOPICS["engines"])
ROWS = [row for row in FLAGS.values() if row.section in SECTIONS]
USAGE = f"""Show which operations each engine supports. Every operation of --op is run
once in small shapes, in all of its data types; or each of the graphs that are
named is (default engines: numpy, and torch where it is installed).
`bench-run --coverage` does the same.

Usage:
  bench-run coverage [options]
           {repeatable(ROWS)} [GRAPH]...

Examples:
  bench-run coverage
  bench-run coverage --engine cudnn
  bench-run coverage graphs/ --engine hipdnn:all  # every plugin

{topic("input")}
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

    asked = rows_of_graphs(options) if names_graphs(options) else rows_of_operations()
    with supporting_engines(options, PROCESSOR_ENGINES) as engines:
        return coverage_text([cover(row, engines.keys, engines.run) for row in asked])


def names_graphs(options: Options) -> bool:
    return bool(options.graphs or options.op or options.miopen_driver)


@dataclass(frozen=True)
class Row:
    """What is run for a row of the table, and why an engine did not: by engine, by graph."""

    operation: str
    direction: str
    graphs: tuple[Graph, ...]
    found: tuple[Mapping[str, str | None], ...] = ()

    def cell(self, engine: str) -> str:
        supported = sum(one.get(engine, ABSENT) is None for one in self.found)
        if supported == len(self.found):
            return "yes"
        return f"{supported} of {len(self.found)}" if supported else "no"

    def refusals(self) -> Iterator[str]:
        for graph, one in zip(self.graphs, self.found, strict=True):
            yield from (
                f"{graph.name}: {engine}: {reason.removeprefix(f'{engine}: ')}"
                for engine, reason in one.items()
                if reason is not None
            )

    def data_types(self) -> str:
        from bench_run.graph.work import main_data_type

        return " ".join(dict.fromkeys(map(main_data_type, self.graphs)))


ABSENT = "absent"
"""An engine of a library that the library does not offer for a graph."""


def rows_of_operations() -> Iterator[Row]:
    """A row for each operation of hipDNN's nodes, in every type that it has. Operators of the
    table (``bench-run help operators``) run on numpy and torch alone."""
    from bench_run.graph.make.spec import NODES, OPS

    found = (OPS[name] for name in NODES)
    return (Row(one.name, one.direction, small_graphs(one)) for one in found)


def rows_of_graphs(options: Options) -> Iterator[Row]:
    """A row for each graph that was named."""
    from bench_run.plan.load import gather

    return (Row(one.graph.name, "", (one.graph,)) for one in gather(options).graphs)


def cover(row: Row, engines: Sequence[str], attempt: Attempt) -> Row:
    """The row with what each engine made of its graphs."""
    found = []
    for graph in row.graphs:
        answers: dict[str, str | None] = {}
        for engine in engines:
            answers |= attempt(engine, graph)
        found.append(answers)
    return replace(row, found=tuple(found))


def small_graphs(recipe: Recipe) -> tuple[Graph, ...]:
    """Small shapes in every type; an operation that must follow another one comes after matmul."""
    from bench_run.graph.make import make_graphs

    name = f"matmul+{recipe.name}" if recipe.only_after else recipe.name
    return make_graphs(f"{name}: dtype={','.join(recipe.dtypes)}", "small")


def coverage_text(rows: Sequence[Row]) -> str:
    """The table, every refusal with its reason, and how many rows each engine supports."""
    from tabulate import tabulate

    engines = tuple(dict.fromkeys(key for row in rows for one in row.found for key in one))
    directed = any(row.direction for row in rows)
    what = "operations" if directed else "graphs"
    lead = ("operation", "direction") if directed else ("graph",)
    table = tabulate(
        [
            (
                *(row.operation, row.direction)[: len(lead)],
                *map(row.cell, engines),
                row.data_types(),
            )
            for row in rows
        ],
        (*lead, *engines, "data types"),
        tablefmt="simple",
        disable_numparse=True,
    )
    refusals = [why for row in rows for why in row.refusals()]
    totals = [
        f"{engine}: {sum(row.cell(engine) == 'yes' for row in rows)} of {len(rows)} {what}"
        for engine in engines
    ]
    return "\n".join([table, "", *refusals, *([""] if refusals else []), *totals])
