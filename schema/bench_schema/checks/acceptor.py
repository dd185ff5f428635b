"""Compiles definitions of a JSON Schema into msgspec types that accept at C speed.

An acceptor only ever says yes: what it accepts is valid by the schema, for what it refuses the
ordinary validator has the word (and the sentence). 10,000 cases of 1,000 samples are validated in
0.25 s, by jsonschema in 85 s (`tests/benchmarks/json_speed.py`). Keywords that it does not know
stop the compilation, so that a new one in a schema can never be skipped silently.

Three forms. For trees of Python values (`accepts`) an array of durations is a list of integers,
checked in one step. For text (`decoder`) it is left unparsed by the JSON parser and becomes a
NumPy array directly, which takes half of the time and a fifth of the memory of Python integers.
In the third (`outline`) the arrays in fields of some names stay text for whoever wants them.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union

import msgspec
import numpy as np
import numpy.typing as npt

from bench_schema.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence


# Texts of JSON arrays of integers → NumPy, many at a time: a call for each would cost more.
#
# Left as text by the JSON parser and given to NumPy's own parser together: a validated document of
# 10,000 cases of 1,000 samples takes 1.4 s of processor time, through lists of Python integers
# 2.1 s (2026-11-23, two processors, which others used too); nothing validated, msgspec alone takes
# 1.3 s.

Ints: TypeAlias = npt.NDArray[np.int64]

OPEN = ord("[")
LEAST = 64
"""Bytes of text from which on it is not asked whether all of it is white space."""
MOST = 1 << 18
"""Bytes of text that are turned into one block of memory: they stay in the cache meanwhile."""


class Arrays:
    """Texts on their way to arrays; all share their limits. Each text is known to be JSON."""

    def __init__(self, low: int, high: int) -> None:
        self.limits = low, high
        self.clear()

    def clear(self) -> None:
        self.homes: list[tuple[dict[str, Any], str]] = []
        self.texts: list[memoryview] = []
        self.size = 0

    def add(self, home: dict[str, Any], name: str) -> None:
        """Take the text at ``home[name]``; the array comes into its place, at once or later."""
        text = memoryview(home[name])
        if text[0] != OPEN:
            raise ValueError("expected an array")
        self.homes.append((home, name))
        self.texts.append(text[1:-1])
        self.size += len(text)
        if self.size > MOST:
            self.flush()

    def flush(self) -> None:
        """Put all arrays in the place of their texts."""
        homes, texts = self.homes, self.texts
        self.clear()
        for (home, name), found in zip(homes, parse_arrays(texts, *self.limits), strict=True):
            home[name] = found


def parse_arrays(insides: Sequence[memoryview], low: int, high: int) -> list[Ints]:
    """The numbers of each array; raises ValueError unless they are integers within the limits."""
    if any(map(_is_blank, insides)):
        full = iter(parse_arrays([one for one in insides if not _is_blank(one)], low, high))
        return [np.empty(0, np.int64) if _is_blank(one) else next(full) for one in insides]
    # Between two arrays stands a number that none may hold, and behind the last one as well: what
    # is no integer ends the parsing early, and some of these are not reached.
    border = low - 1
    joined = b",%d," % border
    values = np.fromstring(joined.join([*insides, b"0"]), dtype=np.int64, sep=",")
    values.flags.writeable = False
    # One unsigned comparison sees both limits, and numbers that do not fit 64 bits as well.
    ends = np.flatnonzero((values - low).view(np.uint64) > high - low)
    if len(ends) != len(insides) or not (values[ends] == border).all():
        raise ValueError(f"expected integers from {low} to {high}")
    starts = [0, *(ends + 1).tolist()]
    return [values[start:stop] for start, stop in zip(starts, ends.tolist(), strict=False)]


def _is_blank(inside: memoryview) -> bool:
    return len(inside) < LEAST and not bytes(inside).strip()


Schema: TypeAlias = Mapping[str, Any]
Bounds: TypeAlias = tuple[int, int]

VERSIONS = Path(__file__).parents[1] / "versions"
PARSING = threading.Lock()
"""Texts of arrays are collected outside of the values that are being built."""

ANNOTATIONS = frozenset({"$schema", "$defs", "title", "description"})
LIMITS = {
    "minimum": "ge",
    "maximum": "le",
    "pattern": "pattern",
    "minLength": "min_length",
    "minItems": "min_length",
}
SCALARS = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
MOST_INTEGER = (1 << 63) - 1
"""Of either sign, so that a smaller one that was rounded to a double is still beyond. JSON Schema
knows no limit; `check_integers` has the sentence."""
KEYWORDS = {
    "string": {"pattern", "minLength"},
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "boolean": set[str](),
    "null": set[str](),
    "array": {"items", "minItems"},
    "object": {"properties", "required", "additionalProperties", "propertyNames"},
}


@functools.cache
def load_schema(version: int) -> dict[str, Any]:
    """The JSON Schema of one version of the document."""
    schema: dict[str, Any] = json.loads((VERSIONS / f"v{version}.json").read_bytes())
    return schema


def accepts(version: int, name: str, value: object) -> bool:
    """Whether a tree of plain values is surely valid by ``#/$defs/name`` (``""``: the root)."""
    try:
        msgspec.convert(value, _compiler(version, False).named(name))
    except (msgspec.ValidationError, OverflowError, RecursionError):
        return False
    return True


OUT_OF_RANGE = re.compile(r"Expected `int` [<>]= -?\d+ - at `\$\.?(.*)`")


def check_integers(tree: object, version: int, where: str, name: str = "") -> None:
    """Refuse integers beyond 64 bits in a tree that is valid by ``#/$defs/name`` otherwise."""
    try:
        msgspec.convert(tree, _compiler(version, False).named(name))
    except msgspec.ValidationError as error:
        found = OUT_OF_RANGE.match(str(error))
        if found is not None:
            raise SchemaError(f"{where}: {found[1]}", "the number is too large") from None


@functools.cache
def decoder(version: int, name: str) -> Callable[[bytes], Any]:
    """Parses text that is surely valid by ``#/$defs/name``, else raises msgspec.MsgspecError.

    The value has the fields of the definition as attributes, durations as int64 arrays.
    """
    compiler = _compiler(version, True)
    decode = msgspec.json.Decoder(compiler.named(name)).decode
    kinds = compiler.arrays.values()

    def parse(text: bytes) -> Any:
        with PARSING:
            try:
                value = decode(text)
                for arrays in kinds:
                    arrays.flush()
            except (ValueError, RecursionError) as error:
                raise msgspec.ValidationError(str(error)) from None
            finally:
                for arrays in kinds:
                    arrays.clear()
            return value

    return parse


@functools.cache
def outline(version: int, name: str, left: frozenset[str]) -> Any:
    """The type of ``#/$defs/name`` in which arrays of integers in fields of these names are left as
    text, unread; all else is surely valid."""
    return Outliner(load_schema(version), left).named(name)


def limits(version: int, name: str) -> dict[str, Bounds]:
    """Names and limits of the arrays of integers that ``#/$defs/name`` holds."""
    found = _compiler(version, False).durations({"$ref": f"#/$defs/{name}"})
    assert found is not None, "an object of arrays"
    return found


@functools.cache
def _compiler(version: int, text: bool) -> Compiler:
    return Compiler(load_schema(version), text)


class Compiler:
    """Types of one schema; each definition is compiled once, when it is first needed."""

    def __init__(self, schema: Schema, text: bool) -> None:
        self.definitions: dict[str, Schema] = {"": schema, **schema.get("$defs", {})}
        self.text = text
        self.types: dict[str, Any] = {}
        self.arrays: dict[Bounds, Arrays] = {}

    def named(self, name: str) -> Any:
        if name not in self.types:
            self.types[name] = self.compile(self.definitions[name])
        return self.types[name]

    def resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self.definitions[_definition(schema["$ref"])]
        return schema

    def compile(self, schema: Schema) -> Any:
        """The type whose values are all valid by the schema."""
        keywords = schema.keys() - ANNOTATIONS
        if keywords == {"$ref"}:
            return self.named(_definition(schema["$ref"]))
        if keywords == {"anyOf"}:
            return Union[tuple(self.compile(choice) for choice in schema["anyOf"])]  # noqa: UP007
        if keywords == {"const"}:
            return Literal[schema["const"]]
        if keywords == {"enum"}:
            return Literal[tuple(schema["enum"])]
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        known = {"type"}.union(*(KEYWORDS[kind] for kind in kinds))
        if not keywords <= known:
            raise ValueError(f"no acceptor for the keywords {sorted(keywords - known)}")
        return Union[tuple(self.kind(kind, schema) for kind in kinds)]  # noqa: UP007

    def kind(self, kind: str, schema: Schema) -> Any:
        if kind == "object":
            return self.mapping(schema) if "required" not in schema else self.structure(schema)
        base: Any = list[self.compile(schema["items"])] if kind == "array" else SCALARS[kind]  # type: ignore[misc]
        limits = {
            LIMITS[key]: schema[key] for key in KEYWORDS[kind] & schema.keys() & LIMITS.keys()
        }
        if kind == "integer":
            limits = {"ge": -MOST_INTEGER, "le": MOST_INTEGER} | limits
        return Annotated[base, msgspec.Meta(**limits)] if limits else base

    def mapping(self, schema: Schema) -> Any:
        bounds = self.durations(schema)
        if self.text and bounds is not None:
            return dict[Literal[tuple(bounds)], msgspec.Raw]  # type: ignore[misc]
        if "properties" in schema:
            return self.structure(schema)
        names = self.compile(schema.get("propertyNames", {"type": "string"}))
        return dict[names, self.compile(schema["additionalProperties"])]  # type: ignore[misc,valid-type]

    def structure(self, schema: Schema) -> Any:
        """An object with known fields and no others."""
        if schema["additionalProperties"] is not False:
            raise ValueError("no acceptor for an object with known and unknown fields")
        required = schema.get("required", [])
        fields = []
        for name, value in schema["properties"].items():
            kind = self.field(name, value)
            fields.append((name, kind) if name in required else (name, *_optional(kind, value)))
        raw = {
            name: {
                key: self.arrays.setdefault(limits, Arrays(*limits))
                for key, limits in bounds.items()
            }
            for name, value in schema["properties"].items()
            if (bounds := self.durations(value)) is not None
        }
        namespace = {"__post_init__": _array_reader(raw)} if self.text and raw else None
        return msgspec.defstruct(
            "Accepted",
            fields,
            kw_only=True,
            forbid_unknown_fields=True,
            gc=False,
            namespace=namespace,
        )

    def field(self, name: str, schema: Schema) -> Any:  # noqa: ARG002 - outlines look at the name
        """The type of a field of an object."""
        return self.compile(schema)

    def durations(self, schema: Schema) -> dict[str, Bounds] | None:
        """Names and limits of an object that holds arrays of integers only, else None."""
        schema = self.resolve(schema)
        if schema.get("type") != "object" or "required" in schema:
            return None
        if "properties" in schema:
            arrays = {
                name: _bounds(self.resolve(value)) for name, value in schema["properties"].items()
            }
        elif "propertyNames" in schema:
            names = self.resolve(schema["propertyNames"])["enum"]
            arrays = dict.fromkeys(names, _bounds(self.resolve(schema["additionalProperties"])))
        else:
            return None
        known = {name: bounds for name, bounds in arrays.items() if bounds is not None}
        return known if len(known) == len(arrays) else None


class Outliner(Compiler):
    """Leaves the arrays in fields of some names as text."""

    def __init__(self, schema: Schema, left: frozenset[str]) -> None:
        super().__init__(schema, text=False)
        self.left = left

    def field(self, name: str, schema: Schema) -> Any:
        bounds = self.durations(schema) if name in self.left else None
        if bounds is None:
            return super().field(name, schema)
        return dict[Literal[tuple(bounds)], msgspec.Raw]  # type: ignore[misc]


def _optional(kind: Any, schema: Schema) -> tuple[Any, Any]:
    """Type and default of a field that may be left out; what may be null is null then."""
    if "null" in schema.get("type", ()):
        return kind, None
    return kind | msgspec.UnsetType, msgspec.UNSET


def _definition(reference: str) -> str:
    return reference.removeprefix("#").removeprefix("/$defs/")


def _bounds(schema: Schema) -> Bounds | None:
    """Limits of an array of bounded integers."""
    items = schema.get("items", {})
    if schema.get("type") != "array" or not {"minimum", "maximum"} <= items.keys():
        return None
    return items["minimum"], items["maximum"]


def _array_reader(fields: Mapping[str, Mapping[str, Arrays]]) -> Callable[[Any], None]:
    def read(self: Any) -> None:
        for field, arrays in fields.items():
            home = getattr(self, field)
            for name in home:
                arrays[name].add(home, name)

    return read
