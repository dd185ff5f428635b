"""`bench-run engines`: which engines can run here, and what they can choose from for a graph."""

from __future__ import annotations

from bench_run.commands import CommandOutput
from bench_run.commands.usage import SHARED, topic

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from bench_run.options import Options

USAGE = f"""List all engines: whether each can run on this machine, and if not, how to get
it. With graphs: the plans, knobs and workspace sizes that each --engine offers
for them. `bench-run --list-engines` does the same.

Usage:
  bench-run engines [options] [--engine=SPEC]... [--op=SPEC]...
            [--miopen-driver=LINE]... [--benchdnn=LINE]...
            [--knob=KV]... [--init=RULE]...
            [--plugin-path=DIR]... [GRAPH]...

Examples:
  bench-run engines
  bench-run engines --engine cudnn graph.json

{topic("engines")}
{topic("input")}
Other options:
{SHARED}"""

WIDTH = 80


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Run the command. Raises `BenchRunError` if a graph or an engine cannot be used."""
    from bench_run.options import read_options

    return CommandOutput(engine_list(read_options(arguments)))


def engine_list(options: Options) -> str:
    """Return a text on every engine: whether it can run here, and if not, why and how to get it."""
    from bench_run.engines import choose_auto, list_engines
    from bench_run.errors import EngineUnavailableError

    lines = []
    rows = list_engines()
    width = max(len(row.name) for row in rows)
    for row in rows:
        state = "yes" if row.availability.ok else "no "
        lines.append(_wrap(f"{state}  {row.name:<{width}} {row.summary}", first=""))
        lines.append(_wrap(row.availability.reason))
    try:
        lines += ["", _wrap(f"auto here: {choose_auto()[1]}", first="")]
    except EngineUnavailableError as error:
        lines += ["", f"auto here: {error}"]
    from bench_run.options import names_graphs

    if names_graphs(options):
        lines += ["", *choices_of_graphs(options)]
    return "\n".join(lines)


def choices_of_graphs(options: Options) -> list[str]:
    """Return the choices of the named engines for each graph (plans, knobs, workspace), or a
    reason."""
    from bench_run.errors import BenchRunError
    from bench_run.runner.planning import plan_closed
    from bench_run.worker.messages import Choices
    from bench_run.worker.parent.pool import WorkerPool

    planned = plan_closed(options)
    lines = []
    pool = WorkerPool(options.timeout_s)
    try:
        for case in planned.cases:
            lines.append(f"{case.graph.id.name} on {case.engine.key}:")
            try:
                choices = pool.ask(case.engine, Choices(case.graph.loaded.graph))
            except BenchRunError as error:
                lines.append(_wrap(f"refused: {error}"))
                continue
            for choice in choices:
                text = ", ".join(f"{key} {value}" for key, value in choice.items())
                lines.append(_wrap(text or "one way to run it, no choices"))
    finally:
        pool.close()
    return lines


def _wrap(text: str, first: str = " " * 5) -> str:
    import textwrap

    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=" " * 5, break_on_hyphens=False
    )
