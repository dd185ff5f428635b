"""A function of device tensors as a captured graph (CUDA or HIP) that is replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.engines.torch_engine.plan import Function

cuda: Any = torch.cuda  # partly without types

REHEARSALS = 2
"""Calls before the graph stands: the first loads what a capture must not, the second captures."""


class Replayed:
    """Runs once as it is, is captured in the second call, and replayed from then on. The inputs
    must be the same tensors in every call."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._warm = False
        self._graph: Any = None
        self._results: list[torch.Tensor] = []

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if not self._warm:
            self._warm = True
            return self._function(inputs)
        if self._graph is None:
            graph = cuda.CUDAGraph()
            with cuda.graph(graph, stream=cuda.current_stream()):
                self._results = self._function(inputs)
            self._graph = graph
        self._graph.replay()
        return list(self._results)
