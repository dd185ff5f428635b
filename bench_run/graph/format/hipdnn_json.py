"""hipDNN's JSON: bytes → Graph, any dialect, old or new keys (`hipdnn_write` is the way back)."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson

from bench_run.errors import GraphError
from bench_run.graph.check import check
from bench_run.graph.format import fields
from bench_run.graph.format.constants import read_constant
from bench_run.graph.format.dialects import read_node
from bench_run.graph.format.hipdnn_write import to_json, write_graph
from bench_run.graph.model import Graph, Tensor

__all__ = ["parse_json", "read_graph", "read_graph_object", "to_json", "write_graph"]

_TYPE_KEYS = {
    "io_data_type": "io_type",
    "intermediate_data_type": "intermediate_type",
    "compute_data_type": "compute_type",
}
"""Graph-wide default types: current key → the former one."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_graph(data: bytes, where: str) -> Graph:
    """The graph of a file, checked and in canonical form; `where` names the file in messages."""
    return read_graph_object(parse_json(data, where), where)


def read_graph_object(value: Any, where: str) -> Graph:
    """The same from the file's JSON value."""
    data = dict(fields.as_object(value, where))
    for key in ("tensors", "nodes"):
        if key not in data:
            raise GraphError(where, f"is not an operation graph: it has no {key}")
    types = {key: _default_type(data, key, f"{where}:") for key in _TYPE_KEYS}
    nodes = fields.as_list(data.pop("nodes"), f"{where}:", "nodes")
    tensors = fields.as_list(data.pop("tensors"), f"{where}:", "tensors")
    name, engine = data.pop("name", None), data.pop("preferred_engine_id", None)
    graph = Graph(
        name="" if name is None else fields.as_text(name, f"{where}:", "name"),
        **types,
        tensors=tuple(
            _read_tensor(tensor, f"{where}: tensors[{i}]", types)
            for i, tensor in enumerate(tensors)
        ),
        nodes=tuple(
            read_node(node, f"{where}: nodes[{i}]", types["compute_data_type"])
            for i, node in enumerate(nodes)
        ),
        preferred_engine_id=(
            None if engine is None else fields.as_int(engine, f"{where}:", "preferred_engine_id")
        ),
        extras=data,
    )
    return check(graph, where)


def _default_type(data: dict[str, Any], key: str, where: str) -> str:
    """A graph-wide type; ``unset`` where no file of either age gives one."""
    old = data.pop(_TYPE_KEYS[key], None)
    value = data.pop(key, None)
    if value is None:
        value = old
    return "unset" if value is None else fields.as_type(value, where, key)


def _read_tensor(value: Any, where: str, types: dict[str, str]) -> Tensor:
    data = dict(fields.as_object(value, where))
    for key in ("uid", "dims", "strides"):
        if data.get(key) is None:
            raise GraphError(f"{where}.{key}", "is missing")
    virtual = _take_bool(data, "virtual", where)
    data_type = _tensor_type(data, where, types, virtual)
    constant, value_type = read_constant(
        data.pop("value", None), data.pop("value_type", None), data_type, where
    )
    if value_type is not None:
        data["value_type"] = value_type
    name, alignment = data.pop("name", None), data.pop("alignment", None)
    ragged = data.pop("ragged_offset_tensor_uid", None)
    return Tensor(
        uid=fields.as_int(data.pop("uid"), where, "uid"),
        name="" if name is None else fields.as_text(name, where, "name"),
        data_type=data_type,
        dims=fields.as_ints(data.pop("dims"), where, "dims"),
        strides=fields.as_ints(data.pop("strides"), where, "strides"),
        virtual=virtual,
        value=constant,
        runtime_scalar=_take_bool(data, "is_runtime_pass_by_value", where),
        alignment=16 if alignment is None else fields.as_int(alignment, where, "alignment"),
        ragged_offset_uid=(
            None if ragged is None else fields.as_int(ragged, where, "ragged_offset_tensor_uid")
        ),
        extras=data,
    )


def _take_bool(data: dict[str, Any], key: str, where: str) -> bool:
    value = data.pop(key, None)
    return False if value is None else fields.as_bool(value, where, key)


def _tensor_type(data: dict[str, Any], where: str, types: dict[str, str], virtual: bool) -> str:
    value = data.pop("data_type", None)
    name = "unset" if value is None else fields.as_type(value, where, "data_type")
    if name != "unset":
        return name
    default = "intermediate_data_type" if virtual else "io_data_type"
    if types[default] == "unset":
        raise GraphError(f"{where}.data_type", f"is not set, and neither is the graph's {default}")
    return types[default]


def parse_json(data: bytes, where: str) -> Any:
    """The JSON value of a file's bytes. Numbers that JSON does not have are named."""
    data = data.removeprefix(_BYTE_ORDER_MARK)
    if not data.strip():
        raise GraphError(where, "is empty")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        place = _place_of_non_finite(data)
        if place is not None:
            raise GraphError(f"{where}: {place}", "is not a finite number") from error
        what = f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise GraphError(where, what) from error


def _place_of_non_finite(data: bytes) -> str | None:
    """Where the first NaN or infinity of the file lies, if such a one is what is wrong with it."""
    try:
        return _find_non_finite(json.loads(data), "")
    except (ValueError, RecursionError):
        return None


def _find_non_finite(value: Any, place: str) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return place or "the value"
    items: Any = ()
    if isinstance(value, dict):
        items = ((_inner(place, key), item) for key, item in value.items())
    elif isinstance(value, list):
        items = ((f"{place}[{index}]", item) for index, item in enumerate(value))
    found = (_find_non_finite(item, inner) for inner, item in items)
    return next((where for where in found if where is not None), None)


def _inner(place: str, key: str) -> str:
    return f"{place}.{fields.show_key(key)}" if place else fields.show_key(key)
