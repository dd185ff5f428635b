"""Which case is which: the same graph meaning, variant and engine on both sides.

Names do not align cases, meanings do, so a renamed graph meets itself. The same name with another
meaning is a row of its own and no comparison.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bench_compare.errors import InputError
from bench_compare.model import CaseSide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench_schema.document import Case

    from bench_compare.model import Side


class Key(NamedTuple):
    fingerprint: str
    engine: str
    """Without the path of its plugin: two builds of one engine meet. Empty where engines are what
    is compared."""
    variant: tuple[tuple[str, str], ...]
    twin: str
    """Name of the graph, and the end of its path where names do not tell it apart, where a document
    holds the same meaning more than once; else empty."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A case of base, of other, or of both."""

    key: Key
    base: CaseSide | None
    other: CaseSide | None
    unlike: str | None = None
    """Why the two must not be compared, though they look like the same case."""

    @property
    def name(self) -> str:
        """Of the graph, other's if there is one; with the end of its path where a twin has it."""
        side = self.base if self.other is None else self.other
        assert side is not None, "a pair has a side"
        end = self.key.twin.removesuffix(side.name).removesuffix("/")
        return f"{side.name} ({end})" if end else side.name


def identity(engine_key: str) -> str:
    """What is left of an engine's key without ``@PATH``."""
    return engine_key.split("@", 1)[0]


def engine_names(sides: Iterable[Side]) -> dict[str, str]:
    """Engine key → the name it aligns by. A document that runs one engine from several plugin
    paths keeps them apart, in all documents."""
    keys = list(dict.fromkeys(key for side in sides for key in side.engines))
    documents = [source.document for side in sides for source in side.sources]
    crowded = {
        name
        for document in documents
        for name, count in Counter(identity(e.key) for e in document.engines).items()
        if count > 1
    }
    return {key: key if identity(key) in crowded else identity(key) for key in keys}


def across_engines(base: Side, other: Side) -> bool:
    """Whether engines are what differs: each side has one, and not the same."""
    names = engine_names((base, other))
    return (
        len(base.engines) == len(other.engines) == 1
        and names[base.engines[0]] != names[other.engines[0]]
    )


def align(base: Side, other: Side) -> list[Pair]:
    """Pairs in the order of base, then what only other has. Raises `InputError` for duplicates."""
    names = engine_names((base, other))
    if across_engines(base, other):
        names = dict.fromkeys(names, "")
    keyed = [list(_keys(side, names)) for side in (base, other)]
    twins = _twins(keyed)
    depth = _path_depth(keyed, twins)
    left, right = (
        _cases(side, keys, twins, depth) for side, keys in zip((base, other), keyed, strict=True)
    )
    left, right = _with_missing((base, left), (other, right))
    if _foreign(left) != _foreign(right):
        left, right = _by_name(left), _by_name(right)
    pairs = [Pair(key, side, right.get(key)) for key, side in left.items()]
    pairs += [Pair(key, None, side) for key, side in right.items() if key not in left]
    return list(_mark_unlike(pairs))


Keyed: TypeAlias = "list[tuple[int, Case, Key]]"
"""Number of the document in its side, a case of it, and what it aligns by."""


def _keys(side: Side, names: dict[str, str]) -> Iterator[tuple[int, Case, Key]]:
    engines = set(side.engines)
    for number, source in enumerate(side.sources):
        for case in source.document.cases:
            if case.engine in engines:
                variant = tuple(sorted(case.variant.items())) if case.variant else ()
                yield number, case, Key(case.graph.fingerprint, names[case.engine], variant, "")


def _twins(sides: Iterable[Keyed]) -> set[Key]:
    """Keys that some document holds more than once: the same graph under several names."""
    counted = (Counter((number, key) for number, _, key in keys) for keys in sides)
    return {key for counts in counted for (_, key), times in counts.items() if times > 1}


def _path_depth(sides: Iterable[Keyed], twins: set[Key]) -> int:
    """How many last parts of their paths tell twins of one name apart; 0 where names do."""
    groups: dict[object, list[tuple[str, ...]]] = defaultdict(list)
    for side, keys in enumerate(sides):
        for number, case, key in keys:
            if key in twins:
                path = PurePath(case.graph.path).parts
                groups[side, number, key, case.graph.name].append(path)
    depth = 0
    for paths in groups.values():
        while len({path[len(path) - min(depth, len(path)) :] for path in paths}) < len(set(paths)):
            depth += 1
    return depth


def _twin(case: Case, depth: int) -> str:
    return (
        "/".join((*PurePath(case.graph.path).parts[-depth:], case.graph.name))
        if depth
        else (case.graph.name)
    )


def _cases(side: Side, keys: Keyed, twins: set[Key], depth: int) -> dict[Key, CaseSide]:
    found: dict[Key, list[tuple[int, Case]]] = defaultdict(list)
    for number, case, plain in keys:
        key = plain._replace(twin=_twin(case, depth)) if plain in twins else plain
        held = found[key]
        if held and held[-1][0] == number:
            _refuse(side, number, held[-1][1], case)
        held.append((number, case))
    return {key: _case_side(held) for key, held in found.items()}


def _with_missing(
    *sides: tuple[Side, dict[Key, CaseSide]],
) -> list[dict[Key, CaseSide]]:
    """Each case with the number of documents that should hold it and do not: those that hold
    another case of its piece. A piece is what documents of either side hold together, so that a
    suite that is split over documents misses nothing."""
    piece = _pieces([cases for _, cases in sides])
    result = []
    for side, cases in sides:
        holders: dict[Key, set[int]] = defaultdict(set)
        for key, one in cases.items():
            holders[piece[key]].update(one.sources)
        empty = set(range(len(side.sources))) - set().union(*holders.values())
        holding = {first: len(held | empty) for first, held in holders.items()}
        result.append(
            {
                key: replace(one, missing=missing) if missing else one
                for key, one in cases.items()
                for missing in (holding[piece[key]] - len(one.sources),)
            }
        )
    return result


def _pieces(sides: Iterable[dict[Key, CaseSide]]) -> dict[Key, Key]:
    """Each case to the first one of its piece."""
    leader: dict[Key, Key] = {}

    def first(key: Key) -> Key:
        while leader[key] != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    for cases in sides:
        held: dict[int, Key] = {}
        for key, one in cases.items():
            leader.setdefault(key, key)
            for number in one.sources:
                leader[first(key)] = first(held.setdefault(number, key))
    return {key: first(key) for key in leader}


def _case_side(held: list[tuple[int, Case]]) -> CaseSide:
    last = held[-1][1]
    numbers, cases = zip(*held, strict=True)
    return CaseSide(last.graph.name, last.engine, cases, numbers)


def _refuse(side: Side, number: int, first: Case, second: Case) -> None:
    path = side.sources[number].path
    raise InputError(
        f"{path}: graph {second.graph.name!r} on engine {second.engine!r} is there twice "
        f"(cases {first.id} and {second.id}): duplicate cases cannot be compared"
    )


def _foreign(cases: dict[Key, CaseSide]) -> set[str]:
    """The kinds of fingerprint in use: our own have none, imported ones start with ``kind:``."""
    return {key.fingerprint.partition(":")[0] if ":" in key.fingerprint else "" for key in cases}


def _by_name(cases: dict[Key, CaseSide]) -> dict[Key, CaseSide]:
    """The same cases under their names, which is all that documents of two tools share. Of several
    with one name the first stays under it."""
    renamed: dict[Key, CaseSide] = {}
    for key, side in cases.items():
        by_name = Key(f"name:{side.name}", key.engine, key.variant, "")
        renamed[key if by_name in renamed else by_name] = side
    return renamed


def _mark_unlike(pairs: list[Pair]) -> Iterator[Pair]:
    """Join what only base and only other have where name, engine and variant are the same."""
    waiting: dict[tuple[object, ...], Pair] = {}
    for pair in pairs:
        if pair.base is None and pair.other is not None:
            waiting.setdefault((pair.other.name, pair.key.engine, pair.key.variant), pair)
    joined: set[int] = set()
    result = []
    for pair in pairs:
        partner = None
        if pair.other is None and pair.base is not None:
            partner = waiting.get((pair.base.name, pair.key.engine, pair.key.variant))
        if partner is None or id(partner) in joined:
            result.append(pair)
            continue
        joined.add(id(partner))
        result.append(Pair(pair.key, pair.base, partner.other, _unlike(pair, partner)))
    return (pair for pair in result if id(pair) not in joined)


def _unlike(pair: Pair, partner: Pair) -> str:
    assert pair.base is not None, "only what base has looks for a partner"
    assert partner.other is not None, "only what other has waits for one"
    types = [side.cases[0].graph.data_type for side in (pair.base, partner.other)]
    if types[0] != types[1]:
        return f"same name, another data type: {types[0]} in base, {types[1]} in other"
    first, second = pair.key.fingerprint[:12], partner.key.fingerprint[:12]
    return f"same name, another meaning: shapes, types or parameters differ ({first}, {second})"
