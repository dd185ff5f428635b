"""Difference between documents of one build on a machine: estimated from an A/A run, and used in
comparisons of single documents, which cannot estimate it themselves.

An entry holds for one unit of hardware (host and device), one engine and one series.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.estimate import row_mean
from bench_schema.identity import engine_name

from bench_compare.errors import InputError
from bench_compare.input.align import align
from bench_compare.metrics import GATES
from bench_compare.model import Side
from bench_compare.rounds import observations
from bench_compare.statistics.columns import Columns, by_document
from bench_compare.statistics.fits import fit
from bench_compare.statistics.layers import BetweenDocuments
from bench_compare.statistics.variances import BULK_CASES, POOLING_CASES, pooled_variance, prior

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.model import CaseSide, Source

KIND, VERSION = "bench-compare calibration", 1
LEAST_DOCUMENTS = 2


@dataclass(frozen=True)
class Entry:
    """Variances of the logarithm of a case's level between documents, noise of rounds left out."""

    host: str
    device: str
    engine: str
    """Without the path of its plugin."""
    series: str
    documents: int
    cases: int
    common_variance: float
    """Variance that a document adds to all of its cases together."""
    common_dof: float
    own_variance: float
    """Variance that a document adds to each case separately."""
    own_dof: float

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.host, self.device, self.engine, self.series


@dataclass(frozen=True)
class Calibration:
    entries: Mapping[tuple[str, str, str, str], Entry]

    def between(
        self,
        base: Sequence[CaseSide | None],
        other: Sequence[CaseSide | None],
        sides: tuple[Side, Side],
        series: str,
    ) -> BetweenDocuments:
        """Return, for each pair of cases, the mean calibration of both machines; NaN if either is
        missing."""
        found = np.full((4, len(base)), np.nan)
        for row, pair in enumerate(zip(base, other, strict=True)):
            known = []
            for one, side in zip(pair, sides, strict=True):
                if one is not None:
                    document = side.sources[one.sources[-1]].document  # the last with the case
                    engine = next(e for e in document.engines if e.key == one.engine)
                    place = document.machine.host, engine.device, engine_name(one.engine).spec
                    known.append(self.entries.get((*place, series)))
            entries = [entry for entry in known if entry is not None]
            if len(entries) == 2:
                first, second = entries
                found[:, row] = (
                    (first.common_variance + second.common_variance) / 2,
                    min(first.common_dof, second.common_dof),
                    (first.own_variance + second.own_variance) / 2,
                    min(first.own_dof, second.own_dof),
                )
        return BetweenDocuments(*found)


def calibrate(sources: Sequence[Source]) -> Calibration:
    """Calibrate from documents of one build. Raises `InputError` if no machine has two of them."""
    entries = []
    for place, side in _groups(sources):
        cases = [pair.base for pair in align(side, side)]
        measured = observations.gather([case for case in cases if case is not None])
        for series in (name for name in GATES if name in measured.samples):
            matrix, _ = observations.sampled(measured, series)
            columns = Columns(matrix.sources, matrix.rounds, np.zeros_like(matrix.sources))
            entry = _entry((*place, series), matrix.values, columns)
            if entry is not None:
                entries.append(entry)
    if not entries:
        raise InputError(
            "--save-calibration: two documents of one engine on one unit of hardware are needed"
        )
    return Calibration({entry.key: entry for entry in entries})


def _groups(sources: Sequence[Source]) -> Iterator[tuple[tuple[str, str, str], Side]]:
    """Yield (host, device, engine) and the side of the documents that have it."""
    found: dict[tuple[str, str, str], list[tuple[Source, str]]] = {}
    for source in sources:
        for engine in source.document.engines:
            place = (source.document.machine.host, engine.device, engine_name(engine.key).spec)
            found.setdefault(place, []).append((source, engine.key))
    for place, members in found.items():
        held = dict.fromkeys(source for source, _ in members)
        if len(held) >= LEAST_DOCUMENTS:
            keys = tuple(dict.fromkeys(key for _, key in members))
            yield place, Side("calibration", tuple(held), keys)


def _entry(key: tuple[str, str, str, str], values: Any, columns: Columns) -> Entry | None:
    means, at = by_document(values, columns)
    nothing = np.zeros(means.shape[1], np.int64)
    found = fit(means, nothing, nothing)
    known = np.flatnonzero(found.dof > 0)
    if not known.size or found.common_dof <= 0:
        return None
    many = known.size >= BULK_CASES
    own = (found.own_squares if many else found.squares)[known] / found.dof[known]
    pooled = known.size >= POOLING_CASES
    parts = []  # what rounds alone make of the mean of a document
    for number in at.document:
        rounds = values[np.ix_(known, columns.document == number)]
        variance, _ = pooled_variance(rounds, rounds[:, :0])
        parts.append(variance / np.maximum(np.isfinite(rounds).sum(axis=1), 1))
    noise = float(np.nanmean(row_mean(np.stack(parts, axis=1))))
    own_dof = float(prior(own, found.dof[known])[0]) if pooled else float(found.dof[known].min())
    return Entry(
        *key,
        documents=means.shape[1],
        cases=int(known.size),
        common_variance=found.common_variance if many else 0.0,
        common_dof=found.common_dof,
        own_variance=max(float(own.mean()) - noise, 0.0),
        own_dof=own_dof,
    )


def to_tree(calibration: Calibration) -> dict[str, Any]:
    """Return plain values for a file."""
    entries = [asdict(entry) for entry in calibration.entries.values()]
    return {"kind": KIND, "version": VERSION, "entries": entries}


def from_tree(tree: Any, where: str) -> Calibration:
    """Read a calibration. Raises `InputError` with the file and the mistake."""
    if not isinstance(tree, dict) or tree.get("kind") != KIND:
        raise InputError(
            f"{where}: no calibration; bench-compare --aa --save-calibration writes one"
        )
    if tree.get("version") != VERSION:
        raise InputError(
            f"{where}: calibration of version {tree.get('version')}, known is {VERSION}"
        )
    try:
        entries = [Entry(**entry) for entry in tree["entries"]]
    except (KeyError, TypeError) as error:
        raise InputError(f"{where}: an entry of the calibration is damaged: {error}") from None
    for entry in entries:
        _check(entry, where)
    known = {entry.key: entry for entry in entries}
    if len(known) < len(entries):
        raise InputError(f"{where}: two entries of the calibration are of one machine and series")
    return Calibration(known)


MOST_VARIANCE = 100.0
"""Largest variance of a logarithm: documents that differ by a factor of 22,000."""


def _check(entry: Entry, where: str) -> None:
    words = {name: getattr(entry, name) for name in ("host", "device", "engine", "series")}
    variances = entry.common_variance, entry.own_variance
    dofs = entry.common_dof, entry.own_dof
    for name, word in words.items():
        if not isinstance(word, str):
            raise InputError(
                f"{where}: {name} of an entry of the calibration is not a text: {word!r}"
            )
    if not all(_is_number(value) and 0 <= value <= MOST_VARIANCE for value in variances):
        raise InputError(
            f"{where}: a variance of the calibration is not a number from 0 to {MOST_VARIANCE:g}"
        )
    if not all(_is_number(value) and 0 < value < math.inf for value in dofs):
        raise InputError(f"{where}: degrees of freedom of the calibration are not a number above 0")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
