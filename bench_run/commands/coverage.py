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
    """Why an engine, and each that it offers, does not support a graph; None if it does."""

SECTIONS = (*TOPICS["input"], *TOPICS["engines"])
ROWS = [row for row in FLAGS.values() if row.section in SECTIONS]
USAGE = f"""Show which operations each engine supports. Every operation of --op is run
once in small shapes, in all of its data types; or each of the graphs that are
named is (default engines: numpy, and torch where it is installed).
`bench-run --coverage` does the same.

Usage:
  bench-run coverage [--claims=DIR] [--force] [options]
           {repeatable(ROWS)} [GRAPH]...

Examples:
  bench-run coverage
  bench-run coverage --engine cudnn
  bench-run coverage graphs/ --engine hipdnn:all  # every plugin
  bench-run coverage graphs/ --engine hipdnn:all --claims claims/

{topic("input")}
{topic("engines")}
Other options:
  --claims DIR  write what hipDNN's engines run on this chip as support claims,
                DIR/NAME.support.json for each graph: beside the graph a later
                run holds them to it
  --force       replace files of claims that are there
{SHARED}"""


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Run the command. Raises `BenchRunError` if a named engine is not available."""
    from bench_run.options import read_options

    return CommandOutput(coverage(read_options(arguments), arguments.get("--claims")))


def coverage(options: Options, claims: str | None = None) -> str:
    """Return the coverage table of the named engines, of those for the processor where none is
    named. `claims`: the folder that gets a file of support claims for each graph."""
    from pathlib import Path

    from bench_run.commands.supporting_engines import supporting_engines
    from bench_run.engines import PROCESSOR_ENGINES
    from bench_run.files import write_new
    from bench_run.options import names_graphs

    asked = list(rows_of_graphs(options) if names_graphs(options) else rows_of_operations())
    with supporting_engines(options, PROCESSOR_ENGINES) as engines:
        chip = None if claims is None else chip_of_claims(asked, engines.devices())
        rows = [cover(row, engines.keys, engines.run) for row in asked]
        if claims is not None and chip is not None:
            texts = claims_texts(rows, engines.offered, chip)
            write_new(Path(claims), texts, force=options.force)
    return coverage_text(rows)


def chip_of_claims(rows: Sequence[Row], devices: Mapping[str, str]) -> str:
    """Return the chip of the claims; `devices`: by engine. Raises `UsageError` before anything is
    run, if there would be nothing to write or two files with one name."""
    from bench_run.errors import UsageError
    from bench_run.runner.bundles import ENGINE, chip_of

    stems = [row.stem for row in rows if row.stem]
    twice = next((stem for stem in stems if stems.count(stem) > 1), None)
    if not stems or twice is not None:
        what = "name graph files" if twice is None else f"two graphs would be {twice}.support.json"
        raise UsageError(f"--claims: {what}")
    places = {device for key, device in devices.items() if key.partition(":")[0] == ENGINE}
    if len(places) != 1:
        raise UsageError("--claims: name engines of hipDNN on one device: --engine hipdnn:all")
    device = places.pop()
    chip = chip_of(device)
    if chip is None:
        raise UsageError(f"--claims: amdsmi, where it is installed, does not tell what {device} is")
    return chip


def claims_texts(
    rows: Sequence[Row], offered: Mapping[str, tuple[str, str]], chip: str
) -> dict[str, str]:
    """Return a file of support claims for each graph. `offered`: library and engine by a table's
    word."""
    import json

    from bench_run.graph.sources.bundle import PLATFORM
    from bench_run.runner.bundles import ENGINE

    texts = {}
    for row in rows:
        if row.stem:
            fine = [offered[key] for key, why in row.found[0].items() if why is None]
            names = [engine for library, engine in fine if library == ENGINE and engine]
            claims = {name: {chip: [PLATFORM]} for name in names}
            text = json.dumps({"version": 1, "claims": claims}, indent=2)
            texts[f"{row.stem}.support.json"] = f"{text}\n"
    return texts


@dataclass(frozen=True)
class Row:
    """A row of the table: its operation and graphs, and the reason why an engine did not run a
    graph, by engine, graph by graph."""

    operation: str
    direction: str
    graphs: tuple[Graph, ...]
    found: tuple[Mapping[str, str | None], ...] = ()
    stem: str = ""
    """Name of the graph's file without its ending; empty for a graph that does not have a file."""

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
    """Yield a row for each operation of hipDNN's nodes, in every type that it has. Operators of the
    table (``bench-run help operators``) run on numpy and torch alone."""
    from bench_run.graph.make.spec import NODES, OPS

    found = (OPS[name] for name in NODES)
    return (Row(one.name, one.direction, small_graphs(one)) for one in found)


def rows_of_graphs(options: Options) -> Iterator[Row]:
    """Yield a row for each graph that was named."""
    from pathlib import PurePath

    from bench_run.options import Sources, grouped
    from bench_run.plan.load import gather

    for one in gather(grouped(Sources, options)).graphs:
        file = PurePath(one.path.rpartition("!")[2])
        stem = file.stem if file.suffix == ".json" else ""
        yield Row(one.graph.name, "", (one.graph,), stem=stem)


def cover(row: Row, engines: Sequence[str], attempt: Attempt) -> Row:
    """Return the row with what each engine made of its graphs."""
    found = []
    for graph in row.graphs:
        answers: dict[str, str | None] = {}
        for engine in engines:
            answers |= attempt(engine, graph)
        found.append(answers)
    return replace(row, found=tuple(found))


def small_graphs(recipe: Recipe) -> tuple[Graph, ...]:
    """Return small shapes in every type; an operation that must follow another one comes after
    matmul."""
    from bench_run.graph.make import make_graphs

    name = f"matmul+{recipe.name}" if recipe.only_after else recipe.name
    return make_graphs(f"{name}: dtype={','.join(recipe.dtypes)}", "small")


def coverage_text(rows: Sequence[Row]) -> str:
    """Return the table, every refusal with its reason, and how many rows each engine supports."""
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
