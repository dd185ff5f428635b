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

    from bench_compare.model import Side


@dataclass(frozen=True, eq=False)
class Pair:
    """A case of base, of other, or of both."""

    base: CaseSide | None
    other: CaseSide | None
    apart: Mapping[str, object] = field(default_factory=dict)
    """What told it from other cases of its graph (`bench_schema.identity.CaseGroup`)."""
    unlike: str | None = None
    """Why the two must not be compared, though they look like the same case."""

    @property
    def side(self) -> CaseSide:
        """Other, if it is there."""
        side = self.base if self.other is None else self.other
        assert side is not None, "a pair has a side"
        return side

    @property
    def name(self) -> str:
        """Of the graph; with the end of its path where a twin has it."""
        end = self.apart.get("path")
        return f"{self.side.name} ({'/'.join(end)})" if isinstance(end, tuple) else self.side.name

    @property
    def fingerprint(self) -> str:
        """Of the graph as it was given, where one of the sides has it so."""
        sides = [side for side in (self.other, self.base) if side is not None]
        given = [side for side in sides if not is_tuned(side.cases[-1])]
        return (*given, *sides)[0].cases[-1].graph.fingerprint

    @property
    def engine(self) -> str:
        """What the user calls it, ``a → b`` where the sides differ; with its circumstances where
        these tell the case from others."""
        keys = [side.engine for side in (self.base, self.other) if side is not None]
        if self.apart.keys().isdisjoint(CIRCUMSTANCES):
            keys = [engine_name(key).spec for key in keys]
        return " → ".join(dict.fromkeys(keys))


def align(base: Side, other: Side) -> list[Pair]:
    """Pairs in the order of base, then what only other has. Raises `InputError` for duplicates."""
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
    return _mark_unlike(_with_missing(pairs, sides))


def _case_side(side: Side, held: Sequence[tuple[int, Case]]) -> CaseSide | None:
    """Raises `InputError` where a document holds it twice."""
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


def _with_missing(pairs: Sequence[Pair], sides: tuple[Side, Side]) -> list[Pair]:
    """Each case with the number of documents that should hold it and do not: those that hold
    another case of its piece. A piece is what documents of either side hold together, so that a
    suite that is split over documents misses nothing."""
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
    missing: list[list[int]] = []
    for number, side in enumerate(sides):
        holders: dict[int, set[int]] = defaultdict(set)
        for first, pair in zip(piece, pairs, strict=True):
            one = (pair.base, pair.other)[number]
            holders[first].update(() if one is None else one.sources)
        empty = set(range(len(side.sources))) - set().union(*holders.values())
        missing.append([len(holders[first] | empty) for first in piece])
    return [
        replace(pair, base=_lacking(pair.base, base), other=_lacking(pair.other, other))
        for pair, base, other in zip(pairs, *missing, strict=True)
    ]


def _lacking(one: CaseSide | None, holding: int) -> CaseSide | None:
    lacks = 0 if one is None else holding - len(one.sources)
    return replace(one, missing=lacks) if one is not None and lacks else one


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
    """What differs of two graphs of one name; None where they are one graph."""
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
    """What the user calls the engines of base and of other, where they are not the same."""
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
