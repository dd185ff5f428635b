"""Difference between documents of one build on a machine: estimated from an A/A run, and used in
comparisons of single documents, which cannot estimate it themselves.

An entry holds for one unit of hardware (host and device), one engine and one series.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec
import numpy as np
from bench_schema.identity import engine_name

from bench_compare.comparison.judge import Extra
from bench_compare.comparison.measure import measure
from bench_compare.errors import InputError
from bench_compare.input.align import align
from bench_compare.metrics import GATES
from bench_compare.model import Side

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.comparison.measure import Array, Units
    from bench_compare.model import CaseSide, Source

LEAST_DOCUMENTS = 2
LEAST_CASES = 10
"""Fewer do not tell what all cases of a document share."""
MOST_DOF = 12.0
"""Many cases know their spread between documents well, and it is not the same for all of them."""


Variance: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=100)]
"""Variance of a logarithm; at 100 documents differ by a factor of 22,000."""
Dof: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1e9)]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Variances of the logarithm of a case's level between documents, noise of rounds left out."""

    host: str
    device: str
    engine: str
    """Name without the path of its plugin."""
    series: str
    documents: int
    cases: int
    common_variance: Variance
    """Variance that a document adds to all of its cases together."""
    common_dof: Dof
    own_variance: Variance
    """Variance that a document adds to each case separately."""
    own_dof: Dof

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.host, self.device, self.engine, self.series


@dataclass(frozen=True)
class Calibration:
    entries: Mapping[tuple[str, str, str, str], Entry]

    def between(
        self,
        cases: tuple[Sequence[CaseSide | None], Sequence[CaseSide | None]],
        sides: tuple[Side, Side],
        series: str,
    ) -> Extra:
        """Return, for each pair of cases, the mean calibration of both machines; NaN if either is
        missing."""
        found = np.full((2, len(cases[0])), np.nan)
        for row, pair in enumerate(zip(*cases, strict=True)):
            known = []
            for one, side in zip(pair, sides, strict=True):
                if one is not None:
                    document = side.sources[one.sources[-1]].document  # the last with the case
                    engine = next(e for e in document.engines if e.key == one.engine)
                    place = document.machine.host, engine.device, engine_name(one.engine).spec
                    known.append(self.entries.get((*place, series)))
            entries = [entry for entry in known if entry is not None]
            if len(entries) == 2:
                variance = sum(entry.common_variance + entry.own_variance for entry in entries) / 2
                dof = min(min(entry.common_dof, entry.own_dof) for entry in entries)
                found[:, row] = variance, dof
        return Extra(*found)


def calibrate(sources: Sequence[Source]) -> Calibration:
    """Calibrate from documents of one build. Raises `InputError` if no machine has two of them."""
    entries = []
    for place, side in _groups(sources):
        measured = measure(align(side, side), (side, side))
        for series in (name for name in GATES if measured.has(name)):
            entry = _entry((*place, series), *measured.metric(series))
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


def _entry(key: tuple[str, str, str, str], units: Units, values: Array) -> Entry | None:
    """Return the variances of documents: what all cases of a document share, and each case's own,
    without the noise of rounds."""
    first = units["side"] == 0
    units, values = units[first], values[first]
    runs, run = np.unique(units["run"], return_inverse=True)
    shape = int(units["case"].max(initial=-1)) + 1, len(runs)
    place = units["case"] * shape[1] + run
    count = np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.bincount(place, values, count.size).reshape(shape) / count
        squares = (values - level.ravel()[place]) ** 2
        inside = np.bincount(place, squares, count.size).reshape(shape) / (count - 1) / count
    whole = np.flatnonzero((count > 0).all(axis=1))
    if not whole.size or shape[1] < LEAST_DOCUMENTS:
        return None
    moves = level[whole] - level[whole].mean(axis=1, keepdims=True)
    noise = float(np.nan_to_num(np.nanmean(inside[whole])) if (count[whole] > 1).any() else 0.0)
    dof = shape[1] - 1.0
    common = moves.mean(axis=0) if len(whole) >= LEAST_CASES else np.zeros(shape[1])
    own_dof = dof * (len(whole) - 1) if common.any() else dof * len(whole)
    own = float(((moves - common) ** 2).sum()) / own_dof
    return Entry(
        *key,
        documents=shape[1],
        cases=len(whole),
        common_variance=max(float((common**2).sum()) / dof - own / len(whole), 0.0),
        common_dof=dof,
        own_variance=max(own - noise, 0.0),
        own_dof=min(own_dof, MOST_DOF),
    )


class Stored(msgspec.Struct, forbid_unknown_fields=True):
    """A calibration as a file."""

    kind: Literal["bench-compare calibration"]
    version: Literal[1]
    entries: tuple[Entry, ...]


def to_json(calibration: Calibration) -> bytes:
    """Return the text of a file."""
    stored = Stored("bench-compare calibration", 1, tuple(calibration.entries.values()))
    return msgspec.json.format(msgspec.json.encode(stored)) + b"\n"


def from_json(data: bytes, where: str) -> Calibration:
    """Read a calibration. Raises `InputError` with the file and the mistake."""
    try:
        entries = msgspec.json.decode(data, type=Stored).entries
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{where}: not a calibration: {error}; bench-compare --aa --save-calibration writes one"
        ) from None
    known = {entry.key: entry for entry in entries}
    if len(known) < len(entries):
        raise InputError(f"{where}: two entries of the calibration are of one machine and series")
    return Calibration(known)
