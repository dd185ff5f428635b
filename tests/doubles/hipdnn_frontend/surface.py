"""A release's surface: its stub (`releases/*.stub`) as classes and functions, nothing else.

What the stub lists is there, with the arguments it lists, and refused with other ones the way
nanobind refuses them; what it leaves out is absent. `HIPDNN_DOUBLE_WITHOUT` removes more:
``Graph.get_plan_name,HipEvent``.
"""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import os
from pathlib import Path

RELEASES = Path(__file__).parent / "releases"
PLAIN = {
    "int": int,
    "str": str,
    "bytes": bytes,
    "list": (list, tuple),
    "dict": dict,
    "float": float,
}
BINDING_ERRORS = {"TypeError": TypeError, "RuntimeError": RuntimeError}
behaviour = {}
classes = {}


def without():
    return set(filter(None, os.environ.get("HIPDNN_DOUBLE_WITHOUT", "").split(",")))


def parse(release):
    return ast.parse((RELEASES / f"{release}.stub").read_text())


def literal(tree, name):
    """The value that the stub assigns to a name."""
    return next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == name
    )


def members(release):
    """Every member as a dotted name, classes and functions of the module included."""
    found = []
    for node in parse(release).body:
        if isinstance(node, ast.FunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef):
            found.append(node.name)
            found += [f"{node.name}.{name}" for name in _names(node) if name != "__init__"]
    return found


def _names(node):
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            yield item.name
        elif isinstance(item, ast.AnnAssign):
            yield item.target.id
        elif isinstance(item, ast.Assign):
            yield item.targets[0].id


def build(release, implementations):
    """Names of the module: classes made of `implementations` and checked functions."""
    tree, absent = parse(release), without()
    behaviour.update(literal(tree, "BEHAVIOUR"))
    raises, found = literal(tree, "RAISES"), {}
    for node in tree.body:
        name = getattr(node, "name", None)
        if isinstance(node, ast.ClassDef):
            classes[name] = _class(node, implementations.get(name), raises, absent)
            found[name] = classes[name]
        elif isinstance(node, ast.FunctionDef):
            found[name] = _checked(node, implementations[name], name)
    return {name: value for name, value in found.items() if name not in absent}


def _class(node, implementation, raises, absent):
    kept = {name for name in _names(node) if f"{node.name}.{name}" not in absent}
    if any(getattr(base, "id", "") == "Enum" for base in node.bases):
        return _enum(node, kept)
    body = {k: v for k, v in vars(implementation).items() if k.startswith("_")}
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and item.target.id in kept:
            whole = f"{node.name}.{item.target.id}"
            body[item.target.id] = _field(item.target.id, raises.get(whole))
        elif isinstance(item, ast.FunctionDef) and item.name in kept | {"__init__"}:
            body[item.name] = _checked(item, getattr(implementation, item.name), item.name)
    return type(node.name, (), body)


def _enum(node, kept):
    values = {i.targets[0].id: ast.literal_eval(i.value) for i in node.body}
    return enum.Enum(node.name, {name: value for name, value in values.items() if name in kept})


def _field(name, refusal):
    """A bound field; the implementation keeps its value under the name with an underscore."""

    def read(self):
        if refusal is not None:
            kind, _, words = refusal.partition(": ")
            raise BINDING_ERRORS[kind](words)
        return getattr(self, f"_{name}")

    return property(read, lambda self, value: setattr(self, f"_{name}", value))


def _checked(node, function, name):
    """The function behind nanobind's check of number, names and types of its arguments."""
    arguments = node.args.args
    optional = len(node.args.defaults)
    parameters = [
        inspect.Parameter(
            a.arg,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if i < len(arguments) - optional else ...,
        )
        for i, a in enumerate(arguments)
    ]
    signature = inspect.Signature(parameters)
    kinds = {a.arg: ast.unparse(a.annotation) for a in arguments if a.annotation is not None}

    @functools.wraps(function)
    def call(*words, **named):
        try:
            bound = signature.bind(*words, **named)
        except TypeError:
            raise _incompatible(name) from None
        for key, value in bound.arguments.items():
            if key in kinds and not _fits(value, kinds[key]):
                raise _incompatible(name)
        return function(*bound.args, **bound.kwargs)

    return call


def _incompatible(name):
    return TypeError(f"{name}(): incompatible function arguments")


def _fits(value, kind):
    for part in (part.strip() for part in kind.split("|")):
        if part == "object" or (part == "None" and value is None):
            return True
        if part == "None":
            continue
        wanted = PLAIN.get(part) or classes.get(part)
        strict = part in ("int", "bytes", "str")
        if type(value) is wanted if strict else isinstance(value, wanted):
            return True
    return False
