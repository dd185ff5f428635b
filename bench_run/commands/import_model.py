"""`bench-run import`: a model as graphs and the pipeline that links them."""

from __future__ import annotations

from bench_run.commands import CommandOutput

TYPE_CHECKING = False  # importing typing would cost as much as parsing
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from bench_schema.pipeline import Pipeline

    from bench_run.models.lower import RefusedCall
    from bench_run.models.model import Model

USAGE = """Usage:
  bench-run import MODEL -o DIR [--input=SPEC]... [--fuse=WHETHER]
            [--layout=L] [--direction=D] [--weights]
  bench-run import --torch=MAKER (--input=SPEC)... -o DIR [--fuse=WHETHER]
            [--layout=L] [--direction=D] [--weights]

Writes each different operation of a model as a graph, and DIR/NAME.toml, the
pipeline that links them in order. What hipDNN cannot express is listed there.

  MODEL                 an ONNX file (needs the package onnx)
  --torch MAKER         FILE.py:FUNCTION, which returns a torch.nn.Module; read
                        with torch.export, in inference mode
  --input SPEC          of a PyTorch model: dims and type of an input, as in
                        32x3x224x224:half; give it again for more inputs; the
                        model takes the type of the first float one, if there is
                        one. Token ids are int64 or int32, truth values bool. Of
                        an ONNX file: name and dims of an input that has open
                        ones, as in x=1x3x224x224
  -o, --output DIR      folder for the pipeline and its graphs
  --fuse WHETHER        on: batch norms folded into convolutions, biases and
                        activations joined to what they follow; off: a graph for
                        each (default on)
  --layout L            memory order of images: nchw or nhwc (default nchw)
  --direction D         fwd, or both to add the backward graphs, without links
                        (default fwd)
  --weights             store the model's own weights beside the pipeline;
                        without it weights are random, and keep the size of
                        activations
  -h, --help            show help
"""

MOST_NAMED = 5
CHOICES = {
    "--fuse": ("on", "off"),
    "--layout": ("nchw", "nhwc"),
    "--direction": ("fwd", "both"),
}
"""Flag to its choices, the default first."""


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    from pathlib import Path

    from bench_schema.places import Place, check_places

    from bench_run.errors import UsageError
    from bench_run.files import writing
    from bench_run.models.lower import ModelLowering, fuse, take_apart
    from bench_run.models.own import LOWERINGS
    from bench_run.models.save import save_model

    chosen = {}
    for flag, choices in CHOICES.items():
        chosen[flag] = choices[0] if arguments[flag] is None else arguments[flag]
        if chosen[flag] not in choices:
            named = ", ".join(choices)
            raise UsageError(f"{flag}: no choice {chosen[flag]!r}; choose from {named}")
    folder = Path(arguments["--output"])
    torch_model = arguments["--torch"]
    source = arguments["MODEL"] if torch_model is None else torch_model.rpartition(":")[0]
    with writing(folder):
        place = Place("-o", str(folder), (".json", ".toml", ".npy"))
        check_places([Place("MODEL" if torch_model is None else "--torch", source)], [place])
    model = _read(arguments)
    model = fuse(model) if chosen["--fuse"] == "on" else take_apart(model)
    lowering = ModelLowering(model, LOWERINGS, chosen["--layout"])
    lowering.run()
    if not lowering.layers:
        raise UsageError(f"import: {model.name}: {_nothing(lowering.refused)}")
    both = chosen["--direction"] == "both"
    made = save_model(lowering, folder, weights=arguments["--weights"], backward=both)
    pipeline = made.pipeline
    linked = [layer for layer in pipeline.layers if not layer.id.startswith("backward.")]
    lines = [f"{made.path}: {len(linked)} layers, {made.graphs} different graphs", _kept(pipeline)]
    if made.backward:
        lines.append(f"{made.backward} of these graphs are backward, without links")
    if made.forward_only:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in made.forward_only.items())
        lines.append(f"no backward graph is made for {kinds}")
    lines += [
        f"left out: {row.count} x {row.operation}, {_share(row.share)} of the work: {row.reason}"
        for row in pipeline.left_out
    ]
    return CommandOutput("\n".join(lines))


def _kept(pipeline: Pipeline) -> str:
    """Return the share of the model's work that the layers do."""
    shares = [row.share for row in pipeline.left_out]
    if None in shares:
        return "share of the model's work: not known, because of the first operations left out"
    return f"{1 - sum(filter(None, shares)):.2%} of the model's floating-point operations"


def _share(share: float | None) -> str:
    return "an unknown share" if share is None else f"{share:.2%}"


def _nothing(refused: Sequence[RefusedCall]) -> str:
    """Return the reason why the model gives no graphs."""
    if not refused:
        return "the model computes nothing"
    rows = dict.fromkeys(f"{one.call.operation or one.call.kind} ({one.reason})" for one in refused)
    more = f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
    return f"no operation can be expressed as a graph: {', '.join(list(rows)[:MOST_NAMED])}{more}"


def _named_dims(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the name and dims of ``x=1x3x224x224``."""
    from bench_run.errors import UsageError
    from bench_run.models.model import parse_input

    name, equals, dims = text.rpartition("=")
    if not equals or not name or ":" in dims:
        raise UsageError(f"--input {text!r}: expected NAME=DIMS, as in x=1x3x224x224")
    return name, parse_input(dims)[0]


def _read(arguments: Mapping[str, Any]) -> Model:
    if arguments["--torch"] is None:
        from bench_run.models.onnx_file import read_onnx

        return read_onnx(arguments["MODEL"], dict(map(_named_dims, arguments["--input"])))
    from bench_run.models.model import parse_input
    from bench_run.models.torch_export import read_torch

    return read_torch(arguments["--torch"], tuple(map(parse_input, arguments["--input"])))
