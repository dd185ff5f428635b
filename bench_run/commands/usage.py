"""The usage and help texts that come from the rows of the settings.

docopt reads them, and ``--help`` shows them, so a flag is described once.
"""

from __future__ import annotations

from bench_schema.settings import Setting, rows_of

from bench_run.settings import NO_SETTINGS, TOPICS, Options, Spellings, TuneOptions

TYPE_CHECKING = False  # importing typing would cost half the time of --help
if TYPE_CHECKING:
    from collections.abc import Iterable

INDENT = " " * 24
WIDTH = 80
SECTIONS = [title for titles in TOPICS.values() for title in titles]
ROWS = {**rows_of(Options), **rows_of(Spellings)}
FLAGS = {
    row.flag: row
    for row in sorted(
        (row for row in (*ROWS.values(), *NO_SETTINGS) if row.flag),
        key=lambda row: (SECTIONS.index(row.section), not row.common),
    )
}
"""Every flag of a run, section by section, what people use most first, otherwise as in the
table."""
TUNE_FLAGS = {row.flag: row for row in rows_of(TuneOptions).values()}
"""Flags that only `bench-run tune` has."""


def entry(row: Setting) -> str:
    """Return the lines that describe a flag, with its choices and its default."""
    text, default = row.help, row.default
    if text.endswith(":"):
        text = f"{text} {', '.join(row.choices[:-1])} or {row.choices[-1]}"
    if row.kind == "ratio" and isinstance(default, float):
        text = f"{text} (default {100 * default:g}%)"
    elif default is not None and default is not False and not row.many:
        text = f"{text} (default {str(default).removesuffix('.0')})"
    names = row.flag if row.short is None else f"{row.short}, {row.flag}"
    head = f"  {names} {row.metavar}".rstrip()
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + 1 + len(word) > WIDTH - len(INDENT):
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    first = head.ljust(len(INDENT)) if len(head) <= len(INDENT) - 2 else f"{head}\n{INDENT}"
    return first + f"\n{INDENT}".join(lines) + "\n"


def entries(rows: Iterable[Setting]) -> str:
    return "".join(map(entry, rows))


def topic(name: str, *, rare: bool = True) -> str:
    """Return the sections of a topic, each a heading and its flags. `rare`: also those that
    `bench-run help config` lists."""
    found = ""
    for title in TOPICS[name]:
        listed = [row for row in FLAGS.values() if row.section == title and rare >= row.rare]
        found += f"\n{title}:\n{entries(listed)}" if listed else ""
    return found.lstrip("\n")


def all_topics(*, rare: bool = True) -> str:
    """Return the flags of all topics."""
    return "\n".join(topic(name, rare=rare) for name in TOPICS)


SHARED = entries(FLAGS[flag] for flag in ("--timeout", "--build-timeout", "--config", "--help"))
"""Flags of commands that open engines without measuring."""


def repeatable(rows: Iterable[Setting]) -> str:
    """Return the part of a usage that declares the repeatable flags to docopt."""
    lines = [""]
    for row in rows:
        word = f"[{row.flag}={'KV' if '=' in row.metavar else row.metavar}]..."
        if row.many and len(lines[-1]) + len(word) > WIDTH - 13:
            lines.append("")
        lines[-1] += f" {word}" if row.many else ""
    return "\n           ".join(lines).strip()
