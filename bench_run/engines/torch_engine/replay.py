"""What a plan enqueues as a captured graph (CUDA or HIP) that is replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from bench_run.engines.torch_engine.errors import foreign_errors

if TYPE_CHECKING:
    from collections.abc import Callable

cuda: Any = torch.cuda  # partly without types


class DeviceGraph:
    """Captured work. Its tensors lie in memory of its own, the same in every launch."""

    def __init__(self, run: Callable[[], None], pool: object = None) -> None:
        """`run` must have run before: the first time loads what a capture must not. `pool`: that of
        another one, which is launched before or after this one, never beside it: what neither
        holds as a tensor any more is memory for both."""
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, pool=pool, stream=cuda.current_stream()):
            run()
        self._graph = graph
        self.pool: object = graph.pool()
        self.launch: Callable[[], None] = graph.replay

    def again(self, work: Callable[[], None]) -> DeviceGraph:
        with foreign_errors("capture"):
            return DeviceGraph(work)

    def close(self) -> None:
        self._graph.reset()
