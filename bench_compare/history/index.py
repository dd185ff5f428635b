"""The archive's index: what a history needs of each document, in an SQLite file that is made again
when it is gone.

Other programs (sqlite3, DuckDB, Datasette, Grafana) may read the views `document` and `level`. A
file is read once; one that changed is read again, one that is gone is forgotten.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from bench_schema.errors import DocumentError

from bench_compare.errors import InputError
from bench_compare.history.digest import Digest, digest
from bench_compare.input.load import passed_over, read_source

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 7
NAME = "history.sqlite"
WAIT_S = 120.0
"""Time limit for another process that writes the same index."""
MARK = int.from_bytes(b"bchi", "big")
"""Application's mark in an SQLite file."""
BATCH = 64
"""Files that are read before what is known is saved."""
TABLES = (
    "CREATE TABLE file (path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, problem TEXT, "
    "digest TEXT)",
    "CREATE VIEW document AS SELECT path, json_extract(digest, '$.run_id') AS run_id, "
    "json_extract(digest, '$.label') AS label, json_extract(digest, '$.started') AS started "
    "FROM file WHERE problem IS NULL",
    # Natural logarithms, of nanoseconds where the metric is a time.
    "CREATE VIEW level AS SELECT file.path, json_extract(one.value, '$.name') AS name, "
    "json_extract(one.value, '$.key[1]') AS engine, json_extract(one.value, '$.unit') AS unit, "
    "json_extract(level.value, '$[0]') AS metric, json_extract(level.value, '$[1]') AS log_mean "
    "FROM file, json_each(digest, '$.cases') AS one, json_each(one.value, '$.levels') AS level",
)


class _ForeignError(Exception):
    """The file is not an index of this tool."""


def digests(folder: Path | None, wanted: Mapping[str, Path]) -> tuple[dict[str, Digest], list[str]]:
    """Return the digests of files, by their names in the index of a folder, which is brought up to
    date; and remarks. The index stays in memory without a folder, if it cannot be written, or if
    another file has its name. Raises `InputError` if another process holds it."""
    place, remarks = ":memory:" if folder is None else str(folder / NAME), []
    try:
        rows = _updated(place, wanted)
    except _ForeignError:
        remarks = [f"{place}: not an index of this tool; it is left alone"]
        rows = _updated(":memory:", wanted)
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):
            raise InputError(f"{place}: another process holds the index: {error}") from None
        try:
            Path(place).unlink(missing_ok=True)
            rows, remarks = _updated(place, wanted), [f"{place}: made anew ({error})"]
        except (OSError, sqlite3.DatabaseError) as again:
            remarks = [f"{place}: the index cannot be kept ({again})"]
            rows = _updated(":memory:", wanted)
    decoder = msgspec.json.Decoder(Digest)
    found = {name: decoder.decode(text) for name, problem, text in rows if problem is None}
    remarks += [f"{name}: passed over, {problem}" for name, problem, _ in rows if problem]
    return found, remarks


def _updated(place: str, wanted: Mapping[str, Path]) -> list[tuple[str, str | None, str]]:
    """Read what is new or changed, forget what is gone; return (name, problem, digest), sorted."""
    with closing(sqlite3.connect(place, timeout=WAIT_S)) as index:
        mark = "PRAGMA application_id"
        try:
            index.execute(mark).fetchone()
        except sqlite3.DatabaseError as error:
            other = "not a database" in str(error)
            raise (_ForeignError if other else type(error))(error) from error
        index.execute("PRAGMA synchronous = OFF")  # it can be made again
        index.execute("BEGIN IMMEDIATE")
        is_new = index.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        if not is_new and index.execute(mark).fetchone() != (MARK,):
            raise _ForeignError
        if is_new:
            for statement in TABLES:
                index.execute(statement)
            index.execute(f"PRAGMA user_version = {VERSION}")
            index.execute(f"{mark} = {MARK}")
        index.commit()
        (version,) = index.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            raise sqlite3.DatabaseError(f"version {version}, known is {VERSION}")
        rows = index.execute("SELECT path, size, mtime_ns FROM file")
        known = {name: (size, mtime_ns) for name, size, mtime_ns in rows}
        gone = [(name,) for name in known.keys() - wanted.keys()]
        index.executemany("DELETE FROM file WHERE path = ?", gone)
        index.commit()
        new = [name for name, path in wanted.items() if known.get(name) != _stamp(path)]
        for first in range(0, len(new), BATCH):
            # The stamp comes first: what changes meanwhile is read again.
            read = [
                (name, *_stamp(wanted[name]), *_read(wanted[name]))
                for name in new[first : first + BATCH]
            ]
            index.executemany("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?)", read)
            index.commit()
        every = "SELECT path, problem, digest FROM file ORDER BY path"
        return [row for row in index.execute(every).fetchall() if row[0] in wanted]


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return -1, -1  # gone since it was listed: reading it will say so
    return found.st_size, found.st_mtime_ns


def _read(path: Path) -> tuple[str | None, str]:
    """Return why a file holds no document, empty for text of something else, and its digest."""
    try:
        return None, msgspec.json.encode(digest(read_source(path).document)).decode()
    except DocumentError as error:
        return error.what if passed_over(path, error) else "", ""
    except OSError as error:
        return str(error.strerror or error), ""
