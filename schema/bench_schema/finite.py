"""Finds what JSON cannot hold before it is written: orjson would put null in its place."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, get_args, get_type_hints

import numpy as np

Path: TypeAlias = tuple[str | int, ...]

PLAIN = frozenset({str, int, bool, type(None)})
"""Kinds of values that are always fine."""


def non_finite(value: object) -> tuple[Path, str] | None:
    """Path and name of the first number that is NaN or infinite, or array that is not of integers.

    None when there is none, which is found without walking over fields that hold only text.
    """
    return None if _looks_fine(value) else next(_offenders(value, ()), None)


def _looks_fine(value: object) -> bool:
    """False when something is wrong, or when finite numbers of the wrong sizes look like it."""
    stack: list[Any] = [value]
    total = 0.0
    while stack:
        item = stack.pop()
        fields = _watched(item.__class__)
        for child in _elements(item) if fields is None else fields(item):
            kind = type(child)
            if kind is float:
                total += child * 0.0  # stays zero as long as all are finite
            elif kind is np.ndarray:
                if child.dtype.kind not in "iu":
                    return False
            elif isinstance(child, np.floating):
                total += float(child) * 0.0
            elif kind not in PLAIN:
                stack.append(child)
    return total == 0.0


def _elements(value: Any) -> Any:
    return value.values() if isinstance(value, Mapping) else value


@functools.cache
def _watched(kind: type) -> Callable[[Any], list[Any]] | None:
    """Gives the fields of a dataclass that may hold numbers or arrays; None for other kinds."""
    if not dataclasses.is_dataclass(kind):
        return None
    names = [name for name, hint in get_type_hints(kind).items() if _holds_numbers(hint)]
    return lambda value: [getattr(value, name) for name in names]


@functools.cache
def _holds_numbers(hint: Any) -> bool:
    if dataclasses.is_dataclass(hint):
        return any(_holds_numbers(inner) for inner in get_type_hints(hint).values())
    origin = getattr(hint, "__origin__", hint)
    return hint is float or origin is np.ndarray or any(map(_holds_numbers, get_args(hint)))


def _offenders(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            yield path, f"number {float(value)}"
    elif isinstance(value, np.ndarray):
        if value.dtype.kind not in "iu":
            yield path, f"place for samples of type {value.dtype}"
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _offenders(item, (*path, index))
    elif isinstance(value, Mapping) or dataclasses.is_dataclass(value):
        for name, item in (value if isinstance(value, Mapping) else vars(value)).items():
            yield from _offenders(item, (*path, str(name)))
