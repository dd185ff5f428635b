"""The operation graph as a value: tensors joined by nodes. No I/O, no NumPy.

Canonical form, whatever dialect the file had: enum values in lower case, ports without their
``_tensor_uid`` ending, absent and null attributes left out, data types resolved from the graph's
defaults, nodes in topological order. `extras` keep other fields of a file, so that nothing is lost
when it is written again; they carry no meaning and are not part of the fingerprint.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from bench_run.graph.dtypes import DTYPES

Extras = Mapping[str, Any]


@dataclass(frozen=True)
class Tensor:
    """A data edge. Dims are logical (N, C, spatial…); strides, in elements, are the layout."""

    uid: int
    name: str
    data_type: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    virtual: bool = False
    value: float | int | bool | None = None
    """Compile-time constant, baked into the graph; such a tensor has no buffer."""
    runtime_scalar: bool = False
    """A scalar that is handed over through a host pointer when the graph runs."""
    alignment: int = 16
    ragged_offset_uid: int | None = None
    extras: Extras = field(default_factory=dict)

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def span(self) -> int:
        """Elements from the first to just past the last in memory, gaps of the strides included."""
        return 1 + sum((d - 1) * s for d, s in zip(self.dims, self.strides, strict=True))

    @property
    def bytes(self) -> int:
        """Bytes of the elements, gaps left out (what an ideal kernel moves)."""
        return self.elements * DTYPES[self.data_type].bits // 8


@dataclass(frozen=True)
class CustomOperation:
    """A custom operation with a known meaning: a Python file defines it, or a row of the table of
    operators. Graph files never name a Python file: reading them runs no code."""

    file: str
    """Absolute path; empty for an operator of the table, which the node's id names."""
    inputs: tuple[str, ...]
    """Names of the inputs, in the order of the ports."""
    tolerance: Mapping[str, Any] = field(default_factory=dict)
    """``rtol``, ``atol``, ``rms`` of all outputs, or by name of output."""
    flops: int | None = None
    moved_bytes: int | None = None
    """None: each tensor once."""
    terms: int = 1
    """Number of values that one result sums up, if it is known."""
    init: Mapping[str, str] = field(default_factory=dict)
    """Fillings by name of input, in the words of ``--init``."""


@dataclass(frozen=True)
class Node:
    """One operation. ``inputs`` and ``outputs`` map port names (``x``, ``in_0``) to tensor uids."""

    type: str
    """Spelling of hipDNN's JSON: ``ConvolutionFwdAttributes``."""
    name: str
    compute_data_type: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    attributes: Mapping[str, Any]
    """Parameters under hipDNN's key names; lists are tuples, enum values lower case."""
    input_lists: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Ports that take several tensors (``peer_stats``), empty ones left out."""
    extras: Extras = field(default_factory=dict)
    custom: CustomOperation | None = None

    def __post_init__(self) -> None:
        if any(type(value) is list for value in self.attributes.values()):
            plain = {name: _as_tuple(value) for name, value in self.attributes.items()}
            object.__setattr__(self, "attributes", plain)

    @property
    def label(self) -> str:
        """Return the node's name in messages: name and type, or the type alone."""
        return f"{self.name} ({self.type})" if self.name else self.type


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Graph:
    name: str
    io_data_type: str
    intermediate_data_type: str
    compute_data_type: str
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    preferred_engine_id: int | None = None
    extras: Extras = field(default_factory=dict)

    @cached_property
    def by_uid(self) -> Mapping[int, Tensor]:
        return {tensor.uid: tensor for tensor in self.tensors}

    @cached_property
    def produced(self) -> frozenset[int]:
        """Uids of the tensors that some node writes."""
        return frozenset(uid for node in self.nodes for uid in node.outputs.values())

    @cached_property
    def consumed(self) -> frozenset[int]:
        """Uids of the tensors that some node reads."""
        ports = (node.inputs.values() for node in self.nodes)
        lists = (uids for node in self.nodes for uids in node.input_lists.values())
        return frozenset(uid for uids in (*ports, *lists) for uid in uids)

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        """Tensors a run must be given data for, in file order: read by a node, produced by none,
        no constant."""
        return tuple(
            t
            for t in self.tensors
            if t.uid in self.consumed and t.uid not in self.produced and t.value is None
        )

    @cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        """Tensors a run leaves behind, in file order: produced and not virtual."""
        return tuple(t for t in self.tensors if t.uid in self.produced and not t.virtual)

    @cached_property
    def constants(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.tensors if t.value is not None)

    @cached_property
    def connected(self) -> Graph:
        """The graph without the tensors that nothing uses: no node, nor as offsets a tensor that
        is used. They mean nothing."""
        used: set[int] = set()
        for touched in self.produced | self.consumed:
            uid: int | None = touched
            while uid is not None and uid not in used:
                used.add(uid)
                uid = self.by_uid[uid].ragged_offset_uid
        kept = tuple(tensor for tensor in self.tensors if tensor.uid in used)
        return self if len(kept) == len(self.tensors) else replace(self, tensors=kept)
