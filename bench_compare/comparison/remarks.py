"""What is said of the cases of two sides apart from their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bench_compare.comparison.circumstances.notes import case_notes, sample_notes
from bench_compare.comparison.judging.estimates import Measured
from bench_compare.comparison.outcomes import changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_compare.comparison.judging.estimates import ExactMeasured
    from bench_compare.input.align import Pair
    from bench_compare.model import Change, Note, Side, SideName

SampleNotes: TypeAlias = "Mapping[tuple[str, int], Sequence[Note]]"
"""On the samples of a side, by metric and row."""


class Remarks(NamedTuple):
    """On each pair."""

    changes: Sequence[tuple[Change, ...]]
    notes: Sequence[Sequence[Note]]
    base: SampleNotes
    other: SampleNotes


def makers(
    pairs: Sequence[Pair],
    sides: tuple[Side, Side],
    measured: Mapping[str, Measured | ExactMeasured],
) -> list[Callable[[], Any]]:
    """What makes each field of `Remarks`; none needs another."""
    return [
        lambda: [() if one.unlike is not None else changes(one.base, one.other) for one in pairs],
        lambda: [[*_case_notes(pair, *sides)] for pair in pairs],
        lambda: _notes_on_samples(measured, "base"),
        lambda: _notes_on_samples(measured, "other"),
    ]


def _case_notes(pair: Pair, base: Side, other: Side) -> Iterator[Note]:
    if pair.base is not None:
        yield from case_notes(pair.base, base, "base")
    if pair.other is not None:
        yield from case_notes(pair.other, other, "other")


def _notes_on_samples(
    measured: Mapping[str, Measured | ExactMeasured], side: SideName
) -> SampleNotes:
    """Of every gate metric."""
    notes: dict[tuple[str, int], list[Note]] = {}
    for name, one in measured.items():
        if isinstance(one, Measured) and one.samples is not None and one.metric.gates:
            samples = one.samples[side == "other"]
            found = sample_notes(samples, len(one.base_level), side)
            notes |= {(name, row): some for row, some in found.items()}
    return notes
