"""A MIOpenDriver command out of a line, and its flags as values.

Grammar: ``base word``, then flags with exactly one value each. Of a short flag the driver reads
the first letter and drops the rest of the token (``-n128 64`` is 64), and garbage numbers count as
0: both are refused here. The last of several occurrences wins, long and short form being one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_run.graph.driver.flags import Flag


Values = Mapping[str, Any]
"""Long flag name → value, defaults filled in."""

_LOG_TAG = re.compile(r"\[[^\]\s]*\]|MIOpen\(")
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_HELP = ("-h", "-?", "--help")


@dataclass(frozen=True)
class Words:
    """A command's tokens."""

    base: str
    flags: tuple[str, ...]
    from_log: bool
    """Printed by MIOpen itself, which spells some things unlike a person."""


def find_words(line: str, bases: Sequence[str]) -> Words | None:
    """The command in a line, None where there is none."""
    tokens = _without_comment(line.split())
    for place, token in enumerate(tokens):
        if re.split(r"[/\\]", token)[-1] in ("MIOpenDriver", "MIOpenDriver.exe"):
            prefix, rest = tokens[:place], tokens[place + 1 :]
            from_log = _LOG_TAG.search(" ".join(prefix)) is not None
            return Words(rest[0], tuple(rest[1:]), from_log) if rest else Words("", (), from_log)
    while tokens and re.fullmatch(r"[A-Za-z_]\w*=.*", tokens[0]):
        tokens = tokens[1:]
    if not tokens or not (tokens[0] in bases or _looks_like_command(tokens)):
        return None
    return Words(tokens[0], tuple(tokens[1:]), from_log=False)


def _without_comment(tokens: list[str]) -> list[str]:
    """A comment begins at a token that begins with ``#``; the flag ``-#`` does not."""
    end = next((i for i, token in enumerate(tokens) if token.startswith("#")), len(tokens))
    return tokens[:end]


def _looks_like_command(tokens: list[str]) -> bool:
    """A word and a flag: a misspelt base word must not pass as chatter."""
    is_word = re.fullmatch(r"[A-Za-z_]\w*", tokens[0]) is not None
    return is_word and len(tokens) > 2 and re.match(r"--?[A-Za-z]", tokens[1]) is not None


def read_flags(words: Words, table: Sequence[Flag], where: str) -> tuple[dict[str, Any], set[str]]:
    """Values by long name, defaults filled in, and the names of the flags that were given."""
    by_name = {f"-{flag.short}": flag for flag in table} | {
        f"--{flag.long}": flag for flag in table
    }
    values = {flag.long: flag.default for flag in table}
    given: set[str] = set()
    tokens = list(words.flags)
    while tokens:
        name = tokens.pop(0)
        if name in _HELP:
            raise GraphError(where, f"{name} asks {words.base} for help and describes no shape")
        if name not in by_name:
            raise GraphError(where, _no_flag(name, words.base, table))
        if not tokens:
            raise GraphError(where, f"{name} has no value")
        flag = by_name[name]
        values[flag.long] = _value(flag, name, tokens.pop(0), where)
        given.add(flag.long)
    return values, given


def _no_flag(name: str, base: str, table: Sequence[Flag]) -> str:
    if not name.startswith("-"):
        return f"{name!r} is found where {base} expects a flag"
    if re.match(r"-[^-].", name) and name[1] in {flag.short for flag in table}:
        return f"{name}: the driver drops what follows -{name[1]}; write -{name[1]} {name[2:]}"
    known = ", ".join(f"-{flag.short} --{flag.long}" for flag in table)
    return f"{base} has no flag {name}; it knows {known}"


def _value(flag: Flag, name: str, text: str, where: str) -> Any:
    if flag.kind == "text":
        # Layouts are read in either case, though the driver takes lower case by long
        # names only.
        spelled = text.upper() if flag.long.endswith("layout") else text
        if flag.choices and spelled not in flag.choices:
            raise GraphError(where, f"{name} {text}: choose from {', '.join(flag.choices)}")
        return spelled
    if flag.kind == "float":
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise GraphError(where, f"{name} {text}: expected a finite number")
        return value
    if _WHOLE.fullmatch(text) is None or int(text) < flag.least:
        raise GraphError(where, f"{name} {text}: expected a whole number from {flag.least}")
    return int(text)


def canonical(words: Words, values: Values, given: set[str], table: Sequence[Flag]) -> str:
    """The command with every shape flag written out, long names, in the order of the table.

    A flag that tells the dialect is there only where it was given.
    """
    shape = (
        flag.long
        for flag in table
        if not flag.control and values[flag.long] is not None
        if flag.long in given or not flag.newer
    )
    flags = (f"--{name} {_show(values[name])}" for name in shape)
    return " ".join(("MIOpenDriver", words.base, *flags))


def _show(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


# What a converter is asked, and what it answers: op specs, remarks, or a reason why not.


@dataclass(frozen=True)
class Ask:
    base: str
    values: Mapping[str, Any]
    """Long flag name → value."""
    given: frozenset[str]
    """Flags that the line itself has."""
    from_log: bool
    where: str

    def error(self, flag: str, what: str) -> GraphError:
        return GraphError(self.where, f"--{flag} {self.values[flag]}: {what}")


@dataclass(frozen=True)
class Answer:
    specs: tuple[str, ...] = ()
    """Op specs of `bench_run.graph.make`, one graph each."""
    notes: tuple[str, ...] = ()
    """Where the graph differs in kind from what the driver runs."""
    reason: str | None = None
    """Why there is no graph."""


def refused(reason: str) -> Answer:
    return Answer(reason=reason)


def spec(ops: str, items: Mapping[str, Any]) -> str:
    """The op spec; items that are None are left out, tuples are joined by x."""
    shown = (f"{key}={_ask_show(value)}" for key, value in items.items() if value is not None)
    return f"{ops}: {' '.join(shown)}"


def _ask_show(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(str(item) for item in value)
    return str(int(value)) if isinstance(value, bool) else str(value)


def notes(rows: Iterable[tuple[bool, str]]) -> tuple[str, ...]:
    """The remarks whose condition holds."""
    return tuple(text for holds, text in rows if holds)
