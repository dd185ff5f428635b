"""Tables of tuning knobs as files: TOML, or lines of a type, an id and parameters.

TOML has an axis of ``--space`` a line::

    dtype = ["float", "half"]
    approx = ["perf:1/2:row:0", "samp:1/4:1"]

The lines are those of HPVM's table of knobs; a column of names may follow, which changes nothing::

    fp16,12
    perf,21 2,1,1,0
    samp,31 1,1,2,0 1.88 tensorHalfConvolution tensorConvApproxHalf

Parameters are the step of the rows, the step of the columns, the step of the filter's elements and
the first that is left out.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPES = {"fp64": "double", "fp32": "float", "fp16": "half", "bf16": "bfloat16", "int8": "int8"}
"""Words of a table for data types."""
_LINE = re.compile(r"([a-z]+[0-9]*),(\d+)(?:\s+(\d+(?:,\d+)*))?(?:\s.*)?")


class KnobError(ValueError):
    """A table that cannot be read; the message has the line."""


@dataclass(frozen=True)
class Knob:
    """One way to run an operation."""

    type: str
    """``fp16``, ``perf``, ``samp``."""
    id: int
    variant: Mapping[str, str]
    """Axes of ``--space``, each with one value."""


def read_knobs(text: str) -> tuple[Knob, ...]:
    """Return the knobs of a table of lines. Raises `KnobError`."""
    knobs: list[Knob] = []
    for number, line in enumerate(text.splitlines(), start=1):
        plain = line.split("#")[0].strip()
        if not plain:
            continue
        found = _LINE.fullmatch(plain)
        if found is None:
            raise KnobError(
                f"line {number}: {plain!r}: expected TYPE,ID PARAMETERS, as in samp,31 1,1,2,0"
            )
        kind, knob, parameters = found[1], int(found[2]), found[3] or ""
        if any(each.id == knob for each in knobs):
            raise KnobError(f"line {number}: id {knob} is there twice")
        knobs.append(Knob(kind, knob, _variant(kind, parameters, number)))
    return tuple(knobs)


def _variant(kind: str, parameters: str, number: int) -> Mapping[str, str]:
    if kind in TYPES:
        return {"dtype": TYPES[kind]}
    if kind not in ("perf", "samp"):
        known = ", ".join((*TYPES, "perf", "samp"))
        raise KnobError(f"line {number}: no type {kind!r}; there are {known}")
    numbers = [int(each) for each in parameters.split(",")] if parameters else []
    if len(numbers) != 4:
        raise KnobError(f"line {number}: {kind} has 4 parameters: rows, columns, elements, offset")
    rows, columns, elements, offset = numbers
    steps = {"row": rows, "col": columns} if kind == "perf" else {"": elements}
    used = {axis: step for axis, step in steps.items() if step > 1}
    if len(used) != 1 or (kind == "perf") != (elements == 1):
        raise KnobError(f"line {number}: {kind} {parameters}: expected one step above 1")
    ((axis, step),) = used.items()
    words = [kind, f"1/{step}", *([axis] if axis else []), str(offset)]
    return {"approx": ":".join(words)}


def read_space(text: str, name: str) -> tuple[str, ...]:
    """Return the axes of a file as ``--space`` spells them. Raises `KnobError`."""
    if not name.endswith(".toml"):
        axes: dict[str, list[str]] = {}
        for knob in read_knobs(text):
            for axis, value in knob.variant.items():
                axes.setdefault(axis, ["none"] if axis == "approx" else []).append(value)
        return tuple(f"{axis}={','.join(dict.fromkeys(values))}" for axis, values in axes.items())
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise KnobError(str(error)) from error
    found = []
    for axis, given in table.items():
        values = given if isinstance(given, list) else [given]
        if not values or not all(isinstance(value, str) for value in values):
            raise KnobError(f"{axis}: expected a text or a list of texts")
        found.append(f"{axis}={','.join(values)}")
    return tuple(found)
