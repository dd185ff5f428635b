"""Changes other than times: cases that broke, became wrong or unsupported, disappeared, or are
another case now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from bench_compare.metrics import GATES, METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.history.archive import Archive, Series

Kind = Literal["broken", "wrong", "unsupported", "removed", "lost", "benchmark changed"]
KINDS: dict[str, Kind] = {"wrong": "wrong", "unsupported": "unsupported"}
"""Statuses of their own; every other one that is not completed is broken."""
SIMILAR = 0.5
"""A document that holds so much of what another one holds is of the same suite."""
LEAST_ABSENT = 2
"""Documents in a row that should hold a case and do not: one may have been cut short."""


@dataclass(frozen=True)
class StateChange:
    kind: Kind
    row: int
    before: int
    """Last column with the old state."""
    after: int
    """First column with the new one."""
    text: str


def state_changes(archive: Archive) -> list[StateChange]:
    """Return changes that still hold in the newest documents."""
    held: dict[int, list[int]] = {}
    """Columns that hold each row, in order."""
    rows_of: list[set[int]] = [set() for _ in archive.columns]
    for row, column in sorted(archive.outcomes):
        held.setdefault(row, []).append(column)
        rows_of[column].add(row)
    found = []
    for row in range(len(archive.series)):
        columns = held.get(row, [])
        change = (
            _status_change(archive, row, columns)
            or _removal(archive, row, held, rows_of)
            or _loss(archive, row, columns)
        )
        if change is not None:
            found.append(change)
    return found


def _status_change(archive: Archive, row: int, columns: Sequence[int]) -> StateChange | None:
    # Without those of the newest build that completed, if most there did not.
    builds = [archive.columns[column].build for column in columns]
    newest = [c for c, build in zip(columns, builds, strict=True) if build == builds[-1]]
    failed = [c for c in newest if archive.outcomes[row, c].status != "completed"]
    if 2 * len(failed) > len(newest):
        columns = [*columns[: len(columns) - len(newest)], *failed]
    statuses = [archive.outcomes[row, column].status for column in columns]
    if "completed" not in statuses or statuses[-1] == "completed":
        return None
    last = len(statuses) - 1 - statuses[::-1].index("completed")
    after = columns[last + 1]
    outcome = archive.outcomes[row, columns[-1]]
    kind = KINDS.get(outcome.status, "broken")
    text = outcome.status if outcome.reason is None else f"{outcome.status}: {outcome.reason}"
    return StateChange(kind, row, columns[last], after, text)


def _loss(archive: Archive, row: int, columns: Sequence[int]) -> StateChange | None:
    """Return the loss in the newest document of a completed case: its time, or the check of its
    outputs, if all documents before had it."""
    done = [c for c in columns if archive.outcomes[row, c].status == "completed"]
    metric = archive.series[row].metric
    timed = [bool(np.isfinite(archive.grid.values[row, column])) for column in done]
    if metric in GATES and any(timed) and not timed[-1]:
        return _lost(row, done, timed, f"{METRICS[metric].title} is no longer measured")
    checked = [archive.outcomes[row, column].checked for column in done]
    first = checked.index(False) if False in checked else len(done)
    if 0 < first < len(done) and not any(checked[first:]):
        return _lost(row, done, checked, "its outputs are no longer checked")
    return None


def _lost(row: int, columns: Sequence[int], told: Sequence[bool], text: str) -> StateChange:
    last = max(at for at, one in enumerate(told) if one)
    return StateChange("lost", row, columns[last], columns[last + 1], text)


def _removal(
    archive: Archive, row: int, held: dict[int, list[int]], rows_of: list[set[int]]
) -> StateChange | None:
    if row not in held:
        return None
    last, mine = held[row][-1], archive.series[row]
    for other, series in enumerate(archive.series):
        if other == row or (series.name, series.about) != (mine.name, mine.about):
            continue
        later = [column for column in held.get(other, ()) if column > last]
        if later and later[0] == held[other][0]:  # it began after this one ended
            text = f"another case now: {_differs(mine, series)}"
            return StateChange("benchmark changed", row, last, later[0], text)
    kept = rows_of[last] - {row}
    absent = [
        column
        for column in range(last + 1, len(archive.columns))
        if archive.columns[column].build > archive.columns[last].build
        and archive.columns[column].doc.held.complete
        and kept
        and len(rows_of[column] & kept) >= SIMILAR * len(kept)
    ]
    if len(absent) < LEAST_ABSENT:
        return None
    return StateChange("removed", row, last, absent[0], "no longer in the documents")


def _differs(old: Series, new: Series) -> str:
    found = []
    if old.key.fingerprint != new.key.fingerprint:
        found.append("the graph's meaning changed (shapes, types or parameters)")
    was, now = old.circumstances, new.circumstances
    found += [f"{was[name]} → {now[name]}" for name in was if was[name] != now[name]]
    return ", ".join(found) or "it is told apart by its path"
