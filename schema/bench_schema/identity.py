"""Identity of cases: the one definition for all code that pairs, joins or names cases.

A case is a graph, an engine by the user's name, and the requested variants. Device, host, plugin
path, threads and a tuned plan are circumstances: recorded, shown if they differ, and not part of
the name. `gather` looks at the graph first: where each document and each side has one case of it,
these are one case, whatever differs. Only if there are several do engine, spec and variant decide,
then the graph's name, and circumstances last.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bench_schema.document import Case, EngineRecord, GraphId

Variant: TypeAlias = tuple[tuple[str, str], ...]

TUNED_NOTE = "tuned: "
"""A case's note on the winner of a record begins so: its variant was chosen, not asked for."""

REPEATS = "repeats"
"""Tag with the id of the run that a run was to measure again."""

DEVICE, THREADS = "+device=", "+threads="
_OPTION = re.compile(r"\+(device|threads)=(\d+)(?=\+|$)")
REWRITES = ("dtype", "layout", "approx", "fusion")
"""Axes of a variant that make another graph of the one in the file."""
_REWRITTEN = re.compile(rf"#(?:{'|'.join(REWRITES)})=[^#]*$")
"""End of the path of a graph that was rewritten from the one in the file."""
_SUFFIX = re.compile(r" (?:math=(?P<math>\w+)|#(?P<number>\d+))$")


class EngineName(NamedTuple):
    """The parts of an engine's key; what is not in it is empty."""

    family: str
    """``cudnn``"""
    spec: str
    """Engine spec of the user without circumstances: ``cudnn:plan=5+knob:split=2``."""
    device: str = ""
    threads: str = ""
    math: str = ""
    """Arithmetic that a tuning gave it."""
    plugin_path: str = ""
    number: str = ""
    """Position among equal specs of a run, from the second on."""


@lru_cache(maxsize=4096)
def engine_name(key: str) -> EngineName:
    """Return an engine's key taken apart: ``name[:id][+option…][@path]``, and what a run adds to
    it."""
    added = {"math": "", "number": ""}
    while found := _SUFFIX.search(key):
        added |= {name: text for name, text in found.groupdict().items() if text is not None}
        key = key[: found.start()]
    head, _, path = key.partition("@")
    options = dict(_OPTION.findall(head))
    spec = _OPTION.sub("", head)
    return EngineName(
        re.split(r"[:+]", spec, maxsplit=1)[0],
        spec,
        options.get("device", ""),
        options.get("threads", ""),
        added["math"],
        path,
        added["number"],
    )


def without_device(key: str) -> str:
    """Return an engine's key without ``+device=N``: what its copies on several devices have in
    common."""
    head, at, path = key.partition("@")
    return re.sub(r"\+device=\d+(?=\+| |$)", "", head) + at + path


def engine_names(keys: Iterable[str]) -> dict[str, str]:
    """Return the user's engine name for each key. Engines of a document with one name keep their
    keys."""
    names = {key: engine_name(key).spec for key in dict.fromkeys(keys)}
    times = Counter(names.values())
    return {key: name if times[name] == 1 else key for key, name in names.items()}


class CaseKey(NamedTuple):
    """Name of a case, independent of its run."""

    fingerprint: str
    engine: str
    """Engine name that the user gave."""
    variant: Variant
    """Variant that the user asked for."""


def case_key(case: Case) -> CaseKey:
    asked = () if is_tuned(case) else variant_key(case.variant)
    return CaseKey(case.graph.fingerprint, engine_name(case.engine).spec, asked)


def variant_key(variant: Mapping[str, str]) -> Variant:
    return tuple(sorted(variant.items())) if variant else ()


def is_tuned(case: Case) -> bool:
    """Return True if a tuning chose the case's variant."""
    return any(note.startswith(TUNED_NOTE) for note in case.notes)


class CaseIdentity(NamedTuple):
    """All that may tell a case from others, whatever run it is of."""

    fingerprint: str
    name: str
    path: str
    engine: str
    """Its key."""
    variant: Variant = ()
    is_tuned: bool = False
    unit: str = ""
    """Device: uuid, otherwise index, or ``cpu``."""
    device_index: str = ""
    """Index by which the run named the device."""

    @property
    def asked(self) -> Variant:
        """The variant, unless a tuning chose it."""
        return () if self.is_tuned else self.variant


def identify(case: Case, engine: EngineRecord) -> CaseIdentity:
    graph = case.graph
    index = engine_name(case.engine).device if engine.device_index is None else engine.device_index
    return CaseIdentity(
        graph.fingerprint,
        graph.name,
        graph.path,
        case.engine,
        variant_key(case.variant),
        bool(case.notes) and is_tuned(case),
        engine.device,
        str(index),
    )


class PlacedCase(NamedTuple):
    """A case where it stands."""

    side: int
    document: int
    """Number in its side."""
    case: CaseIdentity


class CaseGroup(NamedTuple):
    """Cases of all sides that are one case."""

    members: list[int]
    """Places in what was gathered, in its order."""
    apart: Mapping[str, object]
    """Values that separate it from other cases of its graph, by level (`LEVELS`), most important
    first."""


def gather(held: Sequence[PlacedCase]) -> list[CaseGroup]:
    """Put every case in one group, in the order of their first ones. If a document holds several of
    one group nothing tells them apart."""
    graphs: dict[str, list[int]] = defaultdict(list)
    for place, graph in enumerate(_graphs(held)):
        graphs[graph].append(place)
    found: list[CaseGroup] = []
    for members in graphs.values():
        found += _split(held, members, 0, {})
    return sorted(found, key=lambda group: group.members[0])


def _split(
    held: Sequence[PlacedCase], members: list[int], first: int, apart: Mapping[str, object]
) -> Iterator[CaseGroup]:
    """Split by the first level that separates cases of one document, or of one side."""
    cases = [held[place] for place in members]
    if _is_crowded(cases):
        for number, (name, read) in enumerate(LEVELS[first:], first):
            values = read(cases)
            if _tells_apart(cases, values, by_side=name in NAMES):
                parts: dict[object, list[int]] = defaultdict(list)
                for place, value in zip(members, values, strict=True):
                    parts[value].append(place)
                for value, part in parts.items():
                    yield from _split(held, part, number + 1, {**apart, name: value})
                return
    yield CaseGroup(members, apart)


def _is_crowded(cases: Sequence[PlacedCase]) -> bool:
    """Return True if a document has several cases, or a side several that are not repeats of
    one."""
    if len(cases) == 1 or (len(cases) == 2 and cases[0].side != cases[1].side):
        return False
    if len({(one.side, one.document) for one in cases}) < len(cases):
        return True
    names = {(one.side, engine_name(one.case.engine).spec, one.case.asked) for one in cases}
    return len(names) > len({one.side for one in cases})


def _tells_apart(cases: Sequence[PlacedCase], values: Sequence[object], by_side: bool) -> bool:
    """Return True if the values differ between cases of one document (of one side if `by_side` is
    true): a level on which the cases of each document agree would only hide pairs."""
    first: dict[object, object] = {}
    return any(
        first.setdefault(one.side if by_side else one[:2], value) != value
        for one, value in zip(cases, values, strict=True)
    )


def variants(cases: Sequence[PlacedCase]) -> list[Variant]:
    """Return the requested variants; a tuned case gets that of the other cases which it chose, if
    any."""
    known = {one.case.variant for one in cases if not one.case.is_tuned}
    return [one.case.variant if one.case.variant in known else one.case.asked for one in cases]


def path_ends(cases: Sequence[PlacedCase]) -> list[tuple[str, ...]]:
    """Return the last parts of each graph's path: as many as separate the graphs of one
    document."""
    parts = [PurePath(one.case.path).parts for one in cases]
    depth = 0
    while True:
        tails = [part[max(len(part) - depth, 0) :] for part in parts]
        known: dict[object, set[tuple[str, ...]]] = defaultdict(set)
        whole: dict[object, set[tuple[str, ...]]] = defaultdict(set)
        for one, tail, part in zip(cases, tails, parts, strict=True):
            known[one[:2]].add(tail)
            whole[one[:2]].add(part)
        if all(len(known[place]) == len(whole[place]) for place in whole):
            return tails
        depth += 1


def devices(cases: Sequence[PlacedCase]) -> list[str]:
    """Return the units of hardware that sides have in common, otherwise the names in their runs."""
    units = [{one.case.unit for one in cases if one.side == side} for side in (0, 1)]
    shared = not all(units) or units[0] & units[1]
    return [one.case.unit if shared else one.case.device_index for one in cases]


def _of_engine(part: str) -> Callable[[Sequence[PlacedCase]], list[str]]:
    place = EngineName._fields.index(part)
    return lambda cases: [engine_name(one.case.engine)[place] for one in cases]


NAMES = ("engine", "spec", "variant")
"""Levels that name a case besides its graph; repeats may differ in everything else."""
CIRCUMSTANCES = ("device", "threads", "math", "plugin path", "number")
"""Levels of the engine's key that are not part of its name."""
LEVELS: tuple[tuple[str, Callable[[Sequence[PlacedCase]], Sequence[object]]], ...] = (
    ("engine", _of_engine("family")),
    ("spec", _of_engine("spec")),
    ("variant", variants),
    ("graph", lambda cases: [one.case.name for one in cases]),
    ("path", path_ends),
    ("device", devices),
    ("threads", _of_engine("threads")),
    ("math", _of_engine("math")),
    ("plugin path", _of_engine("plugin_path")),
    ("number", _of_engine("number")),
    ("tuned plan", lambda cases: [one.case.variant for one in cases]),
    ("meaning", lambda cases: [one.case.fingerprint for one in cases]),
)


def _graphs(held: Sequence[PlacedCase]) -> list[str]:
    """Return the meaning of each case's graph, as it was before a tuning rewrote it; the names
    where the documents are of two tools, which share no more."""
    graphs = [one.case.fingerprint for one in held]
    if any(one.case.is_tuned for one in held):
        given = graphs_given([one.case for one in held if not one.case.is_tuned])
        graphs = [
            original(one.case, given) if one.case.is_tuned else one.case.fingerprint for one in held
        ]
    kinds: list[set[str]] = [set(), set()]
    for one, graph in zip(held, graphs, strict=True):
        kinds[one.side].add(graph[: graph.find(":") + 1])
    if not all(kinds) or kinds[0] == kinds[1]:
        return graphs
    first: dict[tuple[int, str], str] = {}
    return [
        f"name:{one.case.name}"
        if first.setdefault((one.side, one.case.name), graph) == graph
        else graph
        for one, graph in zip(held, graphs, strict=True)
    ]


def graphs_given(cases: Iterable[CaseIdentity | GraphId]) -> dict[tuple[str, str], str]:
    """Return the fingerprints of graphs that nothing rewrote, by name and path, and by name alone
    (with an empty path)."""
    found: dict[tuple[str, str], str] = {}
    for case in cases:
        found[case.name, case.path] = case.fingerprint
        found.setdefault((case.name, ""), case.fingerprint)
    return found


def original(case: CaseIdentity | GraphId, given: Mapping[tuple[str, str], str]) -> str:
    """Return the fingerprint of the graph that a rewritten one was made from; its own for any
    other, and if that is unknown."""
    path = _REWRITTEN.sub("", case.path)
    if path == case.path:
        return case.fingerprint
    named = given.get((case.name, ""), case.fingerprint)
    return given.get((case.name, path), named)
