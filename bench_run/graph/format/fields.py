"""Values of a JSON file as typed values; what does not fit raises with its place.

Each converter takes the value, the place of the object it lies in, and its key.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError
from bench_run.graph.dtypes import ALIASES, DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_run.graph.operations import Parameter

_INT64 = range(-(2**63), 2**63)


def error(where: str, key: str, value: Any, expected: str) -> GraphError:
    """The error of one field: place, what is there, what was expected."""
    return GraphError(place(where, key), f"is {show(value)}, expected {expected}")


def show_key(key: str) -> str:
    """A key of the file as messages show it: always on one line."""
    return key if key.isprintable() else repr(key)


def place(where: str, key: str) -> str:
    """The place of a key; `where` ends in a colon for the keys of the file itself."""
    if not key:
        return where
    return f"{where} {key}" if where.endswith(":") else f"{where}.{key}"


def show(value: Any) -> str:
    """A value as a message shows it: as in the file, cut where it is long."""
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
    """Name of a data type in our spelling, or ``unset``."""
    name = as_text(value, where, key).lower()
    name = ALIASES.get(name, name)
    if name != "unset" and name not in DTYPES:
        raise error(where, key, value, f"a data type: {', '.join(DTYPES)}")
    return name


def as_choice(value: Any, choices: Sequence[str], where: str, key: str) -> str:
    """One of `choices`, whatever its case, or its number."""
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
