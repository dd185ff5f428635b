"""Parameters of activations, with hipDNN's defaults filled in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_run.graph.model import Node


@dataclass(frozen=True)
class Parameters:
    lower: float = 0.0
    upper: float = math.inf
    slope: float = 0.0
    swish_beta: float = 1.0
    elu_alpha: float = 1.0
    softplus_beta: float = 1.0


KEYS = {
    "relu_lower_clip": "lower",
    "relu_upper_clip": "upper",
    "relu_lower_clip_slope": "slope",
    "swish_beta": "swish_beta",
    "elu_alpha": "elu_alpha",
    "softplus_beta": "softplus_beta",
}
"""Name here by name in hipDNN's JSON."""


def parameters(node: Node) -> Parameters:
    given = {key: node.attributes.get(key) for key in KEYS}
    return Parameters(**{KEYS[key]: float(v) for key, v in given.items() if v is not None})
