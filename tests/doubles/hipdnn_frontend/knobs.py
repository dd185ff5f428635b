"""Knobs: what an engine offers, and what it refuses.

A knob is a row of the plugin: ``["split.factor", "INT64", 2, {"min_value": 2, "max_value": 16,
"step": 2}, "in words"]``. Listed values overrule bounds and length.
"""

from __future__ import annotations

from .errors import bad, good
from .surface import make, namespace

KINDS = {
    "INT64": (int, "IntConstraint"),
    "FLOAT64": (float, "FloatConstraint"),
    "STRING": (str, "StringConstraint"),
}


class Knob:
    def validate(self, setting):
        return problem(self, setting._value) or good()


class KnobSetting:
    def __eq__(self, other):
        return (self._knob_id, self._value) == (other._knob_id, other._value)

    def __hash__(self):
        return hash((self._knob_id, self._value))

    def __repr__(self):
        return f"KnobSetting({self._knob_id!r}, {self._value!r})"


def offered(engine):
    """The knobs of an engine by their id."""
    return {row[0]: _knob(*row) for row in engine.knobs}


def _knob(knob_id, kind, default, limits=None, description="", deprecated=False):
    limits = limits and {k: set(v) if isinstance(v, list) else v for k, v in limits.items()}
    return make(
        "Knob",
        knob_id=knob_id,
        description=description,
        is_deprecated=deprecated,
        value_type=namespace["KnobValueType"][kind],
        default_value=default,
        constraint=limits and make(KINDS[kind][1], **limits),
    )


def problem(knob, value):
    """The bad `Error` for a value; None where it is legal."""
    if type(value) is not KINDS[knob._value_type.name][0]:
        return bad("INVALID_VALUE", f"knob {knob._knob_id}: wrong type")
    if knob._constraint is None or _holds(vars(knob._constraint), value):
        return None
    return bad("INVALID_VALUE", f"knob {knob._knob_id}: {value!r} violates its constraint")


def _holds(limits, value):
    listed = limits.get("_valid_values")
    if listed:
        return value in listed
    if isinstance(value, str):
        return len(value) <= limits["_max_length"]
    low, high = limits["_min_value"], limits["_max_value"]
    if isinstance(value, float):
        return low <= value <= high
    return low <= value <= high and (value - low) % (limits["_step"] or 1) == 0


def settings_problem(engine, settings):
    """The bad `Error` of the first setting that breaks its knob; unknown knobs are only warned
    of."""
    knobs = offered(engine)
    for name, value in settings.items():
        broken = None if name not in knobs else problem(knobs[name], value)
        if broken is not None:
            return broken
    return None


def unknown(engine, settings):
    return next((name for name in settings if name not in offered(engine)), None)
