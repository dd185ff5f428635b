"""The cases that ``--rerun-from`` measures again: those that a comparison left open."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bench_schema.errors import DocumentError
from bench_schema.identity import CaseIdentity, PlacedCase, gather
from bench_schema.journal import is_journal
from bench_schema.packing import read_bytes

from bench_run.errors import UsageError
from bench_run.options import names_graphs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.options import Options
    from bench_run.plan.cases import PlannedCase, PlannedGraph

OPEN_VERDICTS = ("slower", "unclear")
NONE_WANTED = "--rerun-from: none of its cases is among these graphs and engines"


@dataclass(frozen=True)
class Wanted:
    """Pairs of (fingerprint, engine key) to measure, and where their graphs lie."""

    pairs: frozenset[tuple[str, str]]
    every: frozenset[tuple[str, str]]
    """The same of all cases of the comparison, as far as it lists them."""
    paths: tuple[str, ...]
    engines: tuple[str, ...]


def read_record(path: str) -> dict[str, Any] | None:
    """Return a JSON report of bench-compare; None for a result document. Raises `UsageError`."""
    try:
        data = read_bytes(path)
        record = {"schema_version": None} if is_journal(data) else json.loads(data)
    except DocumentError as error:
        raise UsageError(f"--rerun-from: {error}") from None
    except ValueError as error:
        raise UsageError(f"--rerun-from: {path}: not JSON: {error}") from None
    if isinstance(record, dict) and record.get("kind") in READERS:
        return record
    if isinstance(record, dict) and "schema_version" in record:
        return None
    raise UsageError(
        f"--rerun-from: {path}: expected a result document, or what bench-compare --json writes"
    )


def read_wanted(path: str) -> Wanted | None:
    """Return the slower and unclear cases of a comparison's JSON; None for a result document, all
    of whose cases are wanted. Raises `UsageError`."""
    record = read_record(path)
    if record is None:
        return None
    every = READERS[record["kind"]](record)
    sides = [(fingerprint, side) for fingerprint, side, is_open in every if is_open]
    if not sides:
        raise UsageError(f"--rerun-from: {path}: no case is {' or '.join(OPEN_VERDICTS)}")
    return Wanted(
        pairs=frozenset((fingerprint, side["engine"]) for fingerprint, side in sides),
        every=frozenset((fingerprint, side["engine"]) for fingerprint, side, _ in every),
        paths=tuple(
            dict.fromkeys(side["path"].partition("!")[0].partition("#")[0] for _, side in sides)
        ),
        engines=tuple(dict.fromkeys(side["engine"] for _, side in sides)),
    )


READERS: dict[str, Callable[[Mapping[str, Any]], list[tuple[str, Mapping[str, Any], bool]]]] = {
    "bench-compare": lambda record: [
        (case["fingerprint"], case["other"] or case["base"], case["verdict"] in OPEN_VERDICTS)
        for case in record["cases"]
    ],
    "bench-compare history": lambda record: [
        (case["fingerprint"], case, True) for case in record["rerun"]
    ],
}
"""Kind of a JSON report → fingerprints of its cases, each with graph path and engine key, and
whether it is open."""


def narrow_options(options: Options, wanted: Wanted) -> Options:
    """Return the options with the comparison's graphs and engines where the user named none."""
    given = names_graphs(options)
    named = bool(options.engine) or options.a is not None
    return replace(
        options,
        graphs=options.graphs if given else wanted.paths,
        engine=options.engine if named else wanted.engines,
    )


def wanted_graphs(
    graphs: tuple[PlannedGraph, ...], wanted: Wanted | None
) -> tuple[PlannedGraph, ...]:
    """Return the graphs that a comparison left open on some engine; all without one. Raises
    `UsageError` for none."""
    if wanted is None:
        return graphs
    open_meanings = {fingerprint for fingerprint, _ in wanted.pairs}
    chosen = tuple(graph for graph in graphs if graph.id.fingerprint in open_meanings)
    if not chosen:
        raise UsageError(NONE_WANTED)
    return chosen


def select_wanted(cases: tuple[PlannedCase, ...], wanted: Wanted | None) -> tuple[PlannedCase, ...]:
    """Return the cases that a comparison left open, whatever their circumstances are now; all
    without one. Raises `UsageError` for none."""
    if wanted is None:
        return cases
    planned = dict.fromkeys((case.graph.id.fingerprint, case.engine.key) for case in cases)
    pairs = [*sorted(wanted.every), *planned]
    held = [
        PlacedCase(int(place >= len(wanted.every)), 0, CaseIdentity(fingerprint, "", "", engine))
        for place, (fingerprint, engine) in enumerate(pairs)
    ]
    open_pairs = {
        pairs[place]
        for group in gather(held)
        if any(held[n].side == 0 and pairs[n] in wanted.pairs for n in group.members)
        for place in group.members
        if held[place].side == 1
    }
    chosen = tuple(c for c in cases if (c.graph.id.fingerprint, c.engine.key) in open_pairs)
    if not chosen:
        raise UsageError(NONE_WANTED)
    return chosen
