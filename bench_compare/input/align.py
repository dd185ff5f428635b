"""Cases of two sides into pairs, as `bench_schema.identity` says which is which.

The same name with another meaning is a row of its own and no comparison.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench_schema.identity import (
    CIRCUMSTANCES,
    CaseIdentity,
    PlacedCase,
    engine_name,
    gather,
    identify,
    is_tuned,
    variant_key,
)

from bench_compare.errors import InputError
from bench_compare.model import CaseSide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Case

    from bench_compare.model import Side, Source


@dataclass(frozen=True, eq=False)
class Pair:
    """A case of base, of other, or of both."""

    base: CaseSide | None
    other: CaseSide | None
    apart: Mapping[str, object] = field(default_factory=dict)
    """Values that separate it from other cases of its graph (`bench_schema.identity.CaseGroup`)."""
    unlike: str | None = None
    """Why the two must not be compared, though they look like the same case."""
    awaited: bool = False
    """True if the run of the side without the case has not ended."""

    @property
    def side(self) -> CaseSide:
        """Other, if it is there."""
        side = self.base if self.other is None else self.other
        assert side is not None, "a pair has a side"
        return side

    @property
    def name(self) -> str:
        """Return the name of the graph, with the end of its path if a twin has the same."""
        end = self.apart.get("path")
        return f"{self.side.name} ({'/'.join(end)})" if isinstance(end, tuple) else self.side.name

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the original graph, if one of the sides has it."""
        sides = [side for side in (self.other, self.base) if side is not None]
        given = [side for side in sides if not is_tuned(side.cases[-1])]
        return (*given, *sides)[0].cases[-1].graph.fingerprint

    @property
    def engine(self) -> str:
        """Return the user's engine name, ``a → b`` if the sides differ, with its circumstances if
        these separate the case from others."""
        keys = [side.engine for side in (self.base, self.other) if side is not None]
        if self.apart.keys().isdisjoint(CIRCUMSTANCES):
            keys = [engine_name(key).spec for key in keys]
        return " → ".join(dict.fromkeys(keys))


def align(base: Side, other: Side) -> list[Pair]:
    """Return the pairs in the order of base, then the cases that only other has. Raises
    `InputError` for duplicates."""
    sides = (base, other)
    held: list[PlacedCase] = []
    flat: list[tuple[int, Case]] = []
    for place, side in enumerate(sides):
        for number, source in enumerate(side.sources):
            engines = {engine.key: engine for engine in source.document.engines}
            for case in source.document.cases:
                if case.engine in side.engines:
                    held.append(PlacedCase(place, number, identify(case, engines[case.engine])))
                    flat.append((number, case))
    pairs = []
    for group in gather(held):
        found: list[list[tuple[int, Case]]] = [[], []]
        for place in group.members:
            found[held[place].side].append(flat[place])
        first, second = (_case_side(*one) for one in zip(sides, found, strict=True))
        pairs.append(Pair(first, second, group.apart))
    return _mark_unlike(_with_missing(_without_candidates(pairs, sides), sides))


def _without_candidates(pairs: list[Pair], sides: tuple[Side, Side]) -> list[Pair]:
    """Return the pairs without the candidates of a tuning that only it measured, of graphs that
    both sides measured: what was not chosen is not missing."""
    tunings = [all(map(_is_tuning, side.sources)) for side in sides]
    if all(tunings):
        return [pair for pair in pairs if not _is_only_out(pair, sides)]
    if not any(tunings):
        return pairs
    shared = {pair.name for pair in pairs if pair.base is not None and pair.other is not None}
    return [
        pair
        for pair in pairs
        if pair.name not in shared
        or not ((pair.other is None and tunings[0]) or (pair.base is None and tunings[1]))
    ]


def _is_only_out(pair: Pair, sides: tuple[Side, Side]) -> bool:
    """Return True if one of two tunings lacks the case because it was too slow there to get
    ordinary rounds, or because that tuning did not ask for it. A plan that its library does not
    list, or that does not run, is news."""
    if pair.base is not None and pair.other is not None:
        return False
    variant = pair.side.cases[-1].variant
    tuned = sides[0 if pair.base is None else 1].sources[-1].document.tuned
    entries = [] if tuned is None else [e for e in tuned.entries if e.name == pair.side.name]
    if tuned is None or not entries:
        return False
    candidates = [each for entry in entries for each in entry.candidates]
    same = [each for each in candidates if each.case_variant == variant]
    if same:
        return any(each.status in OUT for each in same)
    return not any(text.endswith("=all") for text in tuned.space)


OUT = ("ok", "duplicate", "over a limit", "not tried")
"""States of a candidate that a tuning knows and that is not broken."""


def _is_tuning(source: Source) -> bool:
    """Return True for the document of a tuning, in which each graph has several candidates."""
    document = source.document
    return document.tuned is not None or document.run.settings.until == "settled"


def _case_side(side: Side, held: Sequence[tuple[int, Case]]) -> CaseSide | None:
    """Return the cases of a side. Raises `InputError` if a document has one twice."""
    if not held:
        return None
    first: dict[int, Case] = {}
    for number, case in held:
        if first.setdefault(number, case) is not case:
            raise InputError(
                f"{side.sources[number].path}: graph {case.graph.name!r} on engine "
                f"{case.engine!r} is there twice (cases {first[number].id} and {case.id}): "
                "duplicate cases cannot be compared"
            )
    last = held[-1][1]
    return CaseSide(last.graph.name, last.engine, tuple(first.values()), tuple(first))


def whole_runs(
    sides: Sequence[Side], cases: Sequence[Sequence[CaseSide | None]]
) -> list[list[str]]:
    """Return the run of each source of each side; `cases` are parallel to one another. Documents of
    a side that share no case are parts of one run of the suite, in the order of their start: a
    suite in pieces has the answers of the whole."""
    runs = [[source.document.run for source in side.sources] for side in sides]
    starts = {run.id: run.started for side in reversed(runs) for run in side}
    if max(map(len, runs)) < 2:
        return [[run.id for run in side] for side in runs]
    held: dict[str, set[tuple[int, int]]] = {run: set() for run in starts}
    for number, of_side in enumerate(cases):
        for row, one in enumerate(of_side):
            for source in () if one is None else one.sources:
                held[runs[number][source].id].add((number, row))
    part_of: dict[str, str] = {}
    for run in sorted(held, key=lambda run: (starts[run], run)):
        mine = held[run]
        of_sides = {number for number, _ in mine}
        for whole in dict.fromkeys(part_of.values()) if mine else ():
            if mine.isdisjoint(held[whole]) and of_sides == {number for number, _ in held[whole]}:
                held[whole] |= mine
                part_of[run] = whole
                break
        else:
            part_of[run] = run
    return [[part_of[run.id] for run in side] for side in runs]


def _with_missing(pairs: Sequence[Pair], sides: tuple[Side, Side]) -> list[Pair]:
    """Return each case with the number of runs that should have it and do not: those with another
    case of its piece. A piece is a set of cases that are linked by documents of either side with
    several of them, so that a suite that is split over documents misses nothing."""
    leader = list(range(len(pairs)))

    def leader_of(place: int) -> int:
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    known: dict[tuple[int, int], int] = {}
    for place, pair in enumerate(pairs):
        for at, one in enumerate((pair.base, pair.other)):
            for number in () if one is None else one.sources:
                leader[leader_of(place)] = leader_of(known.setdefault((at, number), place))
    piece = [leader_of(place) for place in range(len(pairs))]
    of_sides = [pair.base for pair in pairs], [pair.other for pair in pairs]
    complete: list[list[CaseSide | None]] = []
    for side, runs, cases in zip(sides, whole_runs(sides, of_sides), of_sides, strict=True):
        holders: dict[int, set[str]] = defaultdict(set)
        holds = [{runs[number] for number in (one.sources if one else ())} for one in cases]
        for first, mine in zip(piece, holds, strict=True):
            holders[first] |= mine
        empty = set(runs).difference(*holders.values())
        yet = {run for run, one in zip(runs, side.sources, strict=True) if _runs_on(one)}
        lacks = [(holders[first] | empty) - mine for first, mine in zip(piece, holds, strict=True)]
        complete.append(
            [
                replace(one, missing=len(runs_without - yet), awaited=len(runs_without & yet))
                if one is not None and runs_without
                else one
                for one, runs_without in zip(cases, lacks, strict=True)
            ]
        )
    on = [any(map(_runs_on, side.sources)) for side in sides]
    return [
        replace(
            pair,
            base=base,
            other=other,
            awaited=(base is None and on[0]) or (other is None and on[1]),
        )
        for pair, base, other in zip(pairs, *complete, strict=True)
    ]


def _runs_on(source: Source) -> bool:
    """Return True if the run has not ended: what is not there may come."""
    return not source.document.run.complete


def _mark_unlike(pairs: Sequence[Pair]) -> list[Pair]:
    """Join what only base and only other have of one name, as far as their engines and variants are
    not several."""
    alone = [pair for pair in pairs if pair.base is None or pair.other is None]
    held = []
    for pair in alone:
        case = pair.side.cases[-1]
        name, variant = case.graph.name, variant_key(case.variant)
        identity = CaseIdentity(f"name:{name}", name, case.graph.path, case.engine, variant)
        held.append(PlacedCase(int(pair.base is None), 0, identity))
    joined: dict[int, Pair | None] = {}
    for group in gather(held):
        if len(group.members) == 2:
            first, second = (alone[place] for place in group.members)
            if first.other is not None:
                first, second = second, first
            if first.base is not None and second.other is not None:
                unlike = _unlike(first.base.cases[0], second.other.cases[0])
                if unlike is not None:
                    joined[id(first)] = replace(first, other=second.other, unlike=unlike)
                    joined[id(second)] = None
    every = (joined.get(id(pair), pair) for pair in pairs)
    return [pair for pair in every if pair is not None]


def _unlike(base: Case, other: Case) -> str | None:
    """Return the difference of two graphs with one name; None if they are the same graph."""
    first, second = base.graph, other.graph
    if first.fingerprint == second.fingerprint:
        return None
    if first.data_type != second.data_type:
        return (
            f"same name, another data type: {first.data_type} in base, {second.data_type} in other"
        )
    prints = f"{first.fingerprint[:12]}, {second.fingerprint[:12]}"
    return f"same name, another meaning: shapes, types or parameters differ ({prints})"


def engines_compared(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    """Return the user's engine names of base and of other, if they differ."""
    return list(
        dict.fromkeys(
            (first, second)
            for pair in pairs
            if pair.base is not None and pair.other is not None
            for first, second in [
                (engine_name(pair.base.engine).spec, engine_name(pair.other.engine).spec)
            ]
            if first != second
        )
    )
