"""Knobs: what engines offer, and what they refuse."""

from __future__ import annotations

from .errors import bad, good
from .surface import classes

TYPES = {"INT64": int, "FLOAT64": float, "STRING": str}


class IntConstraint:
    def __init__(self, min_value, max_value, step=1, valid_values=()):
        self._min_value, self._max_value, self._step = min_value, max_value, step
        self._valid_values = list(valid_values)

    def _holds(self, value):
        inside = self._min_value <= value <= self._max_value
        listed = not self._valid_values or value in self._valid_values
        return inside and listed and (value - self._min_value) % self._step == 0


class FloatConstraint:
    def __init__(self, min_value, max_value):
        self._min_value, self._max_value = min_value, max_value

    def _holds(self, value):
        return self._min_value <= value <= self._max_value


class StringConstraint:
    def __init__(self, max_length, valid_values=()):
        self._max_length, self._valid_values = max_length, list(valid_values)

    def _holds(self, value):
        listed = not self._valid_values or value in self._valid_values
        return listed and len(value) <= self._max_length


class Knob:
    def __init__(self, knob_id, kind, default, rule, description=""):
        self._knob_id, self._kind, self._default_value = knob_id, kind, default
        self._description, self._is_deprecated, self._rule = description, False, rule

    @property
    def _value_type(self):
        return classes["KnobValueType"][self._kind]

    @property
    def _constraint(self):
        """None for a knob without limits, as in the bindings."""
        if self._rule is None:
            return None
        kind = classes[self._rule[0].__name__]
        return kind(*self._rule[1:])

    def validate(self, setting):
        return self._problem(setting._value) or good()

    def _problem(self, value):
        if type(value) is not TYPES[self._kind]:
            return bad("INVALID_VALUE", f"knob {self._knob_id}: wrong type")
        if self._rule is not None and not self._rule[0](*self._rule[1:])._holds(value):
            return bad("INVALID_VALUE", f"knob {self._knob_id}: its constraint is violated")
        return None


class KnobSetting:
    def __init__(self, knob_id, value):
        self._knob_id, self._value = knob_id, value


ROWS = (
    ("global.benchmarking", "INT64", 0, (IntConstraint, 0, 1), "search the fastest algorithm"),
    ("split.factor", "INT64", 2, (IntConstraint, 2, 16, 2)),
    ("mix", "FLOAT64", 0.5, (FloatConstraint, 0.0, 1.0)),
    ("layout", "STRING", "auto", (StringConstraint, 8, ("auto", "nhwc"))),
    ("tag", "STRING", "", None),
)


def offered():
    return [classes["Knob"](*row) for row in ROWS]


def problem(settings):
    """The bad `Error` of the first setting that breaks its knob; unknown knobs are only warned
    of."""
    knobs = {row[0]: Knob(*row) for row in ROWS}
    for setting in settings:
        knob = knobs.get(setting._knob_id)
        broken = None if knob is None else knob._problem(setting._value)
        if broken is not None:
            return broken
    return None
