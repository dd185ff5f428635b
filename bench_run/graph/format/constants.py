"""Compile-time constants: a tensor's ``value`` and its type. See graphs/FORMAT.md, Tensors."""

from __future__ import annotations

from typing import Any

from bench_run.errors import GraphError
from bench_run.graph.dtypes import array_type
from bench_run.graph.format import fields

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
    """What is written for a constant of this type unless its file said something else."""
    return _DEFAULTS.get(data_type, "Float32Value")


def read_constant(
    value: Any, value_type: Any, data_type: str, where: str
) -> tuple[Constant | None, str | None]:
    """The constant, and its value type where that is not the default of the data type."""
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
        return _from_code(value, data_type, where)
    return fields.as_float(value, where, "value")


def _from_code(value: Any, data_type: str, where: str) -> float:
    import numpy as np

    if default_value_type(data_type) != "Float8Value":
        raise fields.error(where, "data_type", data_type, "an 8-bit float, as value_type is one")
    (code,) = fields.as_bytes([value], where, "value")
    number = float(np.uint8(code).view(array_type(data_type)))
    if not np.isfinite(number):
        raise fields.error(where, "value", value, "the code of a finite number")
    return number


def write_constant(value: Constant, value_type: str, data_type: str) -> Constant:
    """The ``value`` as `value_type` wants it in the file."""
    if VALUE_TYPES[value_type] != "code":
        return value
    import numpy as np

    return int(np.asarray(value, array_type(data_type)).view(np.uint8))
