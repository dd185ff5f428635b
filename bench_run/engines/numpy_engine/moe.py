"""Grouped matrix products of a mixture of experts: the groups are known only when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.engines.numpy_engine.op import Op

Array: TypeAlias = npt.NDArray[Any]

PORTS = {"none": (), "gather": ("token_index",), "scatter": ("token_index", "token_ks")}


def forward(op: Op) -> None:
    mode, top_k = op.attribute("mode", "none"), int(op.attribute("top_k", 0))
    if mode not in PORTS:
        raise op.refusal(f"mode {mode!r} is not one of {', '.join(PORTS)}")
    token, weight, offsets = op.read("token")[0], op.read("weight"), _integers(op, OFFSETS)
    index = [_integers(op, port) for port in PORTS[mode]]
    with op.writing("output") as output:

        def run() -> None:
            rows = token[index[0].reshape(-1)] if mode == "gather" else token
            target: Array | slice = slice(None)
            if mode == "scatter":
                target = index[0].reshape(-1) * top_k + index[1].reshape(-1)
            products = np.zeros((rows.shape[0], weight.shape[2]), rows.dtype)
            for expert, group in _groups(offsets, len(weight), rows.shape[0]):
                np.matmul(rows[group], weight[expert], out=products[group])
            output.fill(0.0)
            output[0, target] = products

        op.program.call(run)


def weight_gradient(op: Op) -> None:
    """dweight[e] = Σ token[r]ᵀ·doutput[r] over the rows of the expert's groups."""
    if op.attribute("mode", "none") != "none":
        raise op.refusal(f"what mode {op.attribute('mode')!r} does backward is not documented")
    token, doutput = op.read("token")[0], op.read("doutput")[0]
    offsets = _integers(op, OFFSETS)
    with op.writing("dweight") as dweight:

        def run() -> None:
            dweight.fill(0.0)
            for expert, group in _groups(offsets, len(dweight), len(token)):
                dweight[expert] += token[group].T @ doutput[group]

        op.program.call(run)


OFFSETS = "first_token_offset"


def _integers(op: Op, port: str) -> Array:
    return op.program.read(op.tensor(port).uid, np.dtype(np.int64))


def _groups(offsets: Array, experts: int, rows: int) -> Iterator[tuple[int, slice]]:
    """Expert and rows of each group; a group ends where the next one starts."""
    bounds = [*offsets.reshape(-1).tolist(), rows]
    for group in range(len(bounds) - 1):
        yield group % experts, slice(bounds[group], bounds[group + 1])
