"""Formulas of the table of operators as functions of NumPy arrays."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.graph.make.operators import row_of
from bench_run.graph.make.operators.row import FORWARD, JOINT
from bench_run.operators import in_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

    from bench_run.graph.model import Node

_NAMES = {**vars(np), **vars(in_numpy)}
SEED = 20_261


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "operator", "eval")


def evaluate_operator(
    node: Node, given: Mapping[str, Any], *, drawn: bool = False
) -> dict[str, Any]:
    """Return the results of an operator by name. `given`: arrays by name of input; `drawn`: a
    random operator draws its values, where the reference has the value that they lie around."""
    row, direction, params = row_of(node)
    values = {**params, **given}

    def evaluate(text: str) -> Any:
        return eval(_compiled(text), _NAMES, values)  # noqa: S307 - a text of the table

    found: dict[str, Any] = {}
    if direction in (FORWARD, JOINT):
        if drawn and row.numpy is not None:
            values["draw"] = np.random.default_rng(SEED)
        result = evaluate(row.numpy if drawn and row.numpy is not None else row.text)
        parts = result if isinstance(result, tuple) else (result,)
        found |= dict(zip(row.outputs, parts, strict=True))
    if direction == FORWARD:
        return found
    values |= found
    for name in row.gradients:
        if name in row.grads:
            found[f"d{name}"] = evaluate(row.grads[name])
    if "*" in row.grads:
        parts = evaluate(row.grads["*"])
        found |= {f"d{name}": part for name, part in zip(row.gradients, parts, strict=True)}
    return {name: found[name] for name in row.names(direction)[1]}
