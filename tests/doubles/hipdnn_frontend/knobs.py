"""Knobs of the newest release."""

from __future__ import annotations

import enum

KnobValueType = enum.Enum("KnobValueType", "NOT_SET INT64 FLOAT64 STRING")
TYPES = {"INT64": int, "FLOAT64": float, "STRING": str}


class IntConstraint:
    def __init__(self, min_value, max_value, step=1, valid_values=()):
        self.min_value, self.max_value, self.step = min_value, max_value, step
        self.valid_values = list(valid_values)


class FloatConstraint:
    def __init__(self, min_value, max_value):
        self.min_value, self.max_value = min_value, max_value


class StringConstraint:
    def __init__(self, max_length, valid_values=()):
        self.max_length, self.valid_values = max_length, list(valid_values)


class Knob:
    def __init__(self, knob_id, kind, default, constraint, description=""):
        self.knob_id, self.description, self.is_deprecated = knob_id, description, False
        self.value_type, self.default_value = KnobValueType[kind], default
        self.constraint = constraint

    def validate(self, value):
        return type(value) is TYPES[self.value_type.name]


class KnobSetting:
    def __init__(self, knob_id, value):
        if type(knob_id) is not str or type(value) not in (int, float, str):
            raise TypeError("KnobSetting(): incompatible function arguments")
        self.knob_id, self.value = knob_id, value


KNOBS = (
    Knob("global.benchmarking", "INT64", 0, IntConstraint(0, 1), "search the fastest algorithm"),
    Knob("split.factor", "INT64", 2, IntConstraint(2, 16, 2)),
    Knob("mix", "FLOAT64", 0.5, FloatConstraint(0.0, 1.0)),
    Knob("layout", "STRING", "auto", StringConstraint(8, ("auto", "nhwc"))),
)
