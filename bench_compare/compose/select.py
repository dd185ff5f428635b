"""Rows that a layer may take: those that ran, that the options request, and that a limit can
judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bench_compare.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.compose.network import Network, Station
    from bench_compare.compose.rows import LayerTable, TableRow


CACHES = ("pass", "weights-cold", "hot", "rotate", "cold")
"""Cache states in order of preference; the first one with rows predicts, as it resembles a
network."""
STANDS_FOR = {"hot": "pass", "weights-cold": "cold"}
"""A chain that runs over and over leaves its caches as a pass does, whatever its layers alone find
hot; where its weights are cold, all is that a pair's writer does not bring."""
NO_FILE = "the graph's file is needed to know what its conversions take"
NO_ERROR = "its error is not known, and there is a limit"


@dataclass(frozen=True)
class ComposeSettings:
    """Options of the command line."""

    baseline: str | None = None
    choose: str | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    """``error`` (root of squares) and ``worst-error`` (sum) of relative L2."""
    fixes: tuple[tuple[str, str], ...] = ()
    """Layer (a glob) and configuration (a glob)."""
    cache: str | None = None
    series: str | None = None


@dataclass(frozen=True)
class Allowed:
    rows: tuple[TableRow, ...]
    excluded: Mapping[int, str]
    """Number of the row to why it cannot be chosen."""
    is_fixed: bool


def names_of(row: TableRow) -> tuple[str, ...]:
    """Return the names of a row for ``--fix`` and ``--baseline``: ``cudnn plan=x``,
    ``cudnn:plan=x``."""
    words = [f"{key}={value}" for key, value in sorted(row.variant.items())]
    return (row.text, f"{row.engine}:{','.join(words)}") if words else (row.text,)


def fits(row: TableRow, pattern: str) -> bool:
    names = names_of(row)
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)


def rows_of(table: LayerTable, station: Station, cache: str) -> list[TableRow]:
    if station.fingerprint is None:
        return []
    return table.layers.get((station.fingerprint, cache), [])


def fixes_of(network: Network, settings: ComposeSettings) -> Mapping[str, str]:
    """Return each layer id with its requested configuration; the last one that names it counts.
    Raises `UsageError` for a layer that is not there."""
    found: dict[str, str] = {}
    for layer, wanted in settings.fixes:
        ids = [s.layer.id for s in network.stations if fnmatchcase(s.layer.id, layer)]
        if not ids:
            known = ", ".join(station.layer.id for station in network.stations)
            raise UsageError(f"--fix {layer}={wanted}: no layer {layer!r}; there are {known}")
        found.update(dict.fromkeys(ids, wanted))
    return found


def allowed(
    table: LayerTable, network: Network, cache: str, fixes: Mapping[str, str], limited: bool
) -> list[Allowed]:
    """Return the allowed rows of every layer, in order. Raises `UsageError` for a configuration
    that no row has."""
    found = []
    for station in network.stations:
        rows = rows_of(table, station, cache)
        reasons = {row.number: _reason(row, station, limited) for row in rows}
        excluded = {number: reason for number, reason in reasons.items() if reason is not None}
        usable = [row for row in rows if row.number not in excluded]
        fix = fixes.get(station.layer.id)
        if fix is not None:
            what = f"--fix {station.layer.id}={fix}"
            fitting = [row for row in usable if fix in names_of(row)]
            fitting = fitting or [row for row in usable if fits(row, fix)]
            if usable and not fitting:
                names = [row.text for row in usable]
                known = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
                raise UsageError(f"{what}: no such row of this layer; there are {known}")
            excluded |= {row.number: what for row in usable if row not in fitting}
            usable = fitting
        found.append(Allowed(tuple(usable), excluded, fix is not None))
    return found


def _reason(row: TableRow, station: Station, limited: bool) -> str | None:
    if row.problem is not None:
        return row.problem
    if station.tensors is None and ("layout" in row.variant or "dtype" in row.variant):
        return NO_FILE
    return NO_ERROR if limited and row.error is None else None


def default_row(table: LayerTable, station: Station, engine: str, cache: str) -> TableRow | None:
    """Return the engine's default row for the original layer."""
    if station.fingerprint is None:
        return None
    return table.defaults.get((station.fingerprint, engine, cache))


def defaults(table: LayerTable, network: Network, engine: str, cache: str) -> list[TableRow | None]:
    return [default_row(table, station, engine, cache) for station in network.stations]


def baseline_rows(
    table: LayerTable, network: Network, name: str, cache: str
) -> list[TableRow | None]:
    """Return the rows of a named baseline: an engine's default variant, or a configuration that
    every layer has."""
    if name in table.engines:
        return defaults(table, network, name, cache)
    found: list[TableRow | None] = []
    for station in network.stations:
        rows = [r for r in rows_of(table, station, cache) if _reason(r, station, False) is None]
        found.append(next((row for row in rows if fits(row, name)), None))
    if not any(found):
        known = ", ".join(table.engines)
        raise UsageError(f"--baseline {name}: no row has this name; engines are {known}")
    return found


def default_baseline(table: LayerTable, network: Network, cache: str) -> str:
    """Return the first engine with default rows for every layer, otherwise for most."""
    engines = table.engines
    held = [sum(r is not None for r in defaults(table, network, e, cache)) for e in engines]
    return engines[held.index(max(held))]


def states_of(table: LayerTable, cache: str) -> list[str]:
    """Return the states whose rows may predict a chain that was measured in this one, the best
    first."""
    better = STANDS_FOR.get(cache, cache)
    return [better, cache] if better != cache and better in table.caches else [cache]


def main_cache(
    table: LayerTable, network: Network, measured: Sequence[str], *, choosing: bool
) -> str:
    """Return the cache state with rows for most layers; among equals, a measured one, otherwise the
    first of `CACHES`. To choose from (`choosing`), the number of rows decides among equals
    first."""
    real = [state for cache in measured for state in states_of(table, cache)]
    wanted = [cache for cache in (*real, *CACHES, *table.caches) if cache in table.caches]

    def held(cache: str) -> tuple[int, int]:
        rows = [len(rows_of(table, station, cache)) for station in network.stations]
        return sum(map(bool, rows)), sum(rows) if choosing else 0

    return max(dict.fromkeys(wanted), key=held)
