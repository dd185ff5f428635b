"""Diagnosis of a command line's mistakes, with the words that were probably meant."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost half the time of --help
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence


FEW = 20
"""More words than these are not listed in an error."""


def nearest(word: str, known: Collection[str], see: str = "") -> str:
    """Return ``; did you mean …?`` if a known word is close, otherwise the known words, or if they
    are many the nearest ones and `see`, the command that lists them all."""
    import difflib

    close = difflib.get_close_matches(word, sorted(known), 1, 0.65)
    if close:
        return f"; did you mean {close[0]}?"
    if not see or len(known) <= FEW:
        return f"; choose from {', '.join(known)}"
    distant = difflib.get_close_matches(word, sorted(known), 3, 0.4)
    some = f"the nearest are {', '.join(distant)}; " if distant else ""
    return f"; {some}{see} lists all"


def guide(package: str, name: str) -> str:
    """Return the page NAME of the guides that a package contains, without its comments."""
    from importlib.resources import files

    text = files(package).joinpath("docs", f"{name}.md").read_text(encoding="utf-8")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("<!--"))


EXIT_CODES = """Exit codes: 0 all is well; 1 bad input, no device, or a case, engine or
reference failed; 2 an output is wrong, or a time is implausible."""
"""Meanings of a run's exit codes, as help and README have them."""


def columns() -> int:
    """Return the width of the terminal: COLUMNS, else its own, else 80."""
    from shutil import get_terminal_size

    return get_terminal_size((80, 24)).columns


def has_colors() -> bool:
    """Return True if a terminal shows colours and the environment does not forbid them
    (NO_COLOR)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


FENCE, INDENT = "```", "  "
WIDEST = 100
"""Columns of a laid-out page on a wider terminal."""


def laid_out(page: str, columns: int, *, colored: bool) -> str:
    """Return a page of Markdown as a terminal of so many columns shows it. Commands are not
    wrapped: they are copied as they stand."""
    import io

    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    width, parts = min(columns, WIDEST), []
    for number, part in enumerate(page.split(FENCE)):
        if number % 2:
            parts.append(_program(part, width))
            continue
        written = io.StringIO()
        console = Console(
            file=written,
            width=width,
            force_terminal=colored,
            color_system="standard" if colored else None,
            theme=Theme({"markdown.code": "bold"}),
        )
        console.print(Markdown(part))
        lines = (line.rstrip() for line in written.getvalue().splitlines())
        parts.append("\n".join(lines).strip("\n"))
    return "\n\n".join(filter(None, parts)) + "\n"


def _program(block: str, width: int) -> str:
    """Return a block of commands or of another language, with its name in the first line."""
    import textwrap

    language, _, text = block.partition("\n")
    lines = []
    for line in text.rstrip().splitlines():
        if language in ("sh", "bash") or len(line) + len(INDENT) <= width:
            lines.append(f"{INDENT}{line}".rstrip())
            continue
        indent = INDENT + line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line.strip(), width, initial_indent=indent, subsequent_indent=f"{indent}  "
        )
    return "\n".join(lines)


def unknown_flag(name: str, known: Collection[str], see: str, of_others: Mapping[str, str]) -> str:
    """Return a sentence about a flag that is not one of `known`. `see`: the command that lists the
    flags; `of_others`: flags of other tools, and what does the same here."""
    import difflib

    if name in of_others and name not in known:
        return f"no flag {name}; {of_others[name]}"
    possible = sorted(known)
    begun = [flag for flag in possible if flag.startswith(name)]
    close = begun[:1] or difflib.get_close_matches(name, possible, 1)
    return f"no flag {name}" + (f"; did you mean {close[0]}?" if close else f"; see {see}")


def bad_flag(
    words: Sequence[str], usage: str, see: str, unknown: Callable[[str, Collection[str]], str]
) -> str | None:
    """Return a sentence about the first flag that is unknown, ambiguous, repeated or lacks its
    value; None if the flags are right. `unknown` makes the sentence on a name that is none of the
    flags."""
    given: set[str] = set()
    shapes = dict(flags_of(usage))
    for position, word in enumerate(words):
        name, equals, _ = word.partition("=")
        if not word.startswith("-") or word in ("-", "--"):
            continue
        if not word.startswith("--"):
            name, equals = word[:2], word[2:]
        matches = [name] if name in shapes else [f for f in shapes if f.startswith(name)]
        if not matches:
            return unknown(name, shapes)
        if len(matches) > 1:
            return f"{name} is ambiguous: {' or '.join(matches)}"
        has_value, repeatable = shapes[matches[0]]
        if has_value and not equals and position == len(words) - 1:
            return f"{name} needs a value; see {see}"
        if not has_value and equals and word.startswith("--"):
            return f"{name} takes no value"
        if matches[0] in given and not repeatable:
            return f"{name} is given twice"
        given.add(matches[0])
    return None


def flags_of(usage: str) -> Iterator[tuple[str, tuple[bool, bool]]]:
    """Yield each flag that a usage text describes: True if it has a value, and True if it may be
    repeated."""
    for line in usage.splitlines():
        if not line.startswith("  -"):
            continue
        head = line.strip().partition("  ")[0].replace(",", "").split()
        names = [word for word in head if word.startswith("-")]
        for name in names:
            yield name, (len(head) > len(names), f"[{names[-1]}=" in usage)


def mistaken_command(words: Sequence[str], commands: Collection[str], program: str) -> str | None:
    """Return a sentence about an argument that is not a file and looks like a command."""
    import difflib

    for word in words:
        if os.path.lexists(word):
            continue
        if word in commands:
            return f"{word} is a command and comes first: {program} {word} …"
        close = difflib.get_close_matches(word, list(commands), 1, 0.75)
        if close and word.isalpha():
            return f"{word}: no such file or command; did you mean {close[0]}?"
    return None
