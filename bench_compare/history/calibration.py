"""Difference between documents of one build on each machine, estimated from an archive.

Its builds differ, but neighbours hardly ever do: the spread comes from differences of documents
that follow each other, without steps (`steps.noise`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.identity import engine_name

from bench_compare.comparison.calibration import Calibration, Entry
from bench_compare.errors import InputError
from bench_compare.history.archive import ArchiveFilter, read_archive
from bench_compare.history.steps.noise import DIFFERENCE_DOF, Grid, tracks_of
from bench_compare.metrics import GATES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench_compare.history.archive import Archive
    from bench_compare.history.steps.noise import Array

LEAST_DOCUMENTS = 4
"""Least number of documents of an engine on a unit of hardware."""


def learned(folder: Path) -> tuple[Calibration, list[str]]:
    """Calibrate from the index of an archive; return remarks on files that were passed over. Raises
    `InputError` if no machine has enough documents."""
    entries: list[Entry] = []
    remarks: list[str] = []
    for metric in GATES:
        try:
            archive, remarks = read_archive([str(folder)], ArchiveFilter("started", metric=metric))
        except InputError:  # no document has that time
            continue
        entries += _entries(archive, metric)
    if not entries:
        raise InputError(
            f"--archive: {folder}: {LEAST_DOCUMENTS} documents of one engine on one unit of "
            "hardware are needed"
        )
    return Calibration({entry.key: entry for entry in entries}), remarks


def _entries(archive: Archive, metric: str) -> Iterator[Entry]:
    grid, places = archive.grid, dict[tuple[str, str], set[int]]()
    for row, column in archive.outcomes:
        place = (archive.series[row].key.engine, archive.columns[column].unit)
        places.setdefault(place, set()).add(row)
    for (engine, unit), known in places.items():
        columns = np.flatnonzero([column.unit == unit for column in archive.columns])
        part = np.ix_(np.array(sorted(known)), columns)
        values, within = grid.values[part], grid.variance[part]
        of_unit = Grid(values, within, grid.build[columns], grid.unit[columns])
        tracks = [one for one in tracks_of(of_unit, 0.0) if math.isfinite(one.variance)]
        documents = int(np.isfinite(values).any(axis=0).sum())
        if documents < LEAST_DOCUMENTS or not tracks:
            continue
        total = float(np.mean([one.variance for one in tracks]))
        common = min(_common(values), total)
        host, device = unit.rsplit(" ", 1)
        yield Entry(
            host=host,
            device=device,
            engine=engine_name(engine).spec,
            series=metric,
            documents=documents,
            cases=len(tracks),
            common_variance=common,
            common_dof=DIFFERENCE_DOF * (documents - 1),
            own_variance=max(total - common - float(np.mean(within[np.isfinite(values)])), 0.0),
            own_dof=min(one.dof for one in tracks),
        )


def _common(values: Array) -> float:
    """Return the variance that all series of a document share: that of their mean, without what
    their own differences add to it."""
    steps = np.diff(values, axis=1)
    steps = steps[:, np.isfinite(steps).sum(axis=0) > 1]
    if not steps.size:
        return 0.0
    means, counts = np.nanmedian(steps, axis=0), np.isfinite(steps).sum(axis=0)
    own = float(np.median(np.nanvar(steps, axis=0, ddof=1) / counts))
    return max((1.4826 * float(np.median(np.abs(means)))) ** 2 - own, 0.0) / 2
