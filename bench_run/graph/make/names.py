"""Op specs in the words of PyTorch, ONNX and MXNet, rewritten in ours (``names.toml``).

A row says which operation a call of a framework is, and what each of its keys is called here. What
the rows do not say is refused: a borrowed name means what its framework means, or nothing.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.usage import nearest

from bench_run.errors import UsageError
from bench_run.graph.make.parameters import MOST_GRAPHS, written_out

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench_run.graph.make.recipes.recipe import Recipe

    Items = tuple[tuple[str, str], ...]

FRAMEWORKS = {"torch": "PyTorch", "onnx": "ONNX", "mxnet": "MXNet"}
SPACES = {
    **dict.fromkeys(("torch", "nn", "f", "nn.functional", "torch.nn"), "torch"),
    **dict.fromkeys(("torch.nn.functional", "torch.linalg"), "torch"),
    "onnx": "onnx",
    **dict.fromkeys(("mx", "nd", "mx.nd", "mx.sym", "mx.random", "mx.nd.random"), "mxnet"),
    **dict.fromkeys(("nd.random", "gluon.nn", "gluon.rnn", "gluon.loss"), "mxnet"),
    **dict.fromkeys(("mx.gluon.nn", "mx.gluon.rnn", "mx.gluon.loss", "gluon"), "mxnet"),
    "gluon.nn.gluon": "mxnet",  # nn.gluon.Conv2D, as opperf's users write it
}
"""Parts in front of a name → the framework."""
_KEY = re.compile(r"(?P<theirs>\w+)(?P<needed>!?)(?P<how>>|=|~)(?P<ours>\S*)\Z")
_TRUTH = {"true": "1", "false": "0"}


@dataclass(frozen=True)
class Key:
    """A key of a framework's call."""

    theirs: str
    ours: str
    """Our key; several joined by commas are one length for each axis, by a semicolon the lengths
    before and after. Of ``only``: the one value."""
    how: str
    """``>`` renames, ``=`` takes one value only, ``~`` changes no value of the result."""
    needed: bool
    """True if the call has no default, or one that cannot be said here."""


@dataclass(frozen=True)
class Name:
    """A call of a framework."""

    framework: str
    spelled: str
    """Name with the framework's usual first part: ``nn.Conv2d``."""
    ours: str
    """Op spec that the call means by its defaults."""
    keys: Mapping[str, Key] = field(default_factory=dict)
    cases: Mapping[tuple[str, str], Name] = field(default_factory=dict)
    """Key and value → what the call means with it."""

    @property
    def last(self) -> str:
        return self.spelled.rpartition(".")[2]


@cache
def table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))


@cache
def names() -> tuple[Name, ...]:
    """Return every borrowed name, the frameworks in order."""
    found = []
    for framework in FRAMEWORKS:
        rows = dict(table()[framework])
        for each in rows.pop("same", "").split():
            spelled, _, own = each.partition("=")
            found.append(Name(framework, spelled, own or spelled.rpartition(".")[2]))
        found += [_name(framework, spelled, row) for spelled, row in rows.items()]
    return tuple(found)


def _name(framework: str, spelled: str, row: str | dict[str, Any]) -> Name:
    said: dict[str, Any] = {"ours": row} if isinstance(row, str) else row
    ours, _, keys = str(said["ours"]).partition(" | ")
    groups = table()["keys"]
    words = [w for each in keys.split() for w in groups.get(each, each).split()]
    matches = [match for match in map(_KEY.match, words) if match]
    if len(matches) != len(words):
        raise ValueError(f"names.toml: {spelled}: {keys}")
    known = {m["theirs"]: Key(m["theirs"], m["ours"], m["how"], bool(m["needed"])) for m in matches}
    cases = {}
    for when, other in said.get("with", {}).items():
        key, _, value = when.partition("=")
        text = other if " | " in other or not keys else f"{other} | {keys}"
        case = _name(framework, spelled, {"ours": text})
        cases[key, value] = Name(
            framework,
            spelled,
            case.ours,
            {**case.keys, key: Key(key, value, "=", needed=False)},
        )
    return Name(framework, spelled, ours.strip(), known, cases)


def plain(name: str) -> str:
    """Return the last part of a dotted name, without underscores, in small letters."""
    return name.rpartition(".")[2].replace("_", "").lower()


def called(name: str) -> tuple[Name, ...]:
    """Return the calls that a name may mean, those spelled the same alone if there are any. Raises
    `UsageError` for what is refused, and for an unknown name of a known framework."""
    space, _, last = name.rpartition(".")
    framework = SPACES.get(space.lower())
    if space and framework is None:
        known = "torch., nn., F., onnx., mx.nd., gluon.nn., gluon.rnn., gluon.loss."
        raise UsageError(f"{name}: no names of {space!r} here; known: {known}")
    mine = [row for row in names() if framework in (None, row.framework)]
    tail = "f" if space.endswith("functional") else space.lower().rpartition(".")[2]
    spelled = [row for row in mine if row.last == last] or [
        row for row in mine if plain(row.last) == plain(last)
    ]
    near = [row for row in spelled if tail and row.spelled.lower().split(".")[-2:-1] == [tail]]
    refused = table()["refused"]
    if name in refused or not spelled:
        for key in (name, f"{framework}.{plain(last)}", plain(last)):
            if key in refused:
                raise UsageError(f"{name}: {refused[key]}")
    if space and not spelled:
        known = nearest(last, [row.last for row in mine], "bench-run help operators")
        raise UsageError(f"{name}: not one of {FRAMEWORKS[framework or '']}'s names here{known}")
    return tuple(near or spelled)


def ours(name: str, known: Mapping[str, Any], home: str | None = None) -> str:
    """Return our name for another framework's name; `known` ones stay. Calls of the framework
    `home` come first where several have the name.

    Raises `UsageError` for what cannot be measured alone, with the reason.
    """
    if name in known:
        return name
    found = called(name)
    if found:
        return next((row for row in found if row.framework == home), found[0]).ours
    return {plain(each): each for each in reversed(list(known))}.get(plain(name), name)


def rewritten(
    text: str, ops: Mapping[str, Recipe], aliases: Mapping[str, str], home: str | None = None
) -> Iterator[str]:
    """Yield the spec in our words: one for each operation, as some bring parameters of their
    own."""
    head, _, rest = text.partition(":")
    if head.strip() in ("family", "all") or not head.strip():
        yield text
        return
    known = {**aliases, **{name: name for name in ops}}
    parts = [item.partition("=") for item in rest.split()]
    items = tuple((key, value) for key, _, value in parts)
    if all(equals for _, equals, _ in parts) and len(dict(items)) == len(items):
        chains = [
            (chain, [_rewritten(chain, each, known, ops, home) for each in _apart(chain, items)])
            for chain in head.split(",")
        ]
        if any(spec is not None for _, specs in chains for spec in specs):
            for chain, specs in chains:
                ours_already = f"{chain.strip()}:{rest}".removesuffix(":")
                yield from dict.fromkeys(ours_already if s is None else s for s in specs)
            return
    yield text


def _apart(chain: str, items: Items) -> Iterator[Items]:
    """Yield the items with one value for each key of a call: one value of theirs may be several of
    ours, and may choose the operation."""
    theirs: set[str] = set()
    for part in chain.split("+"):
        with suppress(UsageError):  # said when the name is read
            for row in called(part.strip()):
                theirs |= {*row.keys, *(key for key, _ in row.cases)}
    choices = [
        [(key, each) for each in written_out(value, f"{chain}: {key}")]
        if key in theirs and not value.endswith(",")
        else [(key, value)]
        for key, value in items
    ]
    if math.prod(map(len, choices)) > MOST_GRAPHS:
        raise UsageError(f"{chain}: more than {MOST_GRAPHS} graphs")
    yield from itertools.product(*choices)


def _rewritten(
    chain: str,
    items: Items,
    known: Mapping[str, str],
    ops: Mapping[str, Recipe],
    home: str | None,
) -> str | None:
    """Return a chain and its items in our words; None if they are ours already."""
    parts = [part.strip() for part in chain.split("+")]
    alone = len(parts) == 1
    meanings = [(p, _meaning(p, items, known, ops, home, alone=alone)) for p in parts]
    if all(row is None and part in known for part, row in meanings):
        return None
    left, heads = items, []
    own: list[tuple[str, str]] = []
    for part, row in meanings:
        if row is None:
            spelled = {plain(each): each for each in reversed(list(known))}
            heads.append(part if part in known else spelled.get(plain(part), part))
            continue
        head, said, left = translated(row, left)
        heads.append(head)
        own += said
    given = {key for key, _ in left}
    words = [(key, value) for key, value in own if key not in given]
    text = " ".join(f"{key}={value}" for key, value in (*words, *left))
    return f"{'+'.join(heads)}: {text}".removesuffix(": ")


def _meaning(
    part: str,
    items: Items,
    known: Mapping[str, str],
    ops: Mapping[str, Recipe],
    home: str | None,
    *,
    alone: bool,
) -> Name | None:
    """Return the call that a name means with these items; None for one of ours."""
    if part in known:
        recipe = ops[known[part]]
        usual = {*recipe.by_key, "shapes", "direction"}
        if not alone or all(key in usual for key, _ in items):
            return None
    try:
        rows = called(part)
    except UsageError:
        if part in known:
            return None
        raise
    fits: dict[str, Name] = {}
    errors = []
    for row in rows:
        try:
            head, said, left = translated(row, items)
            _check_keys(row, head, left if alone else (), known, ops)
        except UsageError as error:
            errors.append(error)
            continue
        fits.setdefault(f"{head}: {sorted((*said, *left))}", row)
    if len(fits) > 1:
        at_home = [row for row in fits.values() if row.framework == home]
        if len(at_home) != 1:
            words = ", ".join(f"{row.spelled} ({row.ours})" for row in fits.values())
            raise UsageError(f"{part}: the frameworks mean different things: write {words}")
        return at_home[0]
    if errors and not fits and part not in known:
        raise errors[0]
    return next(iter(fits.values()), None)


def _check_keys(
    row: Name, head: str, left: Items, known: Mapping[str, str], ops: Mapping[str, Recipe]
) -> None:
    """Refuse a key that neither the call nor our operation has."""
    usual = {"shapes", "direction"}
    for op in head.split("+"):
        usual |= set(ops[known[op]].by_key)
    for key, _ in left:
        if key not in usual:
            keys = dict.fromkeys((*row.keys, *(k for k, _ in row.cases), *sorted(usual)))
            close = get_close_matches(key, keys, 1, 0.75)
            words = f"did you mean {close[0]}?" if close else f"choose from {', '.join(keys)}"
            raise UsageError(f"{row.spelled}: no key {key!r}; {words}")


def translated(row: Name, items: Items) -> tuple[str, Items, Items]:
    """Return our operations, the items that the call stands for, and the items in our words.

    Raises `UsageError` for a key or a value that cannot be said here.
    """
    given = {key: _TRUTH.get(value.lower(), value) for key, value in items}
    for (key, value), case in row.cases.items():
        if given.get(key, "").lower() == value.lower():
            return translated(case, items)
    head, _, own = row.ours.partition(":")
    said = tuple((key, value) for key, _, value in (item.partition("=") for item in own.split()))
    for needed in row.keys.values():
        if needed.needed and needed.theirs not in given:
            only = needed.how == "="
            what = f"{needed.theirs}={needed.ours}" if only else needed.theirs
            near = row.ours if only else f"{head}: {needed.ours}=…"
            raise UsageError(
                f"{row.spelled}: give {what}: what {FRAMEWORKS[row.framework]} does without it "
                f"cannot be said here; in our words: {near}"
            )
    axes = dict(said).get("spatial")
    if axes is not None and given.get("spatial", axes) != axes:
        raise UsageError(f"{row.spelled}: spatial={given['spatial']}: it has {axes} spatial axes")
    found = tuple(
        pair
        for theirs, value in items
        for pair in _said(row, theirs, _TRUTH.get(value.lower(), value), head, axes)
    )
    return head.strip(), said, found


def _said(
    row: Name, theirs: str, value: str, head: str, rank: str | None
) -> Iterator[tuple[str, str]]:
    """Yield a key and its value in our words."""
    key = row.keys.get(theirs)
    if key is not None and ("," in key.ours or ";" in key.ours) and not all(value.split("x")):
        raise UsageError(f"{row.spelled}: {theirs}={value}: expected lengths joined by x (3x5)")
    if key is None:
        yield (theirs, value.lower() if theirs == "layout" else value)
    elif key.how == "=":
        if not _same(value, key.ours):
            allowed = [v for k, v in row.cases if k == theirs]
            words = " or ".join(f"{theirs}={each}" for each in (key.ours, *allowed))
            raise UsageError(f"{row.spelled}: {theirs}={value}: here only {words}, which is {head}")
    elif ";" in key.ours:
        lengths = value.split("x")
        half = len(lengths) // 2
        parts = [lengths] if len(lengths) == 1 else [lengths[:half], lengths[half:]]
        if len(lengths) % 2 and half:
            raise UsageError(f"{row.spelled}: {theirs}={value}: expected as many before as after")
        yield from zip(key.ours.split(";"), map("x".join, parts), strict=False)
    elif "," in key.ours:
        axes = key.ours.split(",")[-int(rank or 3) :]
        lengths = value.split("x")
        lengths = lengths * int(rank or 2) if len(lengths) == 1 else lengths
        if len(lengths) > len(axes):
            raise UsageError(f"{theirs}={value}: expected at most {len(axes)} lengths")
        yield from zip(axes[-len(lengths) :], lengths, strict=True)
    elif key.how == ">":
        yield (key.ours, value.lower() if re.fullmatch("[A-Za-z]+", value) else value)


def _same(one: str, other: str) -> bool:
    if "x" in one and "x" not in other:
        return all(_same(part, other) for part in one.split("x"))
    try:
        return one.lower() == other.lower() or float(one) == float(other)
    except ValueError:
        return False
