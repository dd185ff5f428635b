"""Graph → hipDNN's JSON, in the form that its strict C++ reader expects (graphs/FORMAT.md, form A).

Every key that reader looks up is there: types, ``virtual`` and pass-by-value flags in full,
optional keys as null or left out, operation by operation (the rows of the operations table say).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from bench_run.graph.format.constants import default_value_type, write_constant
from bench_run.graph.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph, Node, Tensor
    from bench_run.graph.operations import Operation, Parameter, Port

_FORMAT = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE


def write_graph(graph: Graph) -> bytes:
    """The file: equal graphs give equal bytes."""
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
    parameters = _parameters(row, node.attributes)
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
            written[port.key] = [uid for name, uid in used.items() if _numbered(name, port)]
        elif port.many:
            written[port.key] = list(used.get(port.name, ()))
        elif port.name in used:
            written[port.key] = used[port.name]
        elif port.absent == "null":
            written[port.key] = None
    return written


def _numbered(name: str, port: Port) -> bool:
    return name.rpartition("_")[0] == port.name


def _parameters(row: Operation, attributes: Mapping[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for parameter in row.parameters:
        value = attributes.get(parameter.name, parameter.default)
        if parameter.absent == "omit" and value == parameter.default:
            continue
        written[parameter.name] = None if value is None else _value(parameter, value)
    return written


def _value(parameter: Parameter, value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if parameter.kind != "enum" or parameter.spelling == "lower":
        return value
    if parameter.spelling == "number":
        return parameter.choices.index(value)
    return value.upper()
