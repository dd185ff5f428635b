"""What to run next, as command lines."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from bench_compare.history.model import Suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.history.archive import Archive
    from bench_compare.history.builds import Doc

OUT_FLAGS = ("-o", "--output", "--out")
DROPPED = ("--resume",)
OPEN_FILE = "open.json"
MOST_DOCUMENTS = 9
PLACE_Z = 3.0
"""Standard deviations by which repeats should tell the levels on either side of a build apart."""


def look(archive: Archive, before: int, after: int, names: Sequence[str]) -> Suggestion:
    """The comparison of the documents next to an event."""
    paths = [archive.columns[column].doc.path for column in (before, after)]
    words = ["bench-compare", *paths, "--all"]
    if len(names) == 1:
        words += ["--filter", names[0]]
    place = archive.builds[archive.columns[after].build].name
    return Suggestion(f"all metrics of the documents before and at {place}", shlex.join(words))


def narrow(
    archive: Archive, earliest: int, latest: int, shift: float, spread: float, where: str
) -> Suggestion | None:
    """Which builds of a gap to measure again, and how often, so that its place is known."""
    builds = archive.builds[max(earliest - 1, 0) : latest + 1]
    number = documents_for(shift, spread)
    command = repeat(builds[-1].documents[-1], where)
    if len(builds) < 2 or command is None:
        return None
    names = f"{builds[0].name} to {builds[-1].name}"
    reason = (
        f"its place: each of the {len(builds)} builds from {names} "
        f"{number} time{'' if number == 1 else 's'} more, with that build installed"
    )
    return Suggestion(reason, command)


def documents_for(shift: float, spread: float) -> int:
    """Documents of one build that tell two levels apart."""
    if not shift:
        return MOST_DOCUMENTS
    return max(1, min(MOST_DOCUMENTS, math.ceil(2 * (PLACE_Z * spread / abs(shift)) ** 2)))


def decide(doc: Doc, cases: int, needed: int, where: str) -> Suggestion | None:
    """Repeats of the newest build."""
    command = repeat(doc, where)
    if command is None:
        return None
    reason = (
        f"{cases} case{' is' if cases == 1 else 's are'} unclear in the newest build: "
        f"measure it {needed} time{'' if needed == 1 else 's'} more"
    )
    return Suggestion(reason, command)


def repeat(doc: Doc, where: str) -> str | None:
    """The run again, of the cases that are open; None where its command is not known. `where`: what
    the history was made of, as words of a command line."""
    words = without_output(doc.command[1:])
    if not doc.command or any(word.startswith("--rerun-from") for word in words):
        return None
    target = Path(doc.path)
    again = target.with_name(f"{target.name.split('.')[0]}-again.json")
    listing = f"bench-compare history {where} --quiet --json {OPEN_FILE}"
    run = ["bench-run", *words, "--rerun-from", OPEN_FILE, "-o", str(again)]
    return f"{listing}; {shlex.join(run)}"


def without_output(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in OUT_FLAGS:
            skip = True
        elif word not in DROPPED and not _holds_output(word):
            kept.append(word)
    return kept


def _holds_output(word: str) -> bool:
    glued = word.startswith("-o") and not word.startswith("--")
    return glued or any(word.startswith(f"{flag}=") for flag in OUT_FLAGS[1:])
