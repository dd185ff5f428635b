"""The events file: what is known of an archive, so that it does not gate.

[[event]]
build = "v2.1"            # a build's name, label, run or commit; or
date = 2026-03-01         # a day; or
from = "v2.1"             # a range of builds or days
to = 2026-03-10
cases = ["conv_*"]        # names of graphs, as globs; all without it
kind = "expected"         # expected, benchmark changed, machine or regression
note = "new tile sizes"
link = "https://example.org/issue/7"
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import date, datetime, timezone
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bench_compare.errors import UsageError
from bench_compare.history.builds import LEAST_HASH, moment_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench_compare.history.builds import Build

KINDS = ("expected", "benchmark changed", "machine", "regression")
ENDS = ("build", "date", "from", "to")
KEYS = (*ENDS, "cases", "kind", "note", "link")


@dataclass(frozen=True)
class AcceptedChange:
    """One event of the file; its ends are as they were written."""

    first: str
    last: str
    cases: tuple[str, ...]
    kind: str
    note: str | None
    link: str | None
    where: str


@dataclass(frozen=True)
class Placed:
    entry: AcceptedChange
    first: int
    last: int
    """Builds."""

    def overlaps(self, earliest: int, latest: int) -> bool:
        return self.first <= latest and self.last >= earliest

    def covers(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.entry.cases)


def read_entries(path: Path) -> list[AcceptedChange]:
    """Read the entries. Raises `UsageError` with the file, the event and the mistake."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    where = f"--events: {path}"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{where}: not TOML: {error}") from None
    unknown = [key for key in table if key != "event"]
    if unknown:
        raise UsageError(f"{where}: no key {unknown[0]!r}; events are tables, each [[event]]")
    rows = table.get("event", [])
    if not isinstance(rows, list):
        raise UsageError(f"{where}: events are tables, each [[event]]")
    return [_entry(row, f"{where}: event {number}") for number, row in enumerate(rows, start=1)]


def _entry(row: object, where: str) -> AcceptedChange:
    if not isinstance(row, dict):
        raise UsageError(f"{where}: a table is expected, [[event]]")
    for key in row:
        if key not in KEYS:
            raise UsageError(f"{where}: no key {key!r}; choose from {', '.join(KEYS)}")
    given = [key for key in ENDS if key in row]
    if given not in (["build"], ["date"], ["from", "to"]):
        raise UsageError(f"{where}: either build, or date, or from and to are needed")
    ends = [_end(row[key], f"{where}: {key}") for key in given]
    kind = row.get("kind", KINDS[0])
    if kind not in KINDS:
        raise UsageError(f"{where}: kind: no kind {kind!r}; choose from {', '.join(KINDS)}")
    cases = row.get("cases", ["*"])
    if not isinstance(cases, list) or not all(isinstance(one, str) for one in cases):
        raise UsageError(f"{where}: cases: a list of texts is expected")
    for key in ("note", "link"):
        if key in row and not isinstance(row[key], str):
            raise UsageError(f"{where}: {key}: a text is expected, not {row[key]!r}")
    note, link = row.get("note"), row.get("link")
    return AcceptedChange(ends[0], ends[-1], tuple(cases), kind, note, link, where)


def _end(value: object, where: str) -> str:
    if isinstance(value, datetime):  # builds are of days in UTC
        return (value.astimezone(timezone.utc) if value.tzinfo else value).date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and value:
        return value
    raise UsageError(f"{where}: a build's name or a date is expected, not {value!r}")


def place(
    entries: Sequence[AcceptedChange], builds: Sequence[Build]
) -> tuple[list[Placed], list[str]]:
    """Return entries with their builds, and sentences on those without one in the archive."""
    found, remarks = [], []
    for entry in entries:
        first, last = place_of(entry.first, builds), place_of(entry.last, builds, is_end=True)
        if first is not None and entry.first == entry.last:
            last = max(first, first if last is None else last)
        ends = _day(entry.first), _day(entry.last)
        if first is None or last is None:
            missing = entry.first if first is None else entry.last
            remarks.append(f"{entry.where}: no build or day {missing!r} in the archive")
        elif first <= last:
            found.append(Placed(entry, first, last))
        elif ends[0] and ends[1] and ends[0] <= ends[1]:
            remarks.append(f"{entry.where}: no build from {entry.first} to {entry.last}")
        else:
            raise UsageError(f"{entry.where}: {entry.last!r} comes before {entry.first!r}")
    return found, remarks


def place_of(text: str, builds: Sequence[Build], is_end: bool = False) -> int | None:
    """Return the first build of a name, or from a day on; with `is_end` the last one, or up to that
    day."""
    day = _day(text)
    held = [number for number, build in enumerate(builds) if _is_named(build, text)]
    if not held and day is not None:
        dates = [moment_of(build.started).date() for build in builds]
        held = [n for n, one in enumerate(dates) if (one <= day if is_end else one >= day)]
    return None if not held else held[-1] if is_end else held[0]


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _is_named(build: Build, text: str) -> bool:
    return text in build.aliases or (
        len(text) >= LEAST_HASH
        and any(alias.startswith(text) and " " not in alias for alias in build.aliases)
    )
