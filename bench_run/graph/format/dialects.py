"""One node of a file as a `Node`, wherever the file's dialect put its data.

Three dialects are in use (graphs/FORMAT.md, Nodes): uids in ``inputs``/``outputs``, flat on the
node, or in ``attributes``; parameters in ``parameters``, ``attributes``, ``inputs`` or flat. Each
datum is looked for in all of these places, and what is left over is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError
from bench_run.graph.format import fields
from bench_run.graph.model import Node
from bench_run.graph.operations import OPERATIONS

if TYPE_CHECKING:
    from bench_run.graph.operations import Operation, Port

_FLAT = "flat"
_OBJECTS = ("inputs", "outputs", "parameters", "attributes")
_INPUT_PLACES = ("inputs", _FLAT, "attributes", "parameters")
_OUTPUT_PLACES = ("outputs", _FLAT, "attributes", "parameters")
_PARAMETER_PLACES = ("parameters", "attributes", _FLAT, "inputs")
_TYPES = {name.lower(): row for name, row in OPERATIONS.items()}


class _Scattered:
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
        """Place and value of a datum, null where it is nowhere. Two places must agree."""
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
        """Unknown keys, as they lay in the file. An unknown tensor is refused."""
        for name, place in self.places.items():
            for key, value in place.items():
                if key.endswith(("_tensor_uid", "_tensor_uids")) and value not in (None, []):
                    known = ", ".join(port.key for port in (*row.inputs, *row.outputs))
                    what = f"is not a port of {row.type}, expected one of {known}"
                    raise GraphError(f"{self.place(name)}.{fields.show_key(key)}", what)
        objects = {name: self.places[name] for name in _OBJECTS if self.places.get(name)}
        return {**self.places[_FLAT], **objects}


def read_node(value: Any, where: str, graph_compute_type: str) -> Node:
    """One entry of ``nodes``; ports and parameters that are missing are left to the checks."""
    data = fields.as_object(value, where)
    row = _operation(data, where)
    scattered = _Scattered(data, where)
    for key in ("type", "name", "compute_data_type"):
        scattered.places[_FLAT].pop(key, None)
    inputs, lists = _take_ports(scattered, row.inputs, _INPUT_PLACES)
    outputs, _ = _take_ports(scattered, row.outputs, _OUTPUT_PLACES)
    attributes = _take_parameters(scattered, row)
    return Node(
        type=row.type,
        name="" if data.get("name") is None else fields.as_text(data["name"], where, "name"),
        compute_data_type=_compute_type(data, where, graph_compute_type),
        inputs=inputs,
        outputs=outputs,
        attributes=row.complete(attributes),
        input_lists=lists,
        extras=scattered.left_over(row),
    )


def _operation(data: dict[str, Any], where: str) -> Operation:
    name = data.get("type")
    if name is None:
        raise GraphError(f"{where}.type", "is missing")
    row = _TYPES.get(name.lower()) if isinstance(name, str) else None
    if row is None:
        raise fields.error(where, "type", name, f"a node type: {', '.join(OPERATIONS)}")
    return row


def _compute_type(data: dict[str, Any], where: str, graph_compute_type: str) -> str:
    value = data.get("compute_data_type")
    name = "unset" if value is None else fields.as_type(value, where, "compute_data_type")
    return graph_compute_type if name == "unset" else name


def _take_ports(
    scattered: _Scattered, ports: tuple[Port, ...], order: tuple[str, ...]
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


def _take_parameters(scattered: _Scattered, row: Operation) -> dict[str, Any]:
    order = (row.place, *(place for place in _PARAMETER_PLACES if place != row.place))
    attributes = {}
    for parameter in row.parameters:
        where, value = scattered.take(parameter.name, order)
        if value is not None:
            attributes[parameter.name] = fields.as_parameter(parameter, value, where)
    return attributes
