"""hipDNN's JSON: bytes → Graph, any dialect, old or new keys (`write_graph` is the way back)."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import orjson

from bench_run.errors import GraphError
from bench_run.graph.check import check
from bench_run.graph.format import fields
from bench_run.graph.format.fields import default_value_type, read_constant, write_constant
from bench_run.graph.model import Graph, Node, Tensor
from bench_run.graph.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.operations import Operation, Parameter, Port

__all__ = ["parse_json", "read_graph", "read_graph_object", "to_json", "write_graph"]


# Graph → hipDNN's JSON, in the form that its strict C++ reader expects (graphs/FORMAT.md, form A).
#
# Every key that reader looks up is there: types, ``virtual`` and pass-by-value flags in full,
# optional keys as null or left out, operation by operation (the rows of the operations table say).

_FORMAT = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE


def write_graph(graph: Graph) -> bytes:
    """Return the file: equal graphs give equal bytes."""
    return orjson.dumps(to_json(graph), option=_FORMAT)


def to_json(graph: Graph) -> dict[str, Any]:
    data = {
        **graph.extras,
        "name": graph.name,
        "io_data_type": graph.io_data_type,
        "intermediate_data_type": graph.intermediate_data_type,
        "compute_data_type": graph.compute_data_type,
        "tensors": [_tensor(tensor) for tensor in graph.tensors],
        "nodes": [_node(node) for node in graph.nodes],
    }
    if graph.preferred_engine_id is not None:
        data["preferred_engine_id"] = graph.preferred_engine_id
    return data


def _tensor(tensor: Tensor) -> dict[str, Any]:
    data = {
        **tensor.extras,
        "uid": tensor.uid,
        "name": tensor.name,
        "data_type": tensor.data_type,
        "dims": list(tensor.dims),
        "strides": list(tensor.strides),
        "virtual": tensor.virtual,
        "alignment": tensor.alignment,
        "is_runtime_pass_by_value": tensor.runtime_scalar,
    }
    if tensor.value is not None:
        kind = tensor.extras.get("value_type", default_value_type(tensor.data_type))
        data["value_type"] = kind
        data["value"] = write_constant(tensor.value, kind, tensor.data_type)
    if tensor.ragged_offset_uid is not None:
        data["ragged_offset_tensor_uid"] = tensor.ragged_offset_uid
    return data


def _node(node: Node) -> dict[str, Any]:
    row = OPERATIONS[node.type]
    data = {
        **node.extras,
        "type": node.type,
        "name": node.name,
        "compute_data_type": node.compute_data_type,
    }
    inputs = _ports(row.inputs, {**node.inputs, **node.input_lists})
    outputs = _ports(row.outputs, node.outputs)
    parameters: dict[str, Any] = {}
    for parameter in row.parameters:
        value = node.attributes.get(parameter.name, parameter.default)
        if parameter.absent == "omit" and value == parameter.default:
            continue
        parameters[parameter.name] = None if value is None else _value(parameter, value)
    if row.flat_ports:
        return data | inputs | outputs | parameters
    for place, content in (("inputs", inputs), ("outputs", outputs), (row.place, parameters)):
        if place == "flat":
            data |= content
        else:
            data[place] = {**data.get(place, {}), **content}
    return data


def _ports(ports: tuple[Port, ...], used: Mapping[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for port in ports:
        if port.numbered:
            names = [name for name in used if name.rpartition("_")[0] == port.name]
            written[port.key] = [used[name] for name in names]
        elif port.many:
            written[port.key] = list(used.get(port.name, ()))
        elif port.name in used:
            written[port.key] = used[port.name]
        elif port.absent == "null":
            written[port.key] = None
    return written


def _value(parameter: Parameter, value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if parameter.kind != "enum" or parameter.spelling == "lower":
        return value
    if parameter.spelling == "number":
        return parameter.choices.index(value)
    return value.upper()


# One node of a file as a `Node`, wherever the file's dialect put its data.
#
# Three dialects are in use (graphs/FORMAT.md, Nodes): uids in ``inputs``/``outputs``, flat on the
# node, or in ``attributes``; parameters in ``parameters``, ``attributes``, ``inputs`` or flat. Each
# datum is looked for in all of these places, and what is left over is kept.

_FLAT = "flat"
_OBJECTS = ("inputs", "outputs", "parameters", "attributes")
_INPUT_PLACES = ("inputs", _FLAT, "attributes", "parameters")
_OUTPUT_PLACES = ("outputs", _FLAT, "attributes", "parameters")
_PARAMETER_PLACES = ("parameters", "attributes", _FLAT, "inputs")
_TYPES = {name.lower(): row for name, row in OPERATIONS.items()}


class _ScatteredNode:
    """A node's data by place, taken out one by one; what is not taken is left over."""

    def __init__(self, data: dict[str, Any], where: str) -> None:
        self.where = where
        self.places = {_FLAT: dict(data)}
        for name in _OBJECTS:
            value = self.places[_FLAT].pop(name, None)
            if value is not None:
                self.places[name] = dict(fields.as_object(value, where, name))

    def place(self, name: str) -> str:
        return self.where if name == _FLAT else f"{self.where}.{name}"

    def take(self, key: str, order: tuple[str, ...]) -> tuple[str, Any]:
        """Take a datum out of its places; return its place and value, None if it is nowhere. Two
        places must agree."""
        found, value = order[0], None
        for name in order:
            if name not in self.places or key not in self.places[name]:
                continue
            here = self.places[name].pop(key)
            if here is None:
                continue
            if value is not None and here != value:
                what = f"is {fields.show(here)}, but {found} says {fields.show(value)}"
                raise GraphError(f"{self.place(name)}.{key}", what)
            found, value = name, here
        return self.place(found), value

    def left_over(self, row: Operation) -> dict[str, Any]:
        """Return unknown keys in the form of the file. Refuses an unknown tensor."""
        for name, place in self.places.items():
            for key, value in place.items():
                if key.endswith(("_tensor_uid", "_tensor_uids")) and value not in (None, []):
                    known = ", ".join(port.key for port in (*row.inputs, *row.outputs))
                    what = f"is not a port of {row.type}, expected one of {known}"
                    raise GraphError(f"{self.place(name)}.{fields.show_key(key)}", what)
        objects = {name: self.places[name] for name in _OBJECTS if self.places.get(name)}
        return {**self.places[_FLAT], **objects}


def read_node(value: Any, where: str, graph_compute_type: str) -> Node:
    """Read one entry of ``nodes``; missing ports and parameters are left to the checks."""
    data = fields.as_object(value, where)
    name = data.get("type")
    if name is None:
        raise GraphError(f"{where}.type", "is missing")
    row = _TYPES.get(name.lower()) if isinstance(name, str) else None
    if row is None:
        raise fields.error(where, "type", name, f"a node type: {', '.join(OPERATIONS)}")
    scattered = _ScatteredNode(data, where)
    for key in ("type", "name", "compute_data_type"):
        scattered.places[_FLAT].pop(key, None)
    inputs, lists = _take_ports(scattered, row.inputs, _INPUT_PLACES)
    outputs, _ = _take_ports(scattered, row.outputs, _OUTPUT_PLACES)
    order = (row.place, *(place for place in _PARAMETER_PLACES if place != row.place))
    attributes = {}
    for parameter in row.parameters:
        place, given = scattered.take(parameter.name, order)
        if given is not None:
            attributes[parameter.name] = fields.as_parameter(parameter, given, place)
    stated = data.get("compute_data_type")
    kind = "unset" if stated is None else fields.as_type(stated, where, "compute_data_type")
    return Node(
        type=row.type,
        name="" if data.get("name") is None else fields.as_text(data["name"], where, "name"),
        compute_data_type=graph_compute_type if kind == "unset" else kind,
        inputs=inputs,
        outputs=outputs,
        attributes=row.complete(attributes),
        input_lists=lists,
        extras=scattered.left_over(row),
    )


def _take_ports(
    scattered: _ScatteredNode, ports: tuple[Port, ...], order: tuple[str, ...]
) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    single: dict[str, int] = {}
    lists: dict[str, tuple[int, ...]] = {}
    for port in ports:
        where, value = scattered.take(port.key, order)
        if value is None:
            continue
        if not (port.many or port.numbered):
            single[port.name] = fields.as_int(value, where, port.key)
            continue
        uids = fields.as_ints(value, where, port.key)
        if port.numbered:
            single.update((f"{port.name}_{index}", uid) for index, uid in enumerate(uids))
        elif uids:
            lists[port.name] = uids
    return single, lists


_TYPE_KEYS = {
    "io_data_type": "io_type",
    "intermediate_data_type": "intermediate_type",
    "compute_data_type": "compute_type",
}
"""Graph-wide default types: current key → the former one."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_graph(data: bytes, where: str) -> Graph:
    """Return the graph of a file, checked and in canonical form; `where` names the file in
    messages."""
    return read_graph_object(parse_json(data, where), where)


def read_graph_object(value: Any, where: str) -> Graph:
    """Return the graph from the file's JSON value."""
    data = dict(fields.as_object(value, where))
    for key in ("tensors", "nodes"):
        if key not in data:
            raise GraphError(where, f"is not an operation graph: it has no {key}")
    types: dict[str, str] = {}
    for key, former in _TYPE_KEYS.items():
        old, new = data.pop(former, None), data.pop(key, None)
        stated = old if new is None else new
        types[key] = "unset" if stated is None else fields.as_type(stated, f"{where}:", key)
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


def _read_tensor(value: Any, where: str, types: dict[str, str]) -> Tensor:
    data = dict(fields.as_object(value, where))
    for key in ("uid", "dims", "strides"):
        if data.get(key) is None:
            raise GraphError(f"{where}.{key}", "is missing")
    virtual = _take_bool(data, "virtual", where)
    stated = data.pop("data_type", None)
    data_type = "unset" if stated is None else fields.as_type(stated, where, "data_type")
    if data_type == "unset":
        default = "intermediate_data_type" if virtual else "io_data_type"
        data_type = types[default]
        if data_type == "unset":
            what = f"is not set, and neither is the graph's {default}"
            raise GraphError(f"{where}.data_type", what)
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


def parse_json(data: bytes, where: str) -> Any:
    """Return the JSON value of a file's bytes. Numbers that JSON does not have are named."""
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
        if "UTF-8" in error.msg:
            what = "is not text; a graph is a file in hipDNN's JSON"
        raise GraphError(where, what) from error


def _place_of_non_finite(data: bytes) -> str | None:
    """Return the place of the file's first NaN or infinity, if that is what is wrong with it."""
    try:
        return _find_non_finite(json.loads(data), "")
    except (ValueError, RecursionError):
        return None


def _find_non_finite(value: Any, place: str) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return place or "the value"
    items: Any = ()
    if isinstance(value, dict):
        start = f"{place}." if place else ""
        items = ((start + fields.show_key(key), item) for key, item in value.items())
    elif isinstance(value, list):
        items = ((f"{place}[{index}]", item) for index, item in enumerate(value))
    found = (_find_non_finite(item, inner) for inner, item in items)
    return next((where for where in found if where is not None), None)
