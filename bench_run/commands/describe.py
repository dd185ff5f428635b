"""`bench-run describe`: operations, shapes and work of graphs, and which engines support them."""

from __future__ import annotations

from bench_run.commands import CommandOutput
from bench_run.commands.usage import SHARED, topic

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from bench_run.graph.model import Graph
    from bench_run.options import Options

USAGE = f"""Describe graphs: operations, tensors, floating-point operations, bytes, and
which engines support them (default: all engines that can run here).
`bench-run --describe` does the same.

Usage:
  bench-run describe [options] [--engine=SPEC]... [--op=SPEC]...
            [--miopen-driver=LINE]... [--benchdnn=LINE]...
            [--knob=KV]... [--init=RULE]...
            [--plugin-path=DIR]... [GRAPH]...

Examples:
  bench-run describe suite:smoke
  bench-run describe --op 'matmul+bias: m=8 n=8 k=8' --diagram graph.mmd

Drawing:
  --diagram FILE        draw the graph (only one): .dot (Graphviz) or
                        .mmd (Mermaid)
  --onnx FILE           write the graph (only one) as an ONNX model of opset 21

{topic("input")}
{topic("engines")}
Other options:
{SHARED}"""

WIDTH = 80
MISWRITTEN = "ResampleBwdAttributes"
WHY = (
    "hipDNN wrote graphs with resample_bwd wrong until its change 10600: capture again what was "
    "captured before"
)


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Run the command. Raises `BenchRunError` if a graph or an engine cannot be used."""
    from bench_run.options import read_options

    options = read_options(arguments)
    return CommandOutput(descriptions(options, arguments["--diagram"], arguments["--onnx"]))


def descriptions(options: Options, diagram_path: str | None, onnx_path: str | None = None) -> str:
    """Return readable text for each graph; with a path, also write a drawing of the one graph, or
    its model."""
    import textwrap

    from bench_schema.places import Place, check_places

    from bench_run.commands.supporting_engines import supporting_engines
    from bench_run.files import writing
    from bench_run.plan.load import gather
    from bench_run.report.description import describe
    from bench_run.runner.places import inputs_of, outputs_of

    for flag, path in (("--diagram", diagram_path), ("--onnx", onnx_path)):
        if path is not None:
            with writing(path):
                place = Place(flag, path, is_report=True)
                check_places(inputs_of(options), [place, *outputs_of(options)])
    from bench_run.options import Sources, grouped

    graphs = [loaded.graph for loaded in gather(grouped(Sources, options)).graphs]
    if diagram_path is not None:
        _draw(graphs, diagram_path)
    if onnx_path is not None:
        _write_onnx(graphs, onnx_path)
    with supporting_engines(options) as engines:
        texts = []
        for graph in graphs:
            lines = [describe(graph), "\n"]
            if options.graphs and any(node.type == MISWRITTEN for node in graph.nodes):
                lines.append(
                    textwrap.fill(f"  note: {WHY}", WIDTH, subsequent_indent=" " * 4) + "\n"
                )
            for key in engines.keys:
                why = engines.prepare(key, graph)
                support = "supported"
                if why is not None:  # with the node that it refuses
                    support = f"not supported: {why.removeprefix(f'{key}: ')}"
                line = textwrap.fill(f"  {key}: {support}", WIDTH, subsequent_indent=" " * 4)
                lines.append(f"{line}\n")
            texts.append("".join(lines))
        return "\n".join(texts)


def _draw(graphs: Sequence[Graph], path: str) -> None:
    from pathlib import Path

    from bench_run.errors import UsageError
    from bench_run.files import write_text_file
    from bench_run.report.diagram import dot, mermaid

    if len(graphs) != 1:
        raise UsageError(f"--diagram draws one graph, {len(graphs)} were given")
    kinds = {".dot": dot, ".mmd": mermaid}
    draw = kinds.get(Path(path).suffix)
    if draw is None:
        raise UsageError(f"--diagram: {path} should end in {', '.join(kinds)}")
    write_text_file(path, draw(graphs[0]))


def _write_onnx(graphs: Sequence[Graph], path: str) -> None:
    from pathlib import Path

    from bench_run.errors import UsageError
    from bench_run.files import writing
    from bench_run.graph.to_onnx import to_onnx

    if len(graphs) != 1:
        raise UsageError(f"--onnx writes one graph, {len(graphs)} were given")
    data = to_onnx(graphs[0]).data
    with writing(path):
        Path(path).write_bytes(data)
