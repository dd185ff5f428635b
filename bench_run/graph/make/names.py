"""Op specs in the words of PyTorch, ONNX and MXNet, rewritten in ours (``names.toml``)."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench_run.graph.make.recipes.recipe import Recipe

NOTHING = ("bias", "use_bias", "ctx")
"""Keys that change nothing of what is measured, if the operation has no parameter of this name."""


@cache
def table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))


def plain(name: str) -> str:
    """Return the last part of a dotted name, without underscores, in small letters."""
    return name.rpartition(".")[2].replace("_", "").lower()


def ours(name: str, known: Mapping[str, Any]) -> str:
    """Return the name or spec for another framework's name; `known` ones stay.

    Raises `UsageError` for what cannot be measured alone, with the reason.
    """
    if name in known:
        return name
    short = plain(name)
    if short in table()["refused"]:
        raise UsageError(f"{name}: {table()['refused'][short]}")
    spelled = {plain(each): each for each in reversed(list(known))}
    found: str = spelled.get(short) or table()["names"].get(short, name)
    return found


def rewritten(text: str, ops: Mapping[str, Recipe], aliases: Mapping[str, str]) -> Iterator[str]:
    """Yield the spec in our words: one for each operation, as some bring parameters of their
    own."""
    head, _, rest = text.partition(":")
    if head.strip() in ("family", "all") or not head.strip():
        yield text
        return
    names, changed = {**aliases, **ops}, False
    specs = []
    for chain in head.split(","):
        parts, own = [], []
        for part in chain.split("+"):
            op, _, brought = ours(part.strip(), names).partition(":")
            changed |= op != part.strip()
            parts.append(op)
            own += brought.split()
        first = ops.get(aliases.get(parts[0], parts[0]))
        items = list(_items(rest, first)) if first is not None else rest.split()
        given = {item.partition("=")[0] for item in items}
        usual = [item for item in own if item.partition("=")[0] not in given]
        changed |= items != rest.split()
        specs.append(f"{'+'.join(parts)}: {' '.join((*usual, *items))}".removesuffix(": "))
    yield from specs if changed else (text,)


def _items(rest: str, first: Recipe) -> Iterator[str]:
    """Yield the items with our keys: a length for each axis becomes one item each."""
    rank = 3 if "spatial=3" in rest else 2
    for item in rest.split():
        key, equals, value = item.partition("=")
        known = first.by_key
        found = next(
            (
                row.split()
                for row in table()["keys"].get(key, ())
                if all(each in known for each in row.split())
            ),
            None,
        )
        if key in known and key == "layout":
            yield f"{key}={value.lower()}"
        elif key in known or found is None or not equals:
            if key in known or key not in NOTHING:
                yield item
        elif len(found) == 1:
            yield f"{found[0]}={value}"
        else:
            values = value.split("x")
            values = values * rank if len(values) == 1 else values
            if len(values) > len(found):
                raise UsageError(f"{key}={value}: expected at most {len(found)} lengths")
            yield from (
                f"{axis}={v}" for axis, v in zip(found[-len(values) :], values, strict=True)
            )
