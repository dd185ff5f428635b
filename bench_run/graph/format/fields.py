"""Values of a JSON file as typed values; what does not fit raises with its place.

Each converter takes the value, the place of the object it lies in, and its key.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError
from bench_run.graph.dtypes import ALIASES, DTYPES, array_type
from bench_run.graph.format import fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_run.graph.model import Graph
    from bench_run.graph.operations import Parameter


_INT64 = range(-(2**63), 2**63)


def error(where: str, key: str, value: Any, expected: str) -> GraphError:
    """Return the error of one field: place, what is there, what was expected."""
    return GraphError(place(where, key), f"is {show(value)}, expected {expected}")


def show_key(key: str) -> str:
    """Return a key of the file as messages show it: always on one line."""
    return key if key.isprintable() else repr(key)


def place(where: str, key: str) -> str:
    """Return the place of a key; `where` ends in a colon for the keys of the file itself."""
    if not key:
        return where
    return f"{where} {key}" if where.endswith(":") else f"{where}.{key}"


def show(value: Any) -> str:
    """Return a value as a message shows it: as in the file, cut if it is long."""
    words = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
    text = words or ("null" if value is None else repr(value))
    return text if len(text) <= 60 else f"{text[:57]}…"


def as_object(value: Any, where: str, key: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise error(where, key, value, "an object")
    return value


def as_list(value: Any, where: str, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise error(where, key, value, "a list")
    return value


def as_text(value: Any, where: str, key: str) -> str:
    if not isinstance(value, str):
        raise error(where, key, value, "a text")
    return value


def as_bool(value: Any, where: str, key: str) -> bool:
    if not isinstance(value, bool):
        raise error(where, key, value, "true or false")
    return value


def as_int(value: Any, where: str, key: str) -> int:
    if type(value) is not int or value not in _INT64:
        raise error(where, key, value, "an integer of 64 bits")
    return value


def as_ints(value: Any, where: str, key: str) -> tuple[int, ...]:
    if type(value) is not list:
        raise error(where, key, value, "a list of integers")
    for index, item in enumerate(value):
        if type(item) is not int or item not in _INT64:
            raise error(where, f"{key}[{index}]", item, "an integer of 64 bits")
    return tuple(value)


def as_float(value: Any, where: str, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise error(where, key, value, "a finite number")
    return float(value)


def as_bytes(value: Any, where: str, key: str) -> tuple[int, ...]:
    values = as_ints(value, where, key)
    if any(not 0 <= item <= 255 for item in values):
        raise error(where, key, value, "a list of integers from 0 to 255")
    return values


def as_type(value: Any, where: str, key: str) -> str:
    """Return the name of a data type in our spelling, or ``unset``."""
    name = as_text(value, where, key).lower()
    name = ALIASES.get(name, name)
    if name != "unset" and name not in DTYPES:
        raise error(where, key, value, f"a data type: {', '.join(DTYPES)}")
    return name


def as_choice(value: Any, choices: Sequence[str], where: str, key: str) -> str:
    """Return one of `choices`, whatever its case, or its number."""
    if type(value) is int and 0 <= value < len(choices):
        return choices[value]
    if isinstance(value, str) and value.lower() in choices:
        return value.lower()
    raise error(where, key, value, f"one of {', '.join(choices)}")


_CONVERTERS: dict[str, Callable[[Any, str, str], Any]] = {
    "int": as_int,
    "ints": as_ints,
    "float": as_float,
    "bool": as_bool,
    "text": as_text,
    "type": as_type,
    "bytes": as_bytes,
}


def as_parameter(parameter: Parameter, value: Any, where: str) -> Any:
    if parameter.kind == "enum":
        return as_choice(value, parameter.choices, where, parameter.name)
    return _CONVERTERS[parameter.kind](value, where, parameter.name)


VALUE_TYPES = {
    "Float64Value": "float",
    "Float32Value": "float",
    "Float16Value": "float",
    "BFloat16Value": "float",
    "Float8Value": "code",
    "Int32Value": "int",
    "Int64Value": "int",
    "BoolValue": "bool",
}
"""Spelling in the file → what the ``value`` is; a code is the raw byte of an 8-bit float."""

_BY_LOWER = {name.lower(): name for name in VALUE_TYPES}

_DEFAULTS = {
    "double": "Float64Value",
    "float": "Float32Value",
    "half": "Float16Value",
    "bfloat16": "BFloat16Value",
    "fp8_e4m3": "Float8Value",
    "fp8_e5m2": "Float8Value",
    "fp8_e4m3_fnuz": "Float8Value",
    "fp8_e5m2_fnuz": "Float8Value",
    "fp8_e8m0": "Float8Value",
    "int8": "Int32Value",
    "uint8": "Int32Value",
    "int32": "Int32Value",
    "int64": "Int64Value",
    "boolean": "BoolValue",
}

Constant = float | int | bool


def default_value_type(data_type: str) -> str:
    """Return the value type to write for a constant of this type, unless its file has another."""
    return _DEFAULTS.get(data_type, "Float32Value")


def read_constant(
    value: Any, value_type: Any, data_type: str, where: str
) -> tuple[Constant | None, str | None]:
    """Return the constant, and its value type where that is not the default of the data type."""
    kind = None if value_type is None else fields.as_text(value_type, where, "value_type").lower()
    if kind in (None, "none") and value is None:
        return None, None
    if kind is None:
        kind = default_value_type(data_type).lower()
    if kind not in _BY_LOWER:
        known = ", ".join((*VALUE_TYPES, "NONE"))
        raise fields.error(where, "value_type", value_type, f"one of {known}")
    if value is None:
        raise GraphError(f"{where}.value", f"is missing: value_type is {value_type}")
    name = _BY_LOWER[kind]
    constant = _decode(value, VALUE_TYPES[name], data_type, where)
    return constant, None if name == default_value_type(data_type) else name


def _decode(value: Any, kind: str, data_type: str, where: str) -> Constant:
    if kind == "bool":
        known = isinstance(value, bool) or (type(value) is int and value in (0, 1))
        if not known:
            raise fields.error(where, "value", value, "true or false")
        return bool(value)
    if kind == "int":
        return fields.as_int(value, where, "value")
    if kind == "code":
        import numpy as np

        if default_value_type(data_type) != "Float8Value":
            raise fields.error(
                where, "data_type", data_type, "an 8-bit float, as value_type is one"
            )
        (code,) = fields.as_bytes([value], where, "value")
        number = float(np.uint8(code).view(array_type(data_type)))
        if not np.isfinite(number):
            raise fields.error(where, "value", value, "the code of a finite number")
        return number
    return fields.as_float(value, where, "value")


def write_constant(value: Constant, value_type: str, data_type: str) -> Constant:
    """Return the ``value`` as `value_type` wants it in the file."""
    if VALUE_TYPES[value_type] != "code":
        return value
    import numpy as np

    return int(np.asarray(value, array_type(data_type)).view(np.uint8))


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
    places: list[tuple[str, Mapping[str, Any]]] = [("", graph.extras)]
    places += [(f"tensors[{i}].", tensor.extras) for i, tensor in enumerate(graph.tensors)]
    places += [(f"nodes[{i}].", node.extras) for i, node in enumerate(graph.nodes)]
    unknown = (
        f"{key} is not known and has no effect"
        for place, extras in places
        for key in _unknown(extras, place)
    )
    used = {*graph.produced, *graph.consumed, *(t.ragged_offset_uid for t in graph.tensors)}
    unconnected = (
        f"tensors[{index}] (uid {tensor.uid} {tensor.name!r}) is used by no node"
        for index, tensor in enumerate(graph.tensors)
        if tensor.uid not in used
    )
    return (
        *_first(unknown, "keys are not known and have no effect"),
        *_first(unconnected, "tensors are used by no node"),
    )


def _first(notes: Iterator[str], rest: str) -> Iterator[str]:
    yield from islice(notes, _MOST)
    more = sum(1 for _ in notes)
    if more:
        yield f"{more:,} more {rest}"


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
