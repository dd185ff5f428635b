"""Custom nodes: an operator of the table, or of a user's file with its function ``in_torch``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.engines.torch_engine.op import UNKNOWN_LAUNCHES, BoundKernel
from bench_run.engines.torch_engine.operators import operator
from bench_run.graph.make.operators import is_operator
from bench_run.user.cases import TORCH, source_of
from bench_run.user.kernels import Kernel, Problem

if TYPE_CHECKING:
    from bench_run.engines.torch_engine.op import TorchOp, Values


def custom(op: TorchOp) -> BoundKernel:
    if is_operator(op.node):
        return operator(op)
    source = source_of(op.node)
    function = getattr(source.module, TORCH, None)
    if not callable(function):
        raise op.refusal(f"{source.path.name} has no function {TORCH}(...) for PyTorch")
    outputs = [None] * len(op.node.outputs)
    call = Kernel(TORCH, function, source).prepare(Problem(op.graph, {}, str(op.device)))

    def run(*inputs: object) -> Values:
        return tuple(call(inputs, outputs))

    return BoundKernel(tuple(op.node.inputs), tuple(op.node.outputs), run, UNKNOWN_LAUNCHES)
