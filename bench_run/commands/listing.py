"""Answers that measure nothing: the engines, the cases, what graphs are, what is installed."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.commands.supporting_engines import supporting_engines
from bench_run.engines import choose_auto, list_engines
from bench_run.errors import BenchRunError, EngineUnavailableError, UsageError
from bench_run.plan.cases import asks_several
from bench_run.plan.load import gather
from bench_run.runner.benchmark import opened_on_devices, plan_run
from bench_run.runner.record import writing

if TYPE_CHECKING:
    from bench_run.commands.supporting_engines import SupportingEngines
    from bench_run.graph.model import Graph
    from bench_run.options import Options
    from bench_run.plan.cases import PlannedCase
    from bench_run.worker.pool import WorkerPool

WIDTH = 80


def engine_list(options: Options) -> str:
    """Every engine: whether it can run here, and if not, why and how to get it."""
    lines = []
    for row in list_engines():
        state = "yes" if row.availability.ok else "no "
        lines.append(f"{state}  {row.name:<8} {row.summary}")
        lines.append(_indented(row.availability.reason))
    lines += ["", _auto_line()]
    if options.graphs or options.op:
        lines += ["", *_choices_of_graphs(options)]
    return "\n".join(lines)


def _auto_line() -> str:
    try:
        return textwrap.fill(f"auto here: {choose_auto()[1]}", WIDTH, subsequent_indent=" " * 5)
    except EngineUnavailableError as error:
        return f"auto here: {error}"


def _choices_of_graphs(options: Options) -> list[str]:
    """What the named engines can choose from for each graph: plans, knobs, workspace."""
    from bench_run.worker.pool import WorkerPool

    planned = plan_run(options)
    lines = []
    pool = WorkerPool(options.timeout_s, {})
    try:
        for case in planned.cases:
            lines.append(f"{case.graph.id.name} on {case.engine.key}:")
            lines += [_indented(text) for text in _choices(pool, case)]
    finally:
        pool.close()
    return lines


def _choices(pool: WorkerPool, case: PlannedCase) -> list[str]:
    """A line for each choice, or the reason why there is none."""
    try:
        choices = pool.choices(case.engine, case.graph.loaded.graph)
    except BenchRunError as error:
        return [f"refused: {error}"]
    rows = (", ".join(f"{key} {value}" for key, value in choice.items()) for choice in choices)
    return [row or "one way to run it, no choices" for row in rows]


def _indented(text: str) -> str:
    pad = " " * 5
    return textwrap.fill(text, WIDTH, initial_indent=pad, subsequent_indent=pad)


def case_list(options: Options) -> str:
    """The cases of a run, one line each, without running any; for several devices engines are
    opened, since only they know how many there are."""
    planned = plan_run(options)
    if asks_several(options):
        planned = opened_on_devices(options, planned)
    notes = [f"note: {note}" for note in planned.gathered.notes]
    lines = [f"{case.id}  ({case.graph.id.path})" for case in planned.cases]
    effort = f"{options.iterations} iterations in {options.rounds} rounds each"
    return "\n".join([*notes, *lines, f"{len(lines)} cases, {effort}"])


def descriptions(options: Options, diagram_path: str | None) -> str:
    """Readable text for each graph; with a path, a drawing of the one graph."""
    from bench_run.report.description import describe
    from bench_run.report.diagram import diagram, page

    gathered = gather(options)
    graphs = [loaded.graph for loaded in gathered.graphs]
    if diagram_path is not None:
        if len(graphs) != 1:
            raise UsageError(f"--diagram draws one graph, {len(graphs)} were given")
        kinds = {".svg": diagram, ".html": page}
        draw = kinds.get(Path(diagram_path).suffix)
        if draw is None:
            raise UsageError(f"--diagram: {diagram_path} should end in .svg or .html")
        with writing(diagram_path):
            Path(diagram_path).write_text(draw(graphs[0]), encoding="utf-8")
    with supporting_engines(options) as asked:
        return "\n".join(f"{describe(graph)}{_support_text(asked, graph)}" for graph in graphs)


def _support_text(asked: SupportingEngines, graph: Graph) -> str:
    """A line for each engine: whether it takes the graph, and if not, which node it refuses."""
    lines = ["\n"]
    for key in asked.keys:
        why = asked.prepare(key, graph)
        said = "takes it" if why is None else f"does not: {why.removeprefix(f'{key}: ')}"
        lines.append(textwrap.fill(f"  {key} {said}", WIDTH, subsequent_indent=" " * 4) + "\n")
    return "".join(lines)


def coverage(options: Options) -> str:
    """The coverage table of the named engines, numpy and torch where none is named."""
    from bench_run.commands.coverage import cover, coverage_text

    with supporting_engines(options, ("numpy", "torch")) as asked:
        return coverage_text(asked.keys, tuple(cover(asked.keys, asked.run)))
