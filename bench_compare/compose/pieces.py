"""Parts of a configuration: each layer, each seam, each conversion, as sums of rows.

A seam is the time of two neighbours as one chain, less both alone. It is counted once for each
layer that runs after another one, and it is that of the default variants: how memory and queue pass
from one to the next follows from the engine, hardly from the plan. Missing measurements are named
and count as zero; a conversion without a measurement is never chosen. A conversion between two
layers does not change their seam.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench_compare.compose.forms import Form, FormConversion, as_variant
from bench_compare.compose.network import seam_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.compose.model import PartKind
    from bench_compare.compose.network import Edge, Network, Station
    from bench_compare.compose.rows import LayerTable, TableRow


AGAIN = "stands for those between its own executions, too"
BETWEEN = "between engines, where none can be measured: the larger of their own"
STAND_IN = "of the graphs as they are given, which stands for those that were rewritten"


@dataclass(frozen=True)
class Piece:
    kind: PartKind
    layer: str
    writer: str | None
    name: str
    row: TableRow | None
    """The layer's or conversion's, of a seam that of the pair; None: not measured."""
    configuration: str
    count: int
    weights: Mapping[int, float]
    """Rows of the table, each as often as it adds to all `count` together."""
    note: str | None = None


@dataclass(frozen=True)
class Gap:
    """A seam or a conversion that was not measured."""

    engine: str
    station: Station | None = None
    conversion: FormConversion | None = None


@dataclass
class Pieces:
    found: list[Piece] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    between_engines: int = 0
    """Number of layers that follow one on another engine, where no seam can be measured."""


@dataclass(frozen=True)
class Seam:
    row: TableRow | None
    weights: Mapping[int, float]
    note: str | None

    def cost(self, costs: Sequence[float]) -> float:
        return sum(weight * costs[row] for row, weight in self.weights.items())


def seam(
    table: LayerTable, station: Station, writer: TableRow, reader: TableRow, costs: Sequence[float]
) -> Seam | None:
    """Return the seam; None if it was not measured. Between engines it cannot be: the larger of
    their own seams stands for it, and never less than nothing, so that no choice gains by what is
    not known. `costs` by number of the row."""
    given, stand_in = (writer.fingerprint, reader.fingerprint), (writer.base, reader.base)
    known: list[Seam] = []
    for engine in dict.fromkeys((writer.engine, reader.engine)):
        for prints in dict.fromkeys((given, stand_in)):
            row = seam_row(station, table.pairs.get((prints, engine, reader.cache), ()))
            one, other = (table.defaults.get((each, engine, reader.cache)) for each in prints)
            if row is not None and one is not None and other is not None:
                weights = {row.number: 1.0}
                for each in (one, other):
                    weights[each.number] = weights.get(each.number, 0.0) - 1.0
                known.append(Seam(row, weights, None if prints == given else STAND_IN))
                break
    if writer.engine == reader.engine or not known:
        return known[0] if known else None
    largest = max(known, key=lambda one: one.cost(costs))
    if largest.cost(costs) <= 0:
        return Seam(None, {}, f"{BETWEEN}: nothing is gained")
    return Seam(largest.row, largest.weights, BETWEEN)


def forms(edge: Edge, network: Network) -> tuple[Form, Form] | None:
    """Return the forms of a link on the writer's and the reader's side in the original pipeline;
    None if a graph's file does not show them."""
    written = _form(network, edge.writer, edge.output)
    read = _form(network, edge.reader, edge.input)
    if edge.writer is None:
        written = read
    if edge.reader is None:
        read = written
    return None if written is None or read is None else (written, read)


def _form(network: Network, number: int | None, name: str) -> Form | None:
    if number is None:
        return None
    tensors = network.stations[number].tensors
    return None if tensors is None else tensors.by_name.get(name)


def conversion(
    edge: Edge,
    sides: tuple[Form, Form] | None,
    writer: Mapping[str, str],
    reader: Mapping[str, str],
) -> FormConversion | bool:
    """Return the conversion that a link needs for sides of these variants; True: not needed, False:
    impossible."""
    if sides is None:
        return not (_changes(writer) or _changes(reader))
    here, there = as_variant(sides[0], writer), as_variant(sides[1], reader)
    if (here, there) == sides:
        return True
    if edge.is_view or sides[0] != sides[1]:
        return False
    return True if here == there else FormConversion(here, there)


def _changes(variant: Mapping[str, str]) -> bool:
    return "layout" in variant or "dtype" in variant


def cheapest(rows: Sequence[TableRow], costs: Sequence[float]) -> TableRow | None:
    """Return the cheapest row; `costs` by number of the row."""
    known = [row for row in rows if costs[row.number] == costs[row.number]]
    return min(known, key=lambda row: costs[row.number], default=None)


def assemble(
    network: Network,
    table: LayerTable,
    chosen: Sequence[TableRow],
    costs: Sequence[float],
    cache: str,
) -> Pieces:
    """Return all pieces of a configuration: a row for each layer, in order."""
    made = Pieces()
    converted = _conversions(network, table, chosen, costs, cache, made)
    for station, row in zip(network.stations, chosen, strict=True):
        repeat = station.layer.repeat
        made.found.append(
            Piece(
                "layer",
                station.layer.id,
                None,
                row.name,
                row,
                row.text,
                repeat,
                {row.number: float(repeat)},
            )
        )
        made.found += converted.get(station.number, [])
        if station.entry is not None:
            writer, reader = chosen[station.entry], chosen[station.number]
            made.between_engines += writer.engine != reader.engine
            found = seam(table, station, writer, reader, costs)
            first, count = network.stations[station.entry].layer.id, station.layer.repeat
            name = f"{first} → {station.layer.id}"
            if found is None:
                made.gaps.append(Gap(reader.engine, station=station))
                found = Seam(None, {}, "not measured")
            weights = {number: count * weight for number, weight in found.weights.items()}
            notes = [found.note] if found.note is not None else []
            notes += [AGAIN] if count > 1 else []
            made.found.append(
                Piece(
                    "seam",
                    station.layer.id,
                    first,
                    name,
                    found.row,
                    reader.engine,
                    count,
                    weights,
                    "; ".join(notes) or None,
                )
            )
    made.found += converted.get(-1, [])
    return made


def _conversions(
    network: Network,
    table: LayerTable,
    chosen: Sequence[TableRow],
    costs: Sequence[float],
    cache: str,
    made: Pieces,
) -> dict[int, list[Piece]]:
    """Return conversions by number of the reader, -1 for the output. Readers of one form share
    one."""
    found: dict[int, list[Piece]] = {}
    seen: set[tuple[int | None, str, FormConversion]] = set()
    for edge in network.edges:
        ends = (edge.writer, edge.reader)
        first, second = ({} if end is None else chosen[end].variant for end in ends)
        need = conversion(edge, forms(edge, network), first, second)
        assert need is not False, "no choice has a link without a way"
        if need is True or (edge.writer, edge.output, need) in seen:
            continue
        seen.add((edge.writer, edge.output, need))
        near = edge.writer if edge.reader is None else edge.reader
        assert near is not None, "a link has a layer at one end"
        row = cheapest(table.conversions.get((need, cache), ()), costs)
        if row is None:
            made.gaps.append(Gap(chosen[near].engine, conversion=need))
        note = None if row is None or row.cache == cache else f"measured with {row.cache} caches"
        piece = Piece(
            kind="conversion",
            layer="output" if edge.reader is None else network.stations[edge.reader].layer.id,
            writer=None if edge.writer is None else network.stations[edge.writer].layer.id,
            name=need.spec if row is None else row.name,
            row=row,
            configuration=chosen[near].engine if row is None else row.text,
            count=1,
            weights={} if row is None else {row.number: 1.0},
            note="not measured" if row is None else note,
        )
        found.setdefault(-1 if edge.reader is None else edge.reader, []).append(piece)
    return found


def weight_conversions(
    network: Network, chosen: Sequence[TableRow]
) -> Iterator[tuple[str, FormConversion]]:
    """Yield (layer, conversion) of weights whose form (type or layout) differs from the pipeline's:
    converted once, shared ones once for all of their layers."""
    shared = network.shared_weights
    done: set[tuple[str, FormConversion]] = set()
    for station, row in zip(network.stations, chosen, strict=True):
        if station.tensors is None or not _changes(row.variant):
            continue
        links = station.layer.links
        named = station.layer.weights
        for name in station.tensors.inputs if named is None else named:
            form, link = station.tensors.by_name.get(name), links.get(name)
            is_shared = link is not None and link.layer is None and link.tensor in shared
            if form is None or (link is not None and not is_shared):
                continue
            need = FormConversion(form, as_variant(form, row.variant))
            if need.source == need.target or (link is not None and (link.text, need) in done):
                continue
            if link is not None:
                done.add((link.text, need))
            yield station.layer.id, need
