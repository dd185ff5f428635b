"""Grouped matrix products of a mixture of experts: the groups are known only when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.engines.numpy_engine.common import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.engines.numpy_engine.common import Array
    from bench_run.graph.operations import NodeView


def refuse(node: NodeView) -> None:
    if node.attribute("mode") not in (None, "none", "gather", "scatter"):
        raise refusal(node, f"mode {node.attribute('mode')!r} is not one of none, gather, scatter")


def forward(
    node: NodeView,
    token: Array,
    weight: Array,
    first_token_offset: Array,
    token_index: Array | None = None,
    token_ks: Array | None = None,
) -> dict[str, Array]:
    """output[r] = token[r]·weight[expert of r]; token's rows are gathered by token_index first, or
    scattered to row token_index·top_k + token_ks afterwards."""
    rows, mode = token[0], node.attribute("mode")
    if mode == "gather" and token_index is not None:
        rows = rows[token_index.reshape(-1)]
    products = np.zeros((len(rows), weight.shape[2]), rows.dtype)
    for expert, group in _groups(first_token_offset, len(weight), len(rows)):
        products[group] = rows[group] @ weight[expert]
    if mode == "scatter" and token_index is not None and token_ks is not None:
        places = token_index.reshape(-1) * node.attribute("top_k") + token_ks.reshape(-1)
        output = np.zeros(node["output"].dims, rows.dtype)
        output[0, places] = products
        return {"output": output}
    return {"output": products[None]}


def weight_gradient(
    node: NodeView, token: Array, doutput: Array, first_token_offset: Array
) -> dict[str, Array]:
    """dweight[e] = Σ token[r]ᵀ·doutput[r] over the rows of the expert's groups."""
    dweight = np.zeros(node["dweight"].dims, token.dtype)
    for expert, group in _groups(first_token_offset, len(dweight), token.shape[1]):
        dweight[expert] += token[0, group].T @ doutput[0, group]
    return {"dweight": dweight}


def _groups(offsets: Array, experts: int, rows: int) -> Iterator[tuple[int, slice]]:
    """Expert and rows of each group; a group ends where the next one starts."""
    bounds = [*offsets.reshape(-1).tolist(), rows]
    for group in range(len(bounds) - 1):
        yield group % experts, slice(bounds[group], bounds[group + 1])
