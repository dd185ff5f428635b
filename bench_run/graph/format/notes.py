"""Notes on a graph's file: keys without effect, unused tensors."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from bench_run.graph.format.fields import show_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench_run.graph.model import Graph

_KNOWN = frozenset(
    (
        "id",
        "is_override_shape_enabled",
        "min_required_engine_api_version",
        "value_type",
        "umd_bytes",
        "umd_flops",
    )
)
MULTIPLIER = "ragged_offset_multiplier"
"""1 says what is meant without it."""
_NOTHING: tuple[Any, ...] = (None, [], {})


_MOST = 20
"""Notes of one kind that are written out."""


def graph_notes(graph: Graph) -> tuple[str, ...]:
    unknown = _first(_unknown_keys(graph), "keys are not known and have no effect")
    return (*unknown, *_first(_unconnected(graph), "tensors are used by no node"))


def _first(notes: Iterator[str], rest: str) -> Iterator[str]:
    yield from islice(notes, _MOST)
    more = sum(1 for _ in notes)
    if more:
        yield f"{more:,} more {rest}"


def _unknown_keys(graph: Graph) -> Iterator[str]:
    places: list[tuple[str, Mapping[str, Any]]] = [("", graph.extras)]
    places += [(f"tensors[{i}].", tensor.extras) for i, tensor in enumerate(graph.tensors)]
    places += [(f"nodes[{i}].", node.extras) for i, node in enumerate(graph.nodes)]
    for place, extras in places:
        for key in _unknown(extras, place):
            yield f"{key} is not known and has no effect"


def _unknown(extras: Mapping[str, Any], place: str) -> Iterator[str]:
    for key, value in extras.items():
        if key.startswith("_") or key in _KNOWN or value in _NOTHING:
            continue
        if key == MULTIPLIER and value == 1:
            continue
        if isinstance(value, dict):
            yield from _unknown(value, f"{place}{show_key(key)}.")
        else:
            yield place + show_key(key)


def _unconnected(graph: Graph) -> Iterator[str]:
    touched = graph.produced | graph.consumed
    offsets = {tensor.ragged_offset_uid for tensor in graph.tensors}
    for index, tensor in enumerate(graph.tensors):
        if tensor.uid not in touched and tensor.uid not in offsets:
            yield f"tensors[{index}] (uid {tensor.uid} {tensor.name!r}) is used by no node"
