"""A graph in cuDNN's form, before and after one of its plans is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.engines.cudnn.knobs import knob_text
from bench_run.engines.cudnn.plans import Chosen
from bench_run.graph.dtypes import DTYPES
from bench_run.tensors.layout import logical_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.cudnn.views import TensorView
    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.storage import Storage


@dataclass(frozen=True)
class Built:
    """A graph in cuDNN's form. `pygraph` lists plans; `chosen` is the one that was built."""

    graph: Graph
    """As it was given: its inputs and outputs are those of the plan."""
    scalars: tuple[Tensor, ...]
    views: Mapping[int, TensorView]
    numbers: Mapping[int, int]
    pygraph: Any
    listed: list[str]
    places: list[int]
    chosen: Chosen
    math: str
    backend: str

    def elements(self, tensor: Tensor) -> int:
        """Of the tensor's buffer: its span, or what it is spread over."""
        spread = self.views[tensor.uid].spread
        return tensor.span if spread is None else int(np.prod(spread.dims))

    def spread_out(self, tensor: Tensor, storage: Storage) -> Any:
        """The input as its buffer holds it."""
        spread = self.views[tensor.uid].spread
        if spread is None:
            return np.ascontiguousarray(storage)
        return spread_out(tensor, storage, spread.dims, spread.order)

    def size(self, tensor: Tensor) -> int:
        """Bytes of the tensor's buffer."""
        return self.elements(tensor) * DTYPES[tensor.data_type].bits // 8

    def facts(self) -> dict[str, str]:
        spread = [t.name or str(t.uid) for t in self.graph.inputs if self.views[t.uid].spread]
        facts = {
            "plan": self.chosen.name,
            "index": str(self.chosen.index),
            "backend": self.backend,
            "math": self.math,
            "knobs": knob_text(self.chosen.name),
        }
        if self.chosen.notes:
            facts["notes"] = ", ".join(self.chosen.notes)
        if spread:
            facts["spread_inputs"] = ", ".join(spread)
        return facts


NOT_CHOSEN = Chosen(-1, "", 0, ())


def spread_out(
    tensor: Tensor, storage: Storage, dims: tuple[int, ...], order: tuple[int, ...]
) -> Any:
    """The input broadcast to `dims`, its axes laid out in `order`."""
    logical = logical_view(storage, tensor)
    missing = len(dims) - logical.ndim
    widened = logical.reshape((1,) * missing + logical.shape)
    return np.ascontiguousarray(np.broadcast_to(widened, dims).transpose(order)).reshape(-1)
