"""How much of networks that people have is imported, by PyTorch's own count of their operations.

Usage: model_coverage.py [NAME]...

NAME is a network of `tests/bench_run/models/zoo.py`, all of them otherwise. It needs torchvision,
timm and transformers.
"""

from __future__ import annotations

import logging
import warnings
from collections import Counter

import torch
from docopt import docopt

from bench_run.graph.work import flops
from bench_run.models.lower import ModelLowering, fuse
from bench_run.models.operations import LOWERINGS
from bench_run.models.torch_export import model_of
from tests.bench_run.models import zoo

MATRIX_WORK = ("conv", "conv_transpose", "linear", "matmul", "sdpa")
GROUPS = {
    "convolutions": zoo.CONVOLUTIONS,
    "images": zoo.TRANSFORMERS_OF_IMAGES,
    "language": zoo.LANGUAGE,
}


def row(make):
    """Layers, the share of matrix work that is left out, and what is left out."""
    torch.manual_seed(0)
    model, inputs = make()
    with torch.no_grad():
        program = torch.export.export(model.eval(), inputs, strict=False)
    lowering = ModelLowering(fuse(model_of(program, "net", "float")), LOWERINGS)
    lowering.run()
    lost = sum(each.call.attributes.get("flops") or 0 for each in lowering.refused)
    kept = sum(flops(each.graph) or 0 for each in lowering.layers if each.kind in MATRIX_WORK)
    counted = Counter(each.call.operation for each in lowering.refused)
    return len(lowering.layers), lost / (lost + kept), counted


def main():
    names = docopt(__doc__.split("\n\n", 1)[1])["NAME"]
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    for group, models in GROUPS.items():
        for name, make in models.items():
            if names and name not in names:
                continue
            layers, lost, counted = row(make)
            left = ", ".join(f"{count} {op}" for op, count in counted.most_common(4))
            print(f"{group:12} {name:16} {layers:4} layers {lost:7.2%} left out  {left}")


if __name__ == "__main__":
    main()
