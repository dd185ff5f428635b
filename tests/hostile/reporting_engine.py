"""An engine of a stranger that computes as it should and reports what it should not.

Registered for the tests through the entry-point group `bench_run.engines`. The id says what it
reports: ``reports:FIELD=VALUE``, a key of `FIELDS` and one of `VALUES`.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from bench_run.engines import numpy_engine
from bench_run.engines.base import (
    Availability,
    EngineAbilities,
    EngineSpec,
    ModuleAbilities,
)
from bench_run.errors import EngineError, UnsupportedGraphError

NAME = "reports"
SUMMARY = "reports what it should not; for tests"
INSTALL = "nothing to install"
ABILITIES = ModuleAbilities(preload=lambda _: True)


class Raises:
    """Whatever is asked of it, it raises."""

    def __getattribute__(self, name):
        raise ValueError(f"no {name} for you")

    def _raise(self, *_):
        raise ValueError("nothing for you")

    __str__ = __repr__ = __int__ = __index__ = __float__ = __eq__ = __hash__ = __len__ = _raise
    __iter__ = __bool__ = __lt__ = __gt__ = __reduce__ = __reduce_ex__ = __getitem__ = _raise


class Text(str):
    """A subclass that is no name of ours where it is unpickled."""

    __slots__ = ()

    def __str__(self):
        raise ValueError("no text for you")

    __repr__ = __format__ = __str__


class Number(int):
    """As above."""

    def __int__(self):
        raise ValueError("no number for you")

    __index__ = __repr__ = __str__ = __int__


class Endless(dict):
    """A mapping whose entries never end."""

    def items(self):
        number = 0
        while True:
            yield f"entry {number}", "x" * 1000
            number += 1

    __iter__ = keys = items


def deep(levels=100_000):
    value = "bottom"
    for _ in range(levels):
        value = {"deeper": value}
    return value


class Property:
    """In the place of a value: the property raises."""

    def __init__(self, error):
        self.error = error


VALUES = {
    "minus-one": -1,
    "one-and-a-half": 1.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "2**80": 2**80,
    "10**5000": 10**5000,
    "true": True,
    "seven": 7,
    "numpy": np.int64(7),
    "numpy-float": np.float32(7.5),
    "array": np.arange(3),
    "text": "some text",
    "surrogate": "caf\udce9",
    "nul": "a\0b\x1b[31m",
    "text-subclass": Text("a text"),
    "int-subclass": Number(7),
    "long": "x" * 10_000_000,
    "empty": "",
    "bytes": b"bytes",
    "none": None,
    "list": ["a", 1, None],
    "int-in-map": {"plan": 3, "math": "fp32"},
    "copies-in-map": {"buffer copies": "many"},
    "bytes-in-map": {"plan": b"3", b"math": "fp32"},
    "surrogate-in-map": {"pl\udce9n": "caf\udce9"},
    "nan-in-map": {"plan": float("nan")},
    "raises-in-map": {"plan": Raises()},
    "deep": deep(),
    "endless": Endless(),
    "object": object(),
    "raises": Raises(),
    "function": deep,
    "class": Raises,
    "property-raises": Property(ValueError("no property for you")),
    "property-raises-ours": Property(EngineError("no property for you")),
}


def give(value):
    if type(value) is Property:
        raise value.error
    return value


ENGINE_FIELDS = (
    "facts",
    *(
        f"facts.{name}"
        for name in (
            "id",
            "libraries",
            "device",
            "device_kind",
            "plugin_path",
            "plugin_sha256",
            "knobs",
            "device_index",
            "abilities",
        )
    ),
    "stream.clock",
    "stream.gate_depth",
    "abilities.devices",
)
PLAN_FIELDS = (
    "plan.facts",
    *(f"plan.facts.{name}" for name in ("chosen", "workspace_bytes", "buffer_bytes")),
    "witness",
    "witness()",
    "changed_inputs",
    "peak_bytes",
    "error",
    "detail",
    "unsupported",
)
FIELDS = (*ENGINE_FIELDS, *PLAN_FIELDS)


def odd(facts, name, value):
    """The facts, but for one field: it has this value, or the property of its name raises."""
    kind = type(facts)
    others = {each.name: getattr(facts, each.name) for each in fields(facts)}
    if type(value) is not Property:
        return kind(**{**others, name: value})
    made = type("Odd", (kind,), {name: property(lambda _: give(value))})
    found = made.__new__(made)
    found.__dict__.update(others)
    return found


class OddStream:
    """A stream but for one attribute."""

    def __init__(self, like, name, value):
        self._like, self._name, self._value = like, name, value

    def __getattr__(self, name):
        return give(self._value) if name == self._name else getattr(self._like, name)


def probe():
    return Availability(True, "always there")


def open(spec, options):  # noqa: A001 - the protocol's name
    field, _, value = (spec.id or "none=none").partition("=")
    inner = numpy_engine.open(EngineSpec("numpy", "numpy"), replace(options, replay=False))
    return Reporting(inner, field, VALUES[value])


class Reporting:
    def __init__(self, engine, field, value):
        self._engine, self._field, self._value = engine, field, value
        self.stream = engine.stream
        part, _, name = field.partition(".")
        if part == "stream":
            self.stream = OddStream(engine.stream, name, value)

    @property
    def facts(self):
        if self._field == "facts":
            return give(self._value)
        part, _, name = self._field.partition(".")
        return odd(self._engine.facts, name, self._value) if part == "facts" else self._engine.facts

    @property
    def abilities(self):
        if self._field == "abilities.devices":
            return EngineAbilities(devices=give(self._value))
        return EngineAbilities()

    def variants(self, graph):
        return self._engine.variants(graph)

    def build(self, graph, variant):
        if self._field == "unsupported":
            raise UnsupportedGraphError(give(self._value))
        return self._engine.build(graph, variant)

    def plan(self, built):
        return ReportingPlan(self._engine.plan(built), self._field, self._value)

    def peak_bytes(self):
        return give(self._value) if self._field == "peak_bytes" else None

    def close(self):
        self._engine.close()


class ReportingPlan:
    def __init__(self, plan, field, value):
        self._plan, self._field, self._value = plan, field, value
        self.upload, self.poison, self.close = plan.upload, plan.poison, plan.close
        self.download = plan.download

    @property
    def abilities(self):
        told = self._plan.abilities
        if self._field == "witness":
            return replace(told, witness=give(self._value))
        if self._field == "witness()":
            return replace(told, witness=lambda: give(self._value))
        if self._field == "changed_inputs":
            return replace(told, changed_inputs=lambda _: give(self._value))
        return told

    @property
    def facts(self):
        if self._field == "plan.facts":
            return give(self._value)
        part, _, name = self._field.rpartition(".")
        if part == "plan.facts":
            return odd(self._plan.facts, name, self._value)
        return self._plan.facts

    def run(self):
        if self._field == "error":
            raise EngineError(give(self._value))
        if self._field == "detail":
            raise EngineError("it failed", detail=give(self._value))
        self._plan.run()
