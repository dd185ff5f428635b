"""The archive's index: an SQLite file that is made from the documents, and again when it is gone.

Other programs (sqlite3, DuckDB, Datasette, Grafana) may read the tables: `TABLES` describes them.
Files are read once; a file that changed is read again, one that is gone is forgotten.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench_schema.errors import DocumentError

from bench_compare.errors import InputError
from bench_compare.history.digest import SERIES_SETTINGS, Digest, digest
from bench_compare.input.load import SUFFIXES, read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Result = TypeVar("Result")
VERSION = 5
NAME = "history.sqlite"
WAIT_S = 120.0
"""Time limit for another process that writes the same index."""
MARK, MARK_AT, HEADER = b"bchi", 68, 100
"""Application's mark in an SQLite file, its place there, and the size of that header."""
MOST_NAMED = 3
BATCH = 64
"""Files that are read before what is known is saved."""
SERIES_COLUMNS = ("fingerprint", "engine", "variant", "device_kind", *SERIES_SETTINGS, "twin")
TABLES = f"""
CREATE TABLE file (
  path TEXT PRIMARY KEY,          -- as it was found
  size INTEGER, mtime_ns INTEGER, -- when it was read
  problem TEXT                    -- why it holds no document; else NULL
);
CREATE TABLE document (
  id INTEGER PRIMARY KEY,
  path TEXT UNIQUE,
  run_id TEXT,                    -- files with one run_id are copies
  parts TEXT,                     -- JSON: run_ids of what was merged into it
  label TEXT, started TEXT,       -- ISO 8601
  complete INTEGER,               -- 0: cases are missing
  tags TEXT, command TEXT,        -- JSON
  graphs_commit TEXT
);
CREATE TABLE fact (               -- what may explain a change: driver, libraries, limits, settings
  document INTEGER, name TEXT, value TEXT, PRIMARY KEY (document, name)
) WITHOUT ROWID;
CREATE TABLE series (             -- levels of one series may be held against each other
  id INTEGER PRIMARY KEY,
  {" TEXT, ".join(SERIES_COLUMNS)} TEXT,
  UNIQUE ({", ".join(SERIES_COLUMNS)})
);
CREATE TABLE outcome (            -- a case of a document
  document INTEGER, series INTEGER,
  unit TEXT,                      -- host and device
  name TEXT, family TEXT, data_type TEXT,
  path TEXT,                      -- of the graph
  status TEXT,                    -- wrong, or what the document says: completed, unsupported ...
  reason TEXT,
  plan TEXT,                      -- JSON: what the engine chose
  kernels TEXT,                   -- hash of the names and counts of its kernels
  checked INTEGER,                -- whether its outputs were held against a reference
  PRIMARY KEY (document, series, unit)
) WITHOUT ROWID;
CREATE TABLE level (              -- of a case and metric: mean over rounds of the log of the median
  document INTEGER, series INTEGER, unit TEXT, metric TEXT,
  log_mean REAL,                  -- natural logarithm, of nanoseconds where the metric is a time
  variance REAL,                  -- of log_mean, as its rounds know it
  rounds INTEGER,
  PRIMARY KEY (document, series, unit, metric)
) WITHOUT ROWID;
"""


def files_of(patterns: Sequence[str]) -> list[Path]:
    """Return the files that may contain documents: named ones, and all in folders, sorted; a
    journal next to its finished document is left out."""
    import glob

    found: dict[Path, None] = {}
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            held = (one for one in path.rglob("*") if one.name.endswith(SUFFIXES) and one.is_file())
            found.update(dict.fromkeys(sorted(held)))
        elif path.exists():
            found[path] = None
        elif glob.has_magic(pattern) and (matches := sorted(glob.glob(pattern, recursive=True))):
            found.update(dict.fromkeys(files_of(matches)))
        else:
            raise InputError(f"{pattern}: no such file or folder")
    names = {str(path) for path in found}
    return [
        path
        for path in found
        if not (path.name.endswith(".journal") and str(path).removesuffix(".journal") in names)
    ]


def indexed(
    folder: Path | None,
    wanted: Mapping[str, Path],
    use: Callable[[sqlite3.Connection], Result],
) -> tuple[Result, list[str]]:
    """Call `use` with the updated index of a folder; return its result, and remarks. An index that
    is damaged or of another version is rebuilt. It stays in memory without a folder, if it
    cannot be written, or if another file has its name."""
    place = None if folder is None else folder / NAME
    remarks: list[str] = []
    if place is not None and not _may_be_ours(place):
        place, remarks = None, [f"{place}: not an index of this tool; it is left alone"]
    if place is not None:
        try:
            return _used(place, wanted, use, remarks)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise InputError(f"{place}: another process holds the index: {error}") from None
            remarks = [f"{place}: made anew ({error})"]
        try:
            place.unlink(missing_ok=True)
            return _used(place, wanted, use, remarks)
        except (OSError, sqlite3.DatabaseError) as error:
            remarks = [f"{place}: the index cannot be kept ({error})"]
    return _used(None, wanted, use, remarks)


def _used(
    place: Path | None,
    wanted: Mapping[str, Path],
    use: Callable[[sqlite3.Connection], Result],
    remarks: Sequence[str],
) -> tuple[Result, list[str]]:
    name = ":memory:" if place is None else str(place)
    made = sqlite3.connect(name, timeout=WAIT_S, isolation_level=None)
    made.execute("PRAGMA synchronous = OFF")  # it can be made again
    with _writing(made):
        empty = made.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if empty:
            for statement in TABLES.split(";\n"):
                made.execute(statement)
            made.execute(f"PRAGMA user_version = {VERSION}")
            made.execute(f"PRAGMA application_id = {int.from_bytes(MARK, 'big')}")
    connection = made
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        connection.close()
        raise sqlite3.DatabaseError(f"version {version}, known is {VERSION}")
    passed_over: list[str] = []
    try:
        passed_over = update(connection, wanted)
        connection.execute("BEGIN")  # one state of the index during writes of other processes
        return use(connection), [*remarks, *passed_over]
    except InputError as error:
        if passed_over:  # most likely the reason
            raise InputError(f"{error}; {'; '.join(passed_over[:MOST_NAMED])}") from None
        raise
    finally:
        connection.close()


def _may_be_ours(place: Path) -> bool:
    """Return True for a missing file, or an SQLite file with our mark in its header, whole or
    not."""
    try:
        with place.open("rb") as file:
            header = file.read(HEADER)
    except OSError:
        return True
    mark = header[MARK_AT : MARK_AT + 4]
    return not header or (header.startswith(b"SQLite format 3") and mark in (MARK, b"\0" * 4))


@contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Write alone, while other processes wait: all of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:  # commits, or takes it back where an error comes out
        yield


def update(
    connection: sqlite3.Connection,
    wanted: Mapping[str, Path],
    tell: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Read what is new or changed, forget what is gone; sentences on files that hold no document.
    `wanted`: name in the index to file. `tell` hears how many of the new files have been read."""
    rows = connection.execute("SELECT path, size, mtime_ns FROM file")
    known = {name: stamp for name, *stamp in rows}
    with _writing(connection):
        for name in known.keys() - wanted.keys():
            _forget(connection, name)
    new = [name for name, path in wanted.items() if known.get(name) != [*_stamp(path)]]
    for first in range(0, len(new), BATCH):
        names = new[first : first + BATCH]
        stamps = [_stamp(wanted[name]) for name in names]  # before: what changes is read again
        batch = [_read(wanted[name]) for name in names]
        with _writing(connection):
            for name, stamp, held in zip(names, stamps, batch, strict=True):
                query = "SELECT size, mtime_ns FROM file WHERE path = ?"
                was_read = connection.execute(query, (name,)).fetchone() == stamp
                if not was_read:  # nor by another process meanwhile
                    _keep(connection, name, stamp, held)
        if tell is not None:
            tell(first + len(batch), len(new))
    found = connection.execute("SELECT path, problem FROM file WHERE problem IS NOT NULL")
    return [f"{name}: passed over, {problem}" for name, problem in sorted(found)]


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return -1, -1  # gone since it was listed: reading it will say so
    return found.st_size, found.st_mtime_ns


def _read(path: Path) -> Digest | str:
    """Return the digest of a file, or the reason why there is none."""
    try:
        return digest(read_source(path).document)
    except DocumentError as error:
        return error.what
    except OSError as error:
        return str(error.strerror or error)


def _forget(connection: sqlite3.Connection, name: str) -> None:
    for (number,) in connection.execute("SELECT id FROM document WHERE path = ?", (name,)):
        for table in ("fact", "outcome", "level"):
            connection.execute(f"DELETE FROM {table} WHERE document = ?", (number,))  # noqa: S608 - our tables
    connection.execute("DELETE FROM document WHERE path = ?", (name,))
    connection.execute("DELETE FROM file WHERE path = ?", (name,))


def _keep(
    connection: sqlite3.Connection, name: str, stamp: tuple[int, int], held: Digest | str
) -> None:
    _forget(connection, name)
    problem = held if isinstance(held, str) else None
    connection.execute("INSERT INTO file VALUES (?, ?, ?, ?)", (name, *stamp, problem))
    if isinstance(held, str):
        return
    cursor = connection.execute(
        "INSERT INTO document (path, run_id, parts, label, started, complete, tags, command, "
        "graphs_commit) VALUES (:path, :run_id, :parts, :label, :started, :complete, :tags, "
        ":command, :graphs_commit)",
        {**vars(held), "path": name},
    )
    number = cursor.lastrowid or 0
    facts = [(number, fact, value) for fact, value in held.facts.items()]
    connection.executemany("INSERT OR REPLACE INTO fact VALUES (?, ?, ?)", facts)
    names, marks = ", ".join(SERIES_COLUMNS), ", ".join("?" for _ in SERIES_COLUMNS)
    find = f"SELECT id FROM series WHERE ({names}) = ({marks})"  # noqa: S608 - our columns
    insert = f"INSERT INTO series ({names}) VALUES ({marks})"  # noqa: S608
    places = []
    for case in held.cases:
        *key, settings, twin = case.key
        values = (*key, *settings, twin)
        found = connection.execute(find, values).fetchone()
        places.append(connection.execute(insert, values).lastrowid if found is None else found[0])
    outcomes = [
        {**vars(case), "document": number, "series": place}
        for place, case in zip(places, held.cases, strict=True)
    ]
    connection.executemany(
        "INSERT OR REPLACE INTO outcome VALUES (:document, :series, :unit, :name, :family, "
        ":data_type, :path, :status, :reason, :plan, :kernels, :checked)",
        outcomes,
    )
    levels = [
        (number, places[case], held.cases[case].unit, metric, log_mean, variance, rounds)
        for case, metric, log_mean, variance, rounds in held.levels
    ]
    connection.executemany("INSERT OR REPLACE INTO level VALUES (?, ?, ?, ?, ?, ?, ?)", levels)
