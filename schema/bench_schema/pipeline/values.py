"""A pipeline as a value: which graphs run, how often, in which order, and what they hand over.

A suite is a pipeline without links. Frozen dataclasses, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Link:
    """Where an input of a layer comes from: memory that something else wrote."""

    tensor: str
    """An output of `layer`, or with `layer` None an input of the pipeline."""
    layer: str | None = None
    offset: int = 0
    """Elements between the start of that memory and the start of this tensor."""

    @property
    def text(self) -> str:
        """As the file has it: ``ID:TENSOR[@OFFSET]``."""
        head = self.tensor if self.layer is None else f"{self.layer}:{self.tensor}"
        return f"{head}@{self.offset}" if self.offset else head


@dataclass(frozen=True)
class Layer:
    """One entry: a graph in its place. Exactly one of `file` and `op` is there."""

    id: str
    file: Path | None = None
    """Of a graph, as the pipeline's folder sees it."""
    op: str | None = None
    """An op spec; in a plain suite it may make several graphs."""
    repeat: int = 1
    """Executions in a row, each with weights of its own. What follows reads the last one's
    outputs."""
    after: tuple[str, ...] = ()
    """Layers that run before this one, beside those that its links name."""
    links: Mapping[str, Link] = field(default_factory=dict)
    """By name of an input tensor (its uid as text where it has no name)."""
    init: Mapping[str, str] = field(default_factory=dict)
    """By name of an input tensor: how it is filled, as ``--init`` has it."""
    weights: tuple[str, ...] | None = None
    """Input tensors that are weights; None: by the ports of the graph's nodes."""
    variant: Mapping[str, str] = field(default_factory=dict)
    """What an engine is asked for on this layer (``plan = "…"``)."""
    fingerprint: str | None = None
    """Of the graph's meaning, as result documents have it."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Ids of the layers that run before this one."""
        linked = (link.layer for link in self.links.values() if link.layer is not None)
        return tuple(dict.fromkeys((*linked, *self.after)))


@dataclass(frozen=True)
class Input:
    """A tensor that several layers read and none writes."""

    name: str
    init: str | None = None
    weight: bool = False


@dataclass(frozen=True)
class LeftOut:
    """What a model does and no graph expresses."""

    operation: str
    count: int
    share: float
    """Of the model's work (floating-point operations), between 0 and 1."""
    reason: str = ""


@dataclass(frozen=True)
class Pipeline:
    name: str
    about: str
    layers: tuple[Layer, ...]
    """In the order of the file."""
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Link, ...] = ()
    """The results of the model, where the file names them."""
    left_out: tuple[LeftOut, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, Layer]:
        return {layer.id: layer for layer in self.layers}

    @cached_property
    def order(self) -> tuple[Layer, ...]:
        """Every layer after those it needs; the file's order wherever that allows it.

        Raises `ValueError` with the ids of a circle.
        """
        place = {layer.id: index for index, layer in enumerate(self.layers)}
        sorter = TopologicalSorter({layer.id: layer.needs for layer in self.layers})
        try:
            sorter.prepare()
        except CycleError as error:
            raise ValueError(" → ".join(reversed(error.args[1]))) from None
        ordered: list[Layer] = []
        ready: list[int] = []
        while sorter.is_active():
            for name in sorter.get_ready():
                heappush(ready, place[name])
            ordered.append(self.layers[heappop(ready)])
            sorter.done(ordered[-1].id)
        return tuple(ordered)

    @property
    def is_linked(self) -> bool:
        """Whether anything passes between layers; a plain suite has no links."""
        return any(layer.links for layer in self.layers)

    @property
    def neighbours(self) -> Iterator[tuple[Layer, Layer]]:
        """Each pair of layers of which the second reads what the first wrote, or runs right after
        it; none where nothing is linked."""
        before: Layer | None = None
        for layer in self.order if self.is_linked else ():
            names = [before.id] if before is not None else []
            names += [link.layer for link in layer.links.values() if link.layer is not None]
            yield from ((self.by_id[name], layer) for name in dict.fromkeys(names))
            before = layer
