"""The parameters of an op spec: one row each, with how its text is read and how a name shows it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bench_run.errors import UsageError
from bench_run.graph.dtypes import ALIASES, DTYPES

DIGITS = 18
"""Digits of whole numbers that always fit in 64 bits."""
MOST_GRAPHS = 10_000
"""Combinations that one spec may ask for."""
_RANGE = re.compile(r"(\d{1,9})\.\.(\d{1,9})(?:([*+])(\d{1,9}))?")
Kind = Literal["int", "ints", "dims", "float", "flag", "choice", "dtype"]
Params = Mapping[str, Any]
"""Parameter key → value, None if nothing was said and the operation has no default."""


@dataclass(frozen=True)
class SpecParameter:
    key: str
    default: Any
    help: str
    kind: Kind = "int"
    code: str | None = None
    """Form in the name: one letter joins the shape (``n32c128``), a longer code is separate
    (``_slope0.01``), the empty one shows the bare value; None never shows it."""
    choices: tuple[str, ...] = ()
    least: int = 1
    """Smallest value of the kinds ``int`` and ``ints``."""
    shape: bool = True
    """True if giving it replaces the default shapes."""
    always: bool = False
    """True if a name shows it even at its default."""
    follows: str | None = None
    """Key of the parameter it equals when not given; a name shows it only where they differ."""


def parse_value(parameter: SpecParameter, text: str, where: str) -> Any:
    """Return the value of one item of a spec. Raises `UsageError` that names the key and the
    choices."""
    value = _PARSERS[parameter.kind](parameter, text)
    if value is None:
        what = expected(parameter)
        what += f", of at most {DIGITS} digits" if re.search(rf"\d{{{DIGITS + 1}}}", text) else ""
        raise UsageError(f"{where}: {parameter.key}={text!r}: expected {what}")
    return value


def written_out(text: str, where: str) -> Iterator[str]:
    """Yield the values of an item: those between commas, ranges written out."""
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            yield part
            continue
        first, last, step = int(match[1]), int(match[2]), int(match[4] or 1)
        geometric = match[3] == "*"
        if first > last or (geometric and (step < 2 or first < 1)) or step < 1:
            ways = "A..B, A..B+STEP, A..B*FACTOR"
            raise UsageError(f"{where}={match[0]}: a range is ascending: {ways}")
        if not geometric and (last - first) // step >= MOST_GRAPHS:
            raise UsageError(f"{where}={match[0]}: more than {MOST_GRAPHS} values")
        while first <= last:
            yield str(first)
            first = first * step if geometric else first + step


def expected(parameter: SpecParameter) -> str:
    """Return the values that a parameter takes, in words."""
    if parameter.kind == "choice":
        return "one of " + ", ".join(parameter.choices)
    if parameter.kind == "dtype":
        return "one of " + ", ".join(parameter.choices or DTYPES)
    whole = f"a whole number from {parameter.least}"
    words = {
        "int": whole,
        "ints": f"{whole}, or one for each axis (3x3)",
        "dims": "lengths joined by x (64x128)",
        "flag": "0 or 1",
    }
    return words.get(parameter.kind, "a finite number")


def show_value(value: Any, kind: Kind) -> str:
    """Return a value as names and specs spell it: ``3``, ``1x2``, ``0.01``, ``half``."""
    if isinstance(value, tuple):
        once = kind == "ints" and len(set(value)) == 1
        return str(value[0]) if once else "x".join(str(item) for item in value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e6 else repr(value)
    return str(int(value)) if isinstance(value, bool) else str(value)


def _whole(parameter: SpecParameter, text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > DIGITS:
        return None
    return int(text) if int(text) >= parameter.least else None


def _ints(parameter: SpecParameter, text: str) -> tuple[int, ...] | None:
    items = [_whole(parameter, part) for part in text.split("x")]
    found = tuple(item for item in items if item is not None)
    return found if len(found) == len(items) else None


def real(_: SpecParameter, text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def flag(_: SpecParameter, text: str) -> bool | None:
    return {"1": True, "0": False, "true": True, "false": False}.get(text)


def choice(parameter: SpecParameter, text: str) -> str | None:
    return text if text in parameter.choices else None


def dtype(parameter: SpecParameter, text: str) -> str | None:
    name = ALIASES.get(text, text)
    return name if name in (parameter.choices or DTYPES) else None


_PARSERS: dict[Kind, Callable[[SpecParameter, str], Any]] = {
    "int": _whole,
    "ints": _ints,
    "dims": _ints,
    "float": real,
    "flag": flag,
    "choice": choice,
    "dtype": dtype,
}
