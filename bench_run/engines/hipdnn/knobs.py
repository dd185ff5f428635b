"""Knobs: what an engine offers for a graph, and the user's settings in the types it wants."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.errors import foreign_errors
from bench_run.errors import EngineError, UnsupportedGraphError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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


def offered(native: Any, engine: int) -> tuple[Any, ...]:
    """hipDNN's `Knob` values of an engine for this graph."""
    with foreign_errors("Graph.get_knobs_for_engine"):
        return tuple(native.get_knobs_for_engine(engine))


def settings(
    library: Library, native: Any, engine: int, wanted: Mapping[str, str]
) -> tuple[list[Any], dict[str, str]]:
    """hipDNN's `KnobSetting` values for the wanted knobs, and what to record.

    hipDNN only warns of a knob that an engine does not have: here that refuses the graph.
    """
    if not wanted:
        return [], {}
    make = library.need("KnobSetting", "--knob")
    if not library.can.get_knobs_for_engine:
        raise EngineError(
            f"hipdnn: {library.version} has no Graph.get_knobs_for_engine, which --knob needs"
        )
    knobs = {knob.knob_id: knob for knob in offered(native, engine)}
    made = []
    for name, text in wanted.items():
        if name not in knobs:
            known = ", ".join(sorted(knobs)) or "none"
            raise UnsupportedGraphError(f"hipdnn: the engine has no knob {name!r}; it has {known}")
        with foreign_errors(f"KnobSetting {name}"):
            made.append(make(name, value_of(knobs[name], text)))
    return made, dict(wanted)


def value_of(knob: Any, text: str) -> Value:
    """The text in the knob's type, within its constraint."""
    kind = _type_name(knob)
    if kind not in TYPES:
        raise EngineError(f"hipdnn: knob {knob.knob_id}: values of type {kind} cannot be set")
    words, read = TYPES[kind]
    try:
        value = read(text)
    except ValueError:
        raise EngineError(f"hipdnn: --knob {knob.knob_id}={text}: expected {words}") from None
    problem = broken_constraint(knob.constraint, value)
    if problem is not None:
        raise EngineError(f"hipdnn: --knob {knob.knob_id}={text}: {problem}")
    return value


def broken_constraint(constraint: Any, value: Value) -> str | None:
    """What of a constraint a value breaks, in words. Bounds that are absent hold nothing."""
    valid = list(getattr(constraint, "valid_values", None) or ())
    if valid and value not in valid:
        return f"choose from {', '.join(map(str, valid))}"
    if isinstance(value, str):
        longest = getattr(constraint, "max_length", None)
        if longest and len(value) > longest:
            return f"at most {longest} characters"
        return None
    low, high = (getattr(constraint, name, None) for name in ("min_value", "max_value"))
    if (low is not None and value < low) or (high is not None and value > high):
        return f"expected {low} to {high}"
    step = getattr(constraint, "step", None)
    if step and step > 1 and isinstance(value, int) and (value - (low or 0)) % step:
        return f"expected steps of {step} from {low or 0}"
    return None


def descriptions(knobs: Iterable[Any]) -> dict[str, str]:
    """Type, default and limits of each knob in a few words, by its id."""
    return {str(knob.knob_id): _description(knob) for knob in knobs}


def _description(knob: Any) -> str:
    kind = _type_name(knob)
    parts = [TYPES[kind][0] if kind in TYPES else kind, f"default {knob.default_value}"]
    valid = list(getattr(knob.constraint, "valid_values", None) or ())
    low, high = (getattr(knob.constraint, name, None) for name in ("min_value", "max_value"))
    if valid:
        parts.append("one of " + " ".join(map(str, valid)))
    elif low is not None or high is not None:
        parts.append(f"{low} to {high}")
    if getattr(knob, "is_deprecated", False):
        parts.append("deprecated")
    return ", ".join(parts) + (f": {knob.description}" if knob.description else "")


def _type_name(knob: Any) -> str:
    return str(getattr(knob.value_type, "name", knob.value_type)).rpartition(".")[2]
