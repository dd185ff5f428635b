"""A state of the bindings as classes and functions, made of `surface.json` and of what implements
it: what the state lists is there, with the arguments it lists, and refused with other ones the way
nanobind refuses them; what it leaves out is absent."""

from __future__ import annotations

import enum
import functools
import json
import os
import types
from pathlib import Path

FILE = Path(__file__).with_name("surface.json")
namespace = {}
"""What the module has, by name."""
profile = os.environ.get("HIPDNN_DOUBLE_PROFILE", "newest")
PLAIN = {"str": str, "bytes": bytes, "float": (int, float), "bool": bool, "object": object}
PLAIN |= {"value": object, "list": (list, tuple), "pointer-like or None": object}
PLAIN |= {"Tensor or __dlpack__ producer": object, "dict[int | Tensor, pointer-like]": dict}


def read(state):
    """The surface of a state; of an older one its names alone, as if nothing took arguments."""
    data = json.loads(FILE.read_text())
    if state in data["older"]:
        return _bare(data["older"][state])
    changes = {} if state == "newest" else data["others"][state]
    whole = data["newest"] | changes
    return {name: found for name, found in whole.items() if found is not None}


def _bare(names):
    found = {}
    for name in names:
        owner, _, member = name.partition(".")
        place = found.setdefault(owner, {"calls": None})
        if member:
            place.pop("calls", None)
            place.setdefault("methods", {})[member] = {"calls": None}
    return found


def build(implementations):
    """Fills `namespace`."""
    for name, found in read(profile).items():
        if "alias" in found:
            namespace[name] = namespace[found["alias"]]
        elif "calls" in found:
            namespace[name] = _checked(name, found, implementations.get(name, _unwritten(name)))
        elif "enum" in found:
            values = {member: value for value, member in enumerate(found["enum"])}
            namespace[name] = enum.Enum(name, values)
        else:
            namespace[name] = _class(name, found, implementations.get(name))


def make(name, **fields):
    """An instance of a class that Python cannot construct, or of one with its fields set."""
    made = object.__new__(namespace[name])
    _set_defaults(made, made._fields)
    for field, value in fields.items():
        setattr(made, f"_{field}", value)
    return made


def _set_defaults(made, fields):
    for field, found in fields.items():
        default = found.get("default")
        setattr(made, f"_{field}", None if default is None else eval(default, dict(namespace)))


def _class(name, found, implementation):
    fields = found.get("fields", {})
    body = {"_fields": fields, "__module__": "hipdnn_frontend"}
    if implementation is not None:
        body |= {k: v for k, v in vars(implementation).items() if _is_private(k)}
    for member, way in found.get("methods", {}).items():
        function = getattr(implementation, member, None) or _generated(member)
        checked = _checked(member, way, function, method=not way.get("static"))
        body[member] = staticmethod(checked) if way.get("static") else checked
    for member, way in fields.items():
        body[member] = _field(member, settable=way["settable"])
    body["__init__"] = _constructor(name, found.get("new"), body.get("__init__"))
    return type(name, (), body)


def _is_private(name):
    """Whether a name of an implementation is its own, and none of the surface."""
    return name in ("__init__", "__del__", "__hash__") or (name[0] == "_" and name[1] != "_")


def _constructor(name, calls, function):
    def fill(self, *values):
        _set_defaults(self, self._fields)
        if function is not None:
            function(self, *values)
        elif values:
            for field, value in zip(self._fields, values, strict=True):
                setattr(self, f"_{field}", value)

    def refuse(self, *_, **__):
        raise TypeError(f"{name}: no constructor defined!")

    return refuse if calls is None else _checked("__init__", {"calls": calls}, fill, method=True)


def _field(name, *, settable):
    def write(self, value):
        setattr(self, f"_{name}", value)

    return property(lambda self: getattr(self, f"_{name}"), write if settable else None)


def _generated(member):
    """A setter that returns the object, its getter, or text; else what no test needs."""
    kind, _, what = member.partition("_")
    if member == "__repr__":
        return lambda self: f"<{type(self).__name__}>"
    if kind == "set":
        return lambda self, value: setattr(self, f"_value_{what}", value) or self
    if kind == "get":
        return lambda self: getattr(self, f"_value_{what}", None)
    return _unwritten(member)


def _unwritten(name):
    def refuse(*_, **__):
        raise NotImplementedError(f"{name}: the double makes graphs of JSON only")

    return refuse


def _checked(name, found, function, *, method=False):
    """The function behind nanobind's check of number, names and types of its arguments."""
    calls = found["calls"]
    if calls is None:
        return function

    @functools.wraps(function)
    def call(*words, **named):
        own, words = (words[:1], words[1:]) if method else ((), words)
        for one in calls:
            values = _bound(one, words, dict(named))
            if values is not None:
                return function(*own, *values)
        raise TypeError(f"{name}(): incompatible function arguments. The following are supported")

    return call


def _bound(call, words, named):
    """The values by position; None where they do not fit."""
    if len(words) > len(call):
        return None
    values = list(words)
    for name, _, *default in call[len(words) :]:
        if name is not None and name in named:
            values.append(named.pop(name))
        elif default:
            values.append(eval(default[0], dict(namespace)))
        else:
            return None
    fitting = all(fits(value, row[1]) for value, row in zip(values, call, strict=True))
    return values if fitting and not named else None


def fits(value, kind):
    if kind in PLAIN:
        return isinstance(value, PLAIN[kind])
    if kind == "dict[int, int]":
        return isinstance(value, dict) and all(
            fits(each, "int") for pair in value.items() for each in pair
        )
    if " | " in kind:
        return any(fits(value, part) for part in kind.split(" | "))
    if kind.startswith("list["):
        return isinstance(value, (list, tuple)) and all(fits(one, kind[5:-1]) for one in value)
    if kind == "None":
        return value is None
    if kind == "object with get() -> int":
        return isinstance(getattr(value, "get", None), types.MethodType)
    if kind == "int":
        return hasattr(value, "__index__") and not isinstance(value, bool)
    return isinstance(value, namespace[kind])
