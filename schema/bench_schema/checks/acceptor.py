"""Compiles definitions of a JSON Schema into msgspec types that accept at C speed.

An acceptor only accepts: what it accepts is valid by the schema, and jsonschema checks again what
it refuses and writes the sentence. Unknown keywords stop the compilation, so that a new one in a
schema can never be skipped silently.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, Union

import msgspec

from bench_schema.errors import SchemaError

Schema: TypeAlias = Mapping[str, Any]

VERSIONS = Path(__file__).parents[1] / "versions"

BUILDING = threading.Lock()
"""One thread at a time lets msgspec work types out: a second one would use what the first has not
finished, which ends the process (signal 11)."""
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
"""Largest integer of either sign. A larger one may have been rounded to a double. JSON Schema
does not limit them; `check_integers` writes the sentence."""
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
    """Load the JSON Schema of one version of the document."""
    schema: dict[str, Any] = json.loads((VERSIONS / f"v{version}.json").read_bytes())
    return schema


def accepts(version: int, name: str, value: object) -> bool:
    """Return True if a tree of plain values is certainly valid by ``#/$defs/name`` (``""``: the
    root)."""
    try:
        with BUILDING:
            msgspec.convert(value, _compiler(version).named(name))
    except (msgspec.ValidationError, OverflowError, RecursionError):
        return False
    return True


OUT_OF_RANGE = re.compile(r"Expected `int` [<>]= -?\d+ - at `\$\.?(.*)`")


def check_integers(tree: object, version: int, where: str, name: str = "") -> None:
    """Refuse integers beyond 64 bits in a tree that is valid by ``#/$defs/name`` otherwise."""
    try:
        with BUILDING:
            msgspec.convert(tree, _compiler(version).named(name))
    except msgspec.ValidationError as error:
        found = OUT_OF_RANGE.match(str(error))
        if found is not None:
            raise SchemaError(f"{where}: {found[1]}", "the number is too large") from None


def decoder(version: int, name: str, raw: str = "") -> Callable[[bytes], Any]:
    """Return a parser of text that is certainly valid by ``#/$defs/name``; for other text it raises
    `msgspec.MsgspecError`.

    The value has the fields of the definition as attributes. The items of the field `raw` stay text
    (`msgspec.Raw`), unchecked.
    """
    with BUILDING:
        return _decoder(version, name, raw)


@functools.cache
def _decoder(version: int, name: str, raw: str) -> Callable[[bytes], Any]:
    compiler = Compiler(load_schema(version), raw) if raw else _compiler(version)
    decode = msgspec.json.Decoder(compiler.named(name)).decode

    def parse(text: bytes) -> Any:
        try:
            return decode(text)
        except (ValueError, RecursionError) as error:
            raise msgspec.ValidationError(str(error)) from None

    return parse


@functools.cache
def _compiler(version: int) -> Compiler:
    return Compiler(load_schema(version))


class Compiler:
    """Types of one schema; each definition is compiled once, when it is first needed."""

    def __init__(self, schema: Schema, raw: str = "") -> None:
        self.definitions: dict[str, Schema] = {"": schema, **schema.get("$defs", {})}
        self.raw = raw
        self.types: dict[str, Any] = {}

    def named(self, name: str) -> Any:
        if name not in self.types:
            self.types[name] = self.compile(self.definitions[name])
        return self.types[name]

    def compile(self, schema: Schema) -> Any:
        """Return the type whose values are all valid by the schema."""
        keywords = schema.keys() - ANNOTATIONS
        if keywords == {"$ref"}:
            return self.named(schema["$ref"].removeprefix("#").removeprefix("/$defs/"))
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
            return self.structure(schema) if "properties" in schema else self.mapping(schema)
        base: Any = list[self.compile(schema["items"])] if kind == "array" else SCALARS[kind]  # type: ignore[misc]
        limits = {
            LIMITS[key]: schema[key] for key in KEYWORDS[kind] & schema.keys() & LIMITS.keys()
        }
        if kind == "integer":
            limits = {"ge": -MOST_INTEGER, "le": MOST_INTEGER} | limits
        return Annotated[base, msgspec.Meta(**limits)] if limits else base

    def mapping(self, schema: Schema) -> Any:
        names = self.compile(schema.get("propertyNames", {"type": "string"}))
        return dict[names, self.compile(schema["additionalProperties"])]  # type: ignore[misc,valid-type]

    def structure(self, schema: Schema) -> Any:
        """Return the type of an object with known fields and no others."""
        if schema["additionalProperties"] is not False:
            raise ValueError("no acceptor for an object with known and unknown fields")
        kinds = {
            name: list[msgspec.Raw] if name == self.raw else self.compile(value)
            for name, value in schema["properties"].items()
        }
        required = schema.get("required", [])
        fields = [
            (name, kind)
            if name in required
            else (name, *_optional(kind, schema["properties"][name]))
            for name, kind in kinds.items()
        ]
        return msgspec.defstruct(
            "Accepted", fields, kw_only=True, forbid_unknown_fields=True, gc=False
        )


def _optional(kind: Any, schema: Schema) -> tuple[Any, Any]:
    """Return the type and the default of a field that may be left out; null is the default if it is
    allowed."""
    if "null" in schema.get("type", ()):
        return kind, None
    return kind | msgspec.UnsetType, msgspec.UNSET
