"""An archive as values: builds, documents, series, their levels and outcomes for one metric."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.errors import InputError
from bench_compare.history.builds import Build, Doc, builds_of, without_copies
from bench_compare.history.digest import SERIES_SETTINGS
from bench_compare.history.index import digests
from bench_compare.history.steps.noise import Grid
from bench_compare.input.load import files_of
from bench_compare.metrics import GATES, METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.history.digest import CaseRow, Digest, SeriesKey

MOST_NAMED = 3


@dataclass(frozen=True)
class Series:
    """One row of the grid. Name and family are those of its newest document."""

    key: SeriesKey
    name: str
    family: str
    metric: str
    """Metric of its levels."""

    @property
    def circumstances(self) -> dict[str, str]:
        """Texts of how it was measured: engine and variant, device, settings."""
        named = zip(SERIES_SETTINGS, self.key.settings, strict=True)
        settings = {name: f"{name} {value}" for name, value in named}
        return {"engine": self.about, "device": f"device {self.key.device_kind}", **settings}

    @property
    def about(self) -> str:
        """Engine and variant."""
        variant = json.loads(self.key.variant).items()
        return " ".join([self.key.engine, *(f"{name}={value}" for name, value in variant)])


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
    outcomes: Mapping[tuple[int, int], CaseRow]
    """Cases by row and column."""


@dataclass(frozen=True)
class ArchiveFilter:
    """Selection from an archive."""

    by: str | None = None
    """Order of `builds`; None: by commit if each document has that tag, and not all the same,
    otherwise by start."""
    repo: Path | None = None
    metric: str | None = None
    filter: str | None = None


def read_archive(patterns: Sequence[str], choice: ArchiveFilter) -> tuple[Archive, list[str]]:
    """Read the documents of folders or files through the index; return sentences on parts that were
    left out. Raises `InputError` if nothing is left."""
    folder = Path(patterns[0]) if len(patterns) == 1 and Path(patterns[0]).is_dir() else None
    wanted = {}
    for path, is_named in files_of(patterns):
        if is_named and not path.exists():
            raise InputError(f"{path}: no such file or folder")
        name = str(path if folder is None else path.relative_to(folder))
        wanted[name.encode("utf-8", "backslashreplace").decode()] = path
    found, remarks = digests(folder, wanted)
    held = {str(wanted[name]): one for name, one in found.items()}
    try:
        archive, more = archive_of(held, choice)
    except InputError as error:
        if remarks:  # most likely the reason
            raise InputError(f"{error}; {'; '.join(remarks[:MOST_NAMED])}") from None
        raise
    return archive, [*remarks, *more]


def archive_of(held: Mapping[str, Digest], choice: ArchiveFilter) -> tuple[Archive, list[str]]:
    """Return the archive of documents, by path, and remarks. Raises `InputError`."""
    docs, remarks = without_copies(Doc(path, one) for path, one in held.items())
    if not docs:
        raise InputError("no result document is left")
    commits = {doc.held.tags.get("commit") for doc in docs}
    by = choice.by or ("started" if None in commits or len(commits) == 1 else "commit")
    builds, more = builds_of(docs, by, choice.repo)
    kept = [doc for build in builds for doc in build.documents]
    series = _series([doc.held for doc in kept], choice)
    rows = {one.key: row for row, one in enumerate(series)}
    columns = [
        ArchiveColumn(number, doc, unit)
        for number, build in enumerate(builds)
        for doc in build.documents
        for unit in sorted({case.unit for case in doc.held.cases})
    ]
    values = np.full((len(series), len(columns)), np.nan)
    variance = np.zeros_like(values)
    outcomes = {}
    for at, column in enumerate(columns):
        for case in column.doc.held.cases:
            row = rows.get(case.key)
            if row is not None and case.unit == column.unit:
                outcomes[row, at] = case
                for level in case.levels:
                    if level.metric == series[row].metric:
                        values[row, at], variance[row, at] = level.log_mean, level.variance
    units = {unit: number for number, unit in enumerate(sorted({c.unit for c in columns}))}
    grid = Grid(
        values,
        variance,
        np.array([column.build for column in columns], np.int64),
        np.array([units[column.unit] for column in columns], np.int64),
    )
    metric = Counter(one.metric for one in series).most_common(1)[0][0]
    made = Archive(metric, tuple(builds), tuple(columns), tuple(series), grid, outcomes)
    return made, [*remarks, *more]


def _series(held: Sequence[Digest], choice: ArchiveFilter) -> list[Series]:
    """Return the series by name, of documents from the oldest on; one without a metric takes that
    of the others. Raises `InputError` where none has one, or none fits."""
    names = GATES if choice.metric is None else (choice.metric,)
    latest: dict[SeriesKey, CaseRow] = {}
    seen: dict[SeriesKey, set[str]] = {}
    for one in held:
        for case in one.cases:
            latest[case.key] = case
            seen.setdefault(case.key, set()).update(level.metric for level in case.levels)
    metrics = {key: next((n for n in names if n in has), None) for key, has in seen.items()}
    times = Counter(name for name in metrics.values() if name is not None)
    if not times:
        raise InputError(f"no document has {' or '.join(METRICS[name].title for name in names)}")
    usual = times.most_common(1)[0][0]
    found = [
        Series(key, case.name, case.family, metrics[key] or usual) for key, case in latest.items()
    ]
    kept = [one for one in found if choice.filter is None or fits(one, choice.filter)]
    if not kept:
        raise InputError(f"--filter {choice.filter}: no case fits")
    return sorted(kept, key=lambda one: (one.name, one.about, one.key))


def fits(series: Series, pattern: str) -> bool:
    """Return True if every word is a part of name, family or engine, or matches one of them as a
    glob."""
    words = [word.lower() for word in (series.name, series.family, series.about)]
    return all(
        any(part in word or fnmatch(word, part) for word in words)
        for part in pattern.lower().split()
    )
