"""Finds what JSON cannot hold before it is written: orjson would put null in its place.

Walking over every value in Python takes eight times as long as writing them (1,000 cases of 5
rounds: 0.36 s beside 0.05 s). So a case is packed by msgspec first, in a form where numbers keep
their bits (0.02 s), and only if those of a NaN or an infinity show up in it (or bytes that happen
to look like them) is it walked over.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from bench_schema.document import Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench_schema.document import Real


Path: TypeAlias = tuple[str | int, ...]

NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]", re.DOTALL)
"""In MessagePack: a double with all bits of its exponent set."""


def non_finite(value: object) -> tuple[Path, str] | None:
    """Path and name of the first number that is not finite or array that is not of integers."""
    for path, part in _parts(value):
        if _suspicious(part):
            found = next(_offenders(part, path), None)
            if found is not None:
                return found
    return None


def _parts(value: object) -> Iterator[tuple[Path, object]]:
    """A document by its cases, so that one that is suspicious does not cost the others."""
    if not isinstance(value, Document):
        yield (), value
        return
    yield (), dataclasses.replace(value, cases=())
    for index, case in enumerate(value.cases):
        yield ("cases", index), case


def _suspicious(value: object) -> bool:
    try:
        return NOT_FINITE.search(PACKER.encode(value)) is not None
    except OverflowError:  # an integer beyond 64 bits: JSON will not take it either
        return False


def _pack(value: object) -> object:
    """What stands for values that msgspec leaves to us; arrays of integers need no search."""
    if isinstance(value, np.ndarray):
        return None if value.dtype.kind in "iu" else math.nan
    if isinstance(value, np.floating):
        return float(value)
    return dict(value) if isinstance(value, Mapping) else None


PACKER = msgspec.msgpack.Encoder(enc_hook=_pack)


def _offenders(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            yield path, f"number {float(value)}"
    elif isinstance(value, np.ndarray):
        if value.dtype.kind not in "iu":
            yield path, f"place for samples of type {value.dtype}"
    else:
        for name, item in _inside(value):
            yield from _offenders(item, (*path, name))


def _inside(value: Any) -> Iterable[tuple[str | int, Any]]:
    """What a value holds, by place or by name."""
    if isinstance(value, (tuple, list)):
        return enumerate(value)
    if isinstance(value, Mapping):
        return ((str(name), item) for name, item in value.items())
    if dataclasses.is_dataclass(value):
        return ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return ()


# Numbers that JSON cannot hold, by name: NaN and the infinities.

SPELLINGS: Mapping[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def spell(value: float) -> Real:
    """A number as a document holds it: NaN and the infinities by name."""
    value = float(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def unspell(value: Real) -> float:
    """The number that a document holds."""
    return SPELLINGS[value] if isinstance(value, str) else value
