"""Knobs: what an engine offers for a graph, and the user's settings in the types it wants."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.abilities import field
from bench_run.errors import EngineError, UnsupportedGraphError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.engines.hipdnn.loading import Library

Value = int | float | str


def _whole(text: str) -> int:
    return int(text, 0)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


TYPES: dict[str, tuple[str, Callable[[str], Value]]] = {
    "INT64": ("a whole number", _whole),
    "FLOAT64": ("a finite number", _real),
    "STRING": ("a text", str),
}
"""By the name of hipDNN's `KnobValueType`: the type in words, and how its text is read."""


BY_TYPE: dict[type, str] = {int: "INT64", float: "FLOAT64", str: "STRING"}
"""A knob's type by its default, for releases that do not bind `KnobValueType`."""
OFFERS = "Graph.get_knobs_for_engine"


def offered(library: Library, native: Any, engine: int) -> dict[str, Any]:
    """hipDNN's `Knob` values of an engine for this graph, by their id."""
    if not library.can.has(OFFERS):
        return {}
    with library.calling(OFFERS):
        knobs = tuple(native.get_knobs_for_engine(engine))
    found = {field(knob, "knob_id"): knob for knob in knobs}
    if None in found:
        raise EngineError(f"hipdnn: {library.version} has no Knob.knob_id, which --knob needs")
    return found


def settings(
    library: Library, native: Any, engine: int, wanted: Mapping[str, str]
) -> tuple[list[Any], dict[str, str]]:
    """hipDNN's `KnobSetting` values for the wanted knobs, and what to record.

    hipDNN only warns of a knob that an engine does not have: here that refuses the graph.
    """
    if not wanted:
        return [], {}
    make = library.need("KnobSetting", "--knob")
    if not library.can.has(OFFERS):
        raise EngineError(f"hipdnn: {library.version} has no {OFFERS}, which --knob needs")
    knobs = offered(library, native, engine)
    made = []
    for name, text in wanted.items():
        if name not in knobs:
            known = ", ".join(sorted(knobs)) or "none"
            raise UnsupportedGraphError(f"hipdnn: the engine has no knob {name!r}; it has {known}")
        value = value_of(name, knobs[name], text)
        with library.calling(f"KnobSetting {name}"):
            made.append(make(name, value))
    return made, dict(wanted)


def value_of(name: str, knob: Any, text: str) -> Value:
    """The text in the knob's type, within its constraint."""
    kind = _type_name(knob)
    if kind not in TYPES:
        raise EngineError(
            f"hipdnn: knob {name}: its type is {kind}: Knob.value_type and Knob.default_value tell "
            "no other, so it cannot be set"
        )
    words, read = TYPES[kind]
    try:
        value = read(text)
    except ValueError:
        raise EngineError(f"hipdnn: --knob {name}={text}: expected {words}") from None
    problem = broken_constraint(field(knob, "constraint"), value)
    if problem is not None:
        raise EngineError(f"hipdnn: --knob {name}={text}: {problem}")
    return value


def broken_constraint(constraint: Any, value: Value) -> str | None:
    """What of a constraint a value breaks, in words. Bounds that are absent hold nothing."""
    valid = list(field(constraint, "valid_values") or ())
    if valid and value not in valid:
        return f"choose from {', '.join(map(str, valid))}"
    if isinstance(value, str):
        longest = field(constraint, "max_length")
        if longest and len(value) > longest:
            return f"at most {longest} characters"
        return None
    low, high = (field(constraint, name) for name in ("min_value", "max_value"))
    if (low is not None and value < low) or (high is not None and value > high):
        return f"expected {low} to {high}"
    step = field(constraint, "step")
    if step and step > 1 and isinstance(value, int) and (value - (low or 0)) % step:
        return f"expected steps of {step} from {low or 0}"
    return None


def descriptions(knobs: Mapping[str, Any]) -> dict[str, str]:
    """Type, default and limits of each knob in a few words, by its id."""
    return {name: _description(knob) for name, knob in knobs.items()}


def _description(knob: Any) -> str:
    kind, constraint = _type_name(knob), field(knob, "constraint")
    parts = [TYPES[kind][0] if kind in TYPES else kind]
    parts.append(f"default {field(knob, 'default_value', 'unknown')}")
    valid = list(field(constraint, "valid_values") or ())
    low, high = (field(constraint, name) for name in ("min_value", "max_value"))
    if valid:
        parts.append("one of " + " ".join(map(str, valid)))
    elif low is not None or high is not None:
        parts.append(f"{low} to {high}")
    if field(knob, "is_deprecated", False):
        parts.append("deprecated")
    words = field(knob, "description", "")
    return ", ".join(parts) + (f": {words}" if words else "")


def _type_name(knob: Any) -> str:
    """``INT64``, ``FLOAT64``, ``STRING``: as hipDNN says it, else by the type of the default."""
    told = field(knob, "value_type")
    if told is None:
        return BY_TYPE.get(type(field(knob, "default_value")), "unknown")
    return str(field(told, "name", told)).rpartition(".")[2]


MOST_VALUES = 64
"""Values of a range that are listed; a knob with more has no list."""


def all_values(knobs: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Every value that a knob takes, by its id; knobs that are deprecated or that take anything are
    left out."""
    current = {name: k for name, k in knobs.items() if not field(k, "is_deprecated", False)}
    values = {name: _values(field(knob, "constraint")) for name, knob in current.items()}
    return {name: found for name, found in values.items() if found}


def _values(constraint: Any) -> tuple[str, ...]:
    valid = list(field(constraint, "valid_values") or ())
    if valid:
        return tuple(map(str, valid))
    low, high = (field(constraint, name) for name in ("min_value", "max_value"))
    if not isinstance(low, int) or not isinstance(high, int):
        return ()
    span = range(low, high + 1, max(1, int(field(constraint, "step") or 1)))
    return tuple(map(str, span)) if len(span) <= MOST_VALUES else ()
