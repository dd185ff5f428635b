"""Difference between documents of one build on each machine, estimated from an archive.

Its builds differ, but neighbours hardly ever do: the spread comes from differences of documents
that follow each other, without steps (`steps.noise`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from bench_schema.identity import engine_name

from bench_compare.comparison.calibration import Calibration, Entry
from bench_compare.errors import InputError
from bench_compare.history.archive import ArchiveFilter, load_archive
from bench_compare.history.index import files_of, indexed
from bench_compare.history.steps.noise import DIFFERENCE_DOF, Grid, noise_of
from bench_compare.metrics import GATES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path


LEAST_DOCUMENTS = 4
"""Least number of documents of an engine on a unit of hardware."""


def learned(folder: Path) -> tuple[Calibration, list[str]]:
    """Calibrate from the index of an archive; return remarks on files that were passed over. Raises
    `InputError` if no machine has enough documents."""
    wanted = {str(path.relative_to(folder)): path for path in files_of([str(folder)])}
    entries, remarks = indexed(folder, wanted, lambda made: list(_entries(made, folder)))
    if not entries:
        raise InputError(
            f"--archive: {folder}: {LEAST_DOCUMENTS} documents of one engine on one unit of "
            "hardware are needed"
        )
    return Calibration({entry.key: entry for entry in entries}), remarks


def _entries(connection: sqlite3.Connection, folder: Path) -> Iterator[Entry]:
    for metric in GATES:
        query = "SELECT 1 FROM level WHERE metric = ? LIMIT 1"
        if connection.execute(query, (metric,)).fetchone() is None:
            continue
        archive, _ = load_archive(connection, ArchiveFilter(folder, metric=metric))
        series_of: dict[tuple[str, str], set[int]] = {}  # by engine and unit of hardware
        for row, column in archive.outcomes:
            place = (archive.series[row].engine, archive.columns[column].unit)
            series_of.setdefault(place, set()).add(row)
        for (engine, unit), known in series_of.items():
            rows = np.array(sorted(known), np.int64)
            columns = np.flatnonzero([column.unit == unit for column in archive.columns])
            grid, part = archive.grid, np.ix_(rows, columns)
            values, within = grid.values[part], grid.variance[part]
            documents = int(np.isfinite(values).any(axis=0).sum())
            if documents < LEAST_DOCUMENTS:
                continue
            noise = noise_of(Grid(values, within, grid.build[columns], grid.unit[columns]))
            has_noise = np.isfinite(noise.variance)
            if not has_noise.any():
                continue
            total = float(noise.variance[has_noise].mean())
            rounds = float(np.mean(within[np.isfinite(values)]))
            common = noise.shared * total
            host, device = unit.rsplit(" ", 1)
            yield Entry(
                host=host,
                device=device,
                engine=engine_name(engine).spec,
                series=metric,
                documents=documents,
                cases=int(has_noise.sum()),
                common_variance=common,
                common_dof=DIFFERENCE_DOF * (documents - 1),
                own_variance=max(total - common - rounds, 0.0),
                own_dof=float(noise.dof[has_noise].min()),
            )
