"""What is wrong with a command line that cannot be parsed, and what was probably meant."""

from __future__ import annotations

import os

from bench_run.commands import ALIASES, COMMANDS
from bench_run.commands.words.topics import TOPICS, flags_of

TYPE_CHECKING = False  # importing typing would cost as much as parsing
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


def nearest(word: str, known: Collection[str]) -> str:
    """``; did you mean …?`` where a known word is close, else the known words."""
    import difflib

    close = difflib.get_close_matches(word, sorted(known), 1)
    return f"; did you mean {close[0]}?" if close else f"; choose from {', '.join(known)}"


def bad_flag(command: str, words: Sequence[str], usage: str) -> str | None:
    """A sentence about the first flag that is unknown, ambiguous, repeated or lacks its value; None
    where the flags are fine."""
    given: set[str] = set()
    shapes = dict(_flags(usage))
    for position, word in enumerate(words):
        name, equals, _ = word.partition("=")
        if not word.startswith("-") or word in ("-", "--"):
            continue
        if not word.startswith("--"):
            name, equals = word[:2], word[2:]
        matches = [name] if name in shapes else [f for f in shapes if f.startswith(name)]
        if not matches:
            return _unknown(command, name, shapes)
        if len(matches) > 1:
            return f"{name} is ambiguous: {' or '.join(matches)}"
        has_value, repeatable = shapes[matches[0]]
        if has_value and not equals and position == len(words) - 1:
            return f"{name} needs a value; see {_help(command)}"
        if not has_value and equals and word.startswith("--"):
            return f"{name} takes no value"
        if matches[0] in given and not repeatable:
            return f"{name} is given twice"
        given.add(matches[0])
    return None


def _flags(usage: str) -> Iterator[tuple[str, tuple[bool, bool]]]:
    """Each flag that a usage text describes: whether it has a value, and may be given again."""
    for line in usage.splitlines():
        if not line.startswith("  -"):
            continue
        head = line.strip().partition("  ")[0].replace(",", "").split()
        names = [word for word in head if word.startswith("-")]
        for name in names:
            yield name, (len(head) > len(names), f"[{names[-1]}=" in usage)


def _unknown(command: str, name: str, known: Collection[str]) -> str:
    everywhere = [flag for text in TOPICS.values() for flag in flags_of(text)]
    if name in everywhere:
        return f"bench-run {command} has no flag {name}; see bench-run {command} --help"
    import difflib

    possible = sorted({*known, *ALIASES})
    begun = [flag for flag in possible if flag.startswith(name)]
    close = begun[:1] or difflib.get_close_matches(name, possible, 1)
    return f"no flag {name}" + (f"; did you mean {close[0]}?" if close else f"; see {_help('all')}")


def _help(command: str) -> str:
    return "bench-run help all" if command in ("run", "all") else f"bench-run {command} --help"


def mistaken_command(words: Sequence[str]) -> str | None:
    """A sentence about a graph argument that exists nowhere and looks like a command."""
    import difflib

    for word in words:
        if os.path.lexists(word):
            continue
        if word in COMMANDS:
            return f"{word} is a command and comes first: bench-run {word} …"
        close = difflib.get_close_matches(word, list(COMMANDS), 1, 0.75)
        if close and word.isalpha():
            return f"{word}: no such file or command; did you mean {close[0]}?"
    return None
