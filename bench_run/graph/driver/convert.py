"""Lines of MIOpenDriver, and of MIOpen's log, to graphs; duplicates are counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench_run.errors import GraphError, UsageError
from bench_run.graph.driver.ask import Answer, Ask
from bench_run.graph.driver.bases import BASES, WITHOUT, reason_without
from bench_run.graph.driver.command import Words, canonical, find_words, read_flags
from bench_run.graph.make import make_graphs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_run.graph.model import Graph


@dataclass(frozen=True)
class Converted:
    """One command: its graphs, one for each direction, or why it has none."""

    command: str
    """Canonical: every shape flag by its long name, in a fixed order; run flags left out."""
    where: str
    """Place of its first occurrence."""
    graphs: tuple[Graph, ...] = ()
    reason: str | None = None
    notes: tuple[str, ...] = ()
    """Where the graphs differ in kind from what the driver runs."""
    count: int = 1
    """How many lines said the same."""


@dataclass(frozen=True)
class Conversion:
    """What became of many lines."""

    commands: tuple[Converted, ...]
    errors: tuple[GraphError, ...]
    """Lines that are commands and make no sense, in order."""


def convert_line(line: str, where: str) -> Converted:
    """The graphs of one line. Raises `GraphError` that names the flag, its value and the choices,
    and for a line that holds no command."""
    words = find_words(line, _known_words())
    if words is None or not words.base:
        raise GraphError(where, f"no MIOpenDriver command in {line.strip()!r}")
    return _convert(words, where)


def convert_lines(text: str, where: str) -> Conversion:
    """The distinct commands of a text, in order of appearance, with how often each occurs.

    Lines without a command (blank ones, comments, other log lines) say nothing; lines that are
    wrong are collected. Raises `GraphError` where there is no command at all.
    """
    found: dict[tuple[str, tuple[str, ...]], Converted] = {}
    errors: list[GraphError] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = find_words(line, _known_words())
        if words is None:
            continue
        try:
            made = _convert(words, f"{where}:{number}")
        except GraphError as error:
            errors.append(error)
            continue
        key = (made.command, tuple(graph.name for graph in made.graphs))
        known = found.get(key)
        found[key] = made if known is None else replace(known, count=known.count + 1)
    if not found and not errors:
        raise GraphError(where, "no MIOpenDriver command in any line")
    return Conversion(tuple(found.values()), tuple(errors))


def _known_words() -> tuple[str, ...]:
    return (*BASES, *WITHOUT)


def _convert(words: Words, where: str) -> Converted:
    if words.base not in BASES:
        reason = reason_without(words.base)
        if reason is None:
            known = ", ".join(BASES)
            raise GraphError(where, f"no base word {words.base!r}; choose from {known}")
        return Converted(" ".join((words.base, *words.flags)), where, reason=reason)
    base = BASES[words.base]
    values, given = read_flags(words, base.flags, where)
    ask = Ask(words.base, values, frozenset(given), words.from_log, where)
    answer = base.convert(ask, base.data_type)
    return Converted(
        canonical(words, values, given, base.flags), where,
        graphs=_graphs(answer, where), reason=answer.reason, notes=answer.notes,
    )  # fmt: skip


def _graphs(answer: Answer, where: str) -> tuple[Graph, ...]:
    try:
        return tuple(graph for spec in answer.specs for graph in make_graphs(spec))
    except UsageError as error:
        raise GraphError(where, str(error)) from error


def graphs_of(commands: Iterable[Converted]) -> tuple[Graph, ...]:
    """All graphs of some commands, each once."""
    return tuple({graph.name: graph for made in commands for graph in made.graphs}.values())
