"""Grouped matrix products of a mixture of experts, without waiting for the device.

Offsets are run-time data, so each row finds its expert on the device; every expert's product is
taken over all rows and the rows that are not its own are left out.
"""

from __future__ import annotations

from typing import TypeAlias

import torch

from bench_run.engines.torch_engine.op import BoundKernel, TorchOp, elementwise

T: TypeAlias = torch.Tensor


def _experts(offsets: T, rows: int, experts: int) -> T:
    """Return the expert of each row, −1 before the first group."""
    bounds = offsets.reshape(-1).to(torch.int64)
    places = torch.arange(rows, device=offsets.device)
    groups = torch.searchsorted(bounds, places, right=True) - 1
    return torch.where(groups >= 0, groups % experts, -1)


def forward(op: TorchOp) -> BoundKernel:
    mode, top_k = op.attribute("mode", "none"), int(op.attribute("top_k", 0))
    ports = {"none": (), "gather": ("token_index",), "scatter": ("token_index", "token_ks")}
    dtype, out = op.working_type("token", "weight", result="output"), op.dims("output")
    experts = op.dims("weight")[0]

    def function(token: T, weight: T, offsets: T, *index: T) -> T:
        rows, weight = elementwise(token[0], dtype), elementwise(weight, dtype)
        places = [value.reshape(-1).to(torch.int64) for value in index]
        if mode == "gather":
            rows = rows[places[0]]
        expert = _experts(offsets, rows.shape[0], experts)[:, None]
        total = rows.new_zeros((rows.shape[0], out[2]))
        for number in range(experts):
            total = torch.where(expert == number, rows @ weight[number], total)
        if mode == "scatter":
            empty = rows.new_zeros(out[1:])
            total = empty.index_copy(0, places[0] * top_k + places[1], total)
        return total.reshape(out)

    inputs = ("token", "weight", "first_token_offset", *ports[mode])
    return BoundKernel(inputs, ("output",), function, 8 + 3 * experts)


def weight_gradient(op: TorchOp) -> BoundKernel:
    dtype = op.working_type("doutput", "token", result="dweight")
    experts = op.dims("dweight")[0]

    def function(doutput: T, token: T, offsets: T) -> T:
        rows, gradient = elementwise(token[0], dtype), elementwise(doutput[0], dtype)
        expert = _experts(offsets, rows.shape[0], experts)[:, None]
        own = (torch.where(expert == number, rows, 0.0) for number in range(experts))
        return torch.stack([part.T @ gradient for part in own])

    ports = ("doutput", "token", "first_token_offset")
    return BoundKernel(ports, ("dweight",), function, 8 + 3 * experts)
