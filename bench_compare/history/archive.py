"""The index as values: builds, documents, series, their levels and outcomes for one metric."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.errors import InputError
from bench_compare.history.builds import (
    Build,
    Doc,
    builds_of,
    doc_of,
    with_distinct_names,
    without_copies,
)
from bench_compare.history.digest import SERIES_SETTINGS
from bench_compare.history.steps.noise import Grid
from bench_compare.metrics import GATES, METRICS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from pathlib import Path

DOCUMENTS = """
SELECT id, path, run_id, parts, label, started, complete, tags, command, graphs_commit,
  (SELECT count(*) FROM outcome WHERE outcome.document = document.id) FROM document
"""


@dataclass(frozen=True)
class CaseOutcome:
    """Outcome of a case in one document."""

    name: str
    path: str
    """Path of the graph in the run."""
    status: str
    reason: str | None
    plan: Mapping[str, str]
    kernels: str | None
    checked: bool = True
    """True if its outputs were compared with a reference."""


@dataclass(frozen=True)
class Series:
    """One row of the grid. Name, family and type are those of its newest document."""

    id: int
    name: str
    engine: str
    variant: Mapping[str, str]
    device_kind: str
    settings: Mapping[str, str]
    """`SERIES_SETTINGS` by name."""
    fingerprint: str
    family: str
    data_type: str
    twin: str
    metric: str
    """Metric of its levels."""

    @property
    def about(self) -> str:
        """Engine and variant."""
        return " ".join([self.engine, *(f"{k}={v}" for k, v in self.variant.items())])


@dataclass(frozen=True)
class ArchiveColumn:
    """A document on one unit of hardware."""

    build: int
    doc: Doc
    unit: str


@dataclass(frozen=True, eq=False)
class Archive:
    metric: str
    """Metric of most series."""
    builds: tuple[Build, ...]
    columns: tuple[ArchiveColumn, ...]
    series: tuple[Series, ...]
    grid: Grid
    outcomes: Mapping[tuple[int, int], CaseOutcome]
    """Outcomes by row and column."""
    facts: Mapping[int, Mapping[str, str]]
    """Facts of each document, by its id."""


@dataclass(frozen=True)
class ArchiveFilter:
    """Selection from the index."""

    folder: Path | None = None
    """Folder that the index's paths are relative to."""
    by: str = "started"
    repo: Path | None = None
    metric: str | None = None
    filter: str | None = None


def load_archive(
    connection: sqlite3.Connection, choice: ArchiveFilter
) -> tuple[Archive, list[str]]:
    """Load an archive, with sentences on parts that were left out. Raises `InputError` if nothing
    is left."""
    rows = connection.execute(DOCUMENTS)
    docs, copies = without_copies(doc_of(row, choice.folder) for row in rows)
    dated, bad = [], []
    for doc in docs:
        try:
            doc.moment  # noqa: B018 - whether it is one
        except ValueError:
            bad.append(f"{doc.path}: left out, its start is not a date: {doc.started!r}")
        else:
            dated.append(doc)
    if not dated:
        raise InputError("no result document is left")
    builds, remarks = builds_of(dated, choice.by, choice.repo)
    builds = with_distinct_names(builds)
    metrics = GATES if choice.metric is None else (choice.metric,)
    # Series → the first of the metrics that any document has of it. Raises `InputError`
    # where no series has one.
    found: dict[int, str] = {}
    for name in metrics:
        query = "SELECT DISTINCT series FROM level WHERE metric = ?"
        for (number,) in connection.execute(query, (name,)):
            found.setdefault(number, name)
    if not found:
        raise InputError(f"no document has {' or '.join(METRICS[name].title for name in metrics)}")
    series = _series(connection, choice.filter, found)
    return _filled(connection, builds, series), [*copies, *bad, *remarks]


def _series(
    connection: sqlite3.Connection, pattern: str | None, metrics: Mapping[int, str]
) -> list[Series]:
    """Return the series by name; one without a metric takes that of the others."""
    usual = Counter(metrics.values()).most_common(1)[0][0]
    latest = {
        row[0]: row[1:]
        for row in connection.execute(
            "SELECT series, name, family, data_type, max(document.started) FROM outcome "
            "JOIN document ON document.id = outcome.document GROUP BY series"
        )
    }
    found = []
    for row in connection.execute("SELECT * FROM series"):
        number, fingerprint, engine, variant, kind, *values, twin = row
        if number not in latest:
            continue
        name, family, data_type, _ = latest[number]
        settings = dict(zip(SERIES_SETTINGS, values, strict=True))
        found.append(
            Series(
                number,
                name,
                engine,
                json.loads(variant),
                kind,
                settings,
                fingerprint,
                family,
                data_type,
                twin,
                metrics.get(number, usual),
            )
        )
    kept = [one for one in found if pattern is None or fits(one, pattern)]
    if found and not kept:
        raise InputError(f"--filter {pattern}: no case fits")
    return sorted(
        kept,
        key=lambda s: (s.name, s.about, s.device_kind, *s.settings.values(), s.fingerprint, s.twin),
    )


def fits(series: Series, pattern: str) -> bool:
    """Return True if every word is a part of name, family or engine, or matches one of them as a
    glob."""
    words = [word.lower() for word in (series.name, series.family, series.about)]
    return all(
        any(part in word or fnmatch(word, part) for word in words)
        for part in pattern.lower().split()
    )


def _filled(
    connection: sqlite3.Connection,
    builds: Sequence[Build],
    series: Sequence[Series],
) -> Archive:
    units_of: dict[int, list[str]] = {}
    query = "SELECT DISTINCT document, unit FROM outcome ORDER BY document, unit"
    for document, unit in connection.execute(query):
        units_of.setdefault(document, []).append(unit)
    columns = [
        ArchiveColumn(number, doc, unit)
        for number, build in enumerate(builds)
        for doc in build.documents
        for unit in units_of.get(doc.id, ())
    ]
    row_of = {one.id: row for row, one in enumerate(series)}
    at = {(column.doc.id, column.unit): place for place, column in enumerate(columns)}
    values = np.full((len(series), len(columns)), np.nan)
    variance = np.zeros_like(values)
    query = "SELECT document, series, unit, log_mean, variance FROM level WHERE metric = ?"
    for metric in dict.fromkeys(one.metric for one in series):
        for document, number, unit, mean, spread in connection.execute(query, (metric,)):
            row, column = row_of.get(number), at.get((document, unit))
            if row is not None and column is not None and series[row].metric == metric:
                values[row, column], variance[row, column] = mean, spread or 0.0
    outcomes = {}
    plan_of = lru_cache(maxsize=None)(json.loads)  # most cases share theirs
    names = "document, series, unit, name, path, status, reason, plan, kernels, checked"
    rows = connection.execute(f"SELECT {names} FROM outcome")  # noqa: S608 - our columns
    for document, number, unit, name, path, status, reason, plan, kernels, checked in rows:
        row, column = row_of.get(number), at.get((document, unit))
        if row is not None and column is not None:
            outcomes[row, column] = CaseOutcome(
                name, path, status, reason, plan_of(plan), kernels, bool(checked)
            )
            if status != "completed":
                values[row, column] = np.nan
    units = {unit: number for number, unit in enumerate(sorted({c.unit for c in columns}))}
    grid = Grid(
        values,
        variance,
        np.array([column.build for column in columns], np.int64),
        np.array([units[column.unit] for column in columns], np.int64),
    )
    facts: dict[int, dict[str, str]] = {column.doc.id: {} for column in columns}
    for document, name, value in connection.execute("SELECT document, name, value FROM fact"):
        if document in facts:
            facts[document][name] = value
    metric = Counter(one.metric for one in series).most_common(1)[0][0]
    return Archive(metric, tuple(builds), tuple(columns), tuple(series), grid, outcomes, facts)
