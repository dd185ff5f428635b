"""Matrix products of a mixture of experts, and the gradient of their weights.

token is [1, T, K], weight [E, K, N], first_token_offset [G, 1, 1] with G a multiple of E. Rows
first_token_offset[g] up to the next group's offset (the last: to the end) belong to expert g mod E.
For each row r of a group with expert e: output[0, dst] = token[0, src]·weight[e], where

    none      src = r                dst = r
    gather    src = token_index[r]   dst = r
    scatter   src = r                dst = token_index[r]·top_k + token_ks[r]

and rows that no r names are 0.
Source: hipDNN's MoE grouped matmul node. Of its backward only the ports were seen:
dweight[e] = Σ_r token[0, r]ᵀ·doutput[0, r] over the rows of e's groups is our definition, for
mode none; the others are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.meaning import refusal
from bench_run.reference.common import Array, Arrays, Outputs, blas_ready
from bench_run.reference.matmul import product

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Node


def forward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute port output from ports token, weight, first_token_offset, token_index and
    token_ks."""
    dims = outputs["output"].dims
    token, weight = blas_ready(inputs["token"][0], inputs["weight"], inputs["weight"].shape[1])
    source, target = _routes(node, inputs, dims[1])
    result = np.zeros(dims, token.dtype)
    for expert, rows in _groups(node, inputs, len(weight), len(source)):
        result[0, target[rows]] = product(token[source[rows]], weight[expert])
    return {"output": result}


def weight_gradient(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute port dweight from ports doutput, token and first_token_offset."""
    dims = outputs["dweight"].dims
    token, doutput = blas_ready(inputs["token"][0], inputs["doutput"][0], len(inputs["token"][0]))
    total = np.zeros(dims, token.dtype)
    for expert, rows in _groups(node, inputs, dims[0], len(token)):
        total[expert] += product(token[rows].T, doutput[rows])
    return {"dweight": total}


def _routes(node: Node, inputs: Arrays, out_rows: int) -> tuple[Array, Array]:
    """Return the source and target row of each row r, within the rows that there are."""
    mode = node.attributes.get("mode", "none")
    tokens = inputs["token"].shape[1]
    if mode == "none":
        source = target = np.arange(tokens)
    elif mode == "gather":
        source = inputs["token_index"].reshape(-1)
        target = np.arange(len(source))
    else:
        source = np.arange(tokens)
        first = inputs["token_index"].reshape(-1) * node.attributes["top_k"]
        target = first + inputs["token_ks"].reshape(-1)
    if len(source) != len(target):
        raise refusal(node, f"{len(target)} indices for {len(source)} rows")
    for name, rows, count in (("source", source, tokens), ("target", target, out_rows)):
        if len(rows) and not 0 <= rows.min() <= rows.max() < count:
            raise refusal(node, f"a {name} row lies outside of the {count} ")
    return source, target


def _groups(node: Node, inputs: Arrays, experts: int, rows: int) -> Iterator[tuple[int, slice]]:
    """Yield (expert, rows) of each group."""
    first = inputs["first_token_offset"].reshape(-1)
    if len(first) % experts:
        raise refusal(node, f"{len(first)} groups are not a multiple of {experts} experts")
    bounds = [*first.tolist(), rows]
    if bounds != sorted(bounds) or bounds[0] < 0:
        raise refusal(node, f"first_token_offset must rise from 0 to at most {rows}")
    for group in range(len(first)):
        yield group % experts, slice(bounds[group], bounds[group + 1])
