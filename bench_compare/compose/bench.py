"""One cache state of a composition: the rows of each layer, what lies between, and sums of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from bench_compare.compose.choose import Limit, Pair, Problem
from bench_compare.compose.forms import FormConversion, changes_forms, conversion_of, varied
from bench_compare.compose.table import Sum, Total, levels, total

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench_schema.estimate import Flags, Floats

    from bench_compare.compose.choose import Group
    from bench_compare.compose.forms import Form
    from bench_compare.compose.model import Goal, Kind
    from bench_compare.compose.network import Network, Passed
    from bench_compare.compose.table import Row, Table

Key = TypeVar("Key")
Options = Sequence[Sequence[int]]
"""Rows that each layer may take."""
Picks = tuple[int, ...]
"""The row of each layer."""
NOTHING_SHARE = 1e-6
"""Share of a pair's time below which its seam is rounding."""


@dataclass(frozen=True)
class Piece:
    """A step of a pass as a sum of rows."""

    kind: Kind
    layer: int
    writer: int | None
    name: str
    configuration: str
    count: int
    terms: Sum
    row: int | None = None
    """The row itself; None for a seam."""
    note: str | None = None


@dataclass(eq=False)
class Bench:
    network: Network
    table: Table
    idle_w: float
    """Power of the device that waits."""
    hot: frozenset[str] = field(default=frozenset())
    """Documents whose conversions stand in for those of this state."""

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.table.rows

    @cached_property
    def options(self) -> tuple[tuple[int, ...], ...]:
        """Rows of each layer, those that cannot be chosen too."""
        found: dict[str, list[int]] = {}
        for place, row in enumerate(self.rows):
            if row.kind == "alone":
                found.setdefault(row.base, []).append(place)
        by_op = {row.graph.op for row in self.rows}
        return tuple(
            tuple(found.get(one or "", ()))
            or (self._of_op(layer.op) if one is None and layer.op in by_op else ())
            for layer, one in zip(self.network.layers, self.network.prints, strict=True)
        )

    def _of_op(self, op: str | None) -> tuple[int, ...]:
        """Return the rewritten rows of an op spec whose own graph no document has."""
        found = [n for n, row in enumerate(self.rows) if op is not None and row.graph.op == op]
        own = {self.rows[n].graph.name for n in found}
        return tuple(found) if len(own) == 1 else ()

    def excluded(self, layer: int, row: int) -> str | None:
        """Return why a row of a layer cannot be chosen."""
        if self.network.ports[layer] is None and changes_forms(self.rows[row].variant):
            return "what the layer reads and writes is not known: its graph is not in a file"
        return self.rows[row].excluded

    def usable(self, layer: int) -> tuple[int, ...]:
        return tuple(row for row in self.options[layer] if self.excluded(layer, row) is None)

    def own_type(self, layer: int) -> str:
        """Return the data type of a layer's own graph; empty if it was not measured."""
        rows = [self.rows[row] for row in self.options[layer]]
        own = [row for row in rows if "dtype" not in row.variant] or rows
        return own[0].graph.data_type if own else ""

    def fastest(self, rows: Sequence[int]) -> int | None:
        return min(rows, key=lambda row: float(self.every[row]), default=None)

    @cached_property
    def conversions(self) -> Mapping[FormConversion, int]:
        """The fastest row of each conversion that was measured."""
        found: dict[FormConversion, int] = {}
        for place, row in enumerate(self.rows):
            made = conversion_of(row.graph.name)
            if made is None or row.excluded is not None or row.variant:
                continue
            key = made.alike
            if key not in found or self.every[place] < self.every[found[key]]:
                found[key] = place
        return found

    @cached_property
    def every(self) -> Floats:
        """The location of each row in all rounds: logarithms."""
        return levels(self.table.logs, self.table.document, self.table.every)

    @cached_property
    def every_joules(self) -> Floats:
        return levels(self.table.joules, self.table.document, self.table.every)

    @cached_property
    def _plain(self) -> Mapping[tuple[str, str], int]:
        """Rows without a variant by graph and engine."""
        return {
            (row.graph.fingerprint, row.engine): place
            for place, row in enumerate(self.rows)
            if row.kind == "alone" and not row.variant and row.excluded is None
        }

    @cached_property
    def _seams(self) -> Mapping[tuple[str, str], Mapping[str, Sum]]:
        """Seams by the graphs of a pair and by engine: the pair less both alone."""
        found: dict[tuple[str, str], dict[str, Sum]] = {}
        for place, row in enumerate(self.rows):
            if row.kind != "pair" or row.excluded is not None or len(row.graph.layers) != 2:
                continue
            one, two = (self._plain.get((each, row.engine)) for each in row.graph.layers)
            if one is not None and two is not None:
                terms: Sum = {place: 1.0}
                for alone in (one, two):
                    terms[alone] = terms.get(alone, 0.0) - 1.0
                pair = (row.graph.layers[0], row.graph.layers[1])
                found.setdefault(pair, {})[row.engine] = terms
        return found

    def seam(self, layer: int) -> tuple[int, Mapping[str, Sum]] | None:
        """Return the layer before this one and the seam on each engine; None before the first
        layer, and an empty table where none was measured."""
        places = self.network.seams[layer]
        for place in places:
            pair = (self.network.prints[place] or "", self.network.prints[layer] or "")
            if pair in self._seams:
                return place, self._seams[pair]
        return (places[0], {}) if places else None

    def value(self, terms: Sum, at: Floats) -> float:
        """Return a sum of rows at these levels; zero for what is within rounding."""
        parts = [factor * math.exp(at[row]) for row, factor in terms.items()]
        found = math.fsum(parts)
        return 0.0 if abs(found) < NOTHING_SHARE * max(map(abs, parts), default=0.0) else found

    def seam_terms(self, layer: int, picks: Picks, at: Floats) -> Sum | None:
        """Return the seam before a layer: on one engine as it was measured, between two the larger
        of theirs and never a gain. None if it was not measured."""
        found = self.seam(layer)
        if found is None:
            return None
        engines = {self.rows[picks[place]].engine for place in (found[0], layer)}
        known = [found[1][engine] for engine in sorted(engines) if engine in found[1]]
        if not known:
            return None
        best = max(known, key=lambda terms: self.value(terms, at))
        return best if len(engines) == 1 or self.value(best, at) > 0 else {}

    def changes(self, passed: Passed, picks: Picks) -> Iterator[tuple[int | None, FormConversion]]:
        """Yield each conversion of a tensor with the first layer that needs it."""
        base = passed.form
        source = base if passed.writer is None else self._form(passed.writer, picks, base)
        seen = set()
        for reader, wanted in passed.readers:
            target = wanted if reader is None else self._form(reader, picks, wanted)
            if target != source and target not in seen:
                seen.add(target)
                yield reader, FormConversion(source, target)

    def _form(self, layer: int, picks: Picks, form: Form) -> Form:
        return varied(form, self.rows[picks[layer]].variant)

    def pieces(self, picks: Picks) -> tuple[list[Piece], list[Piece], list[FormConversion]]:
        """Return the steps of a pass, the conversions that no pass repeats, and the conversions of
        a pass that were not measured."""
        found, once, missing = [], [], []
        names = [layer.id for layer in self.network.layers]
        for place, (layer, row) in enumerate(zip(self.network.layers, picks, strict=True)):
            made = self.rows[row]
            terms = {row: float(layer.repeat)}
            found.append(
                Piece(
                    *("layer", place, None, made.graph.name, made.configuration, layer.repeat),
                    terms,
                    row,
                )
            )
            seam = self.seam_terms(place, picks, self.every)
            before = self.seam(place)
            if seam is not None and before is not None:
                terms = {key: layer.repeat * factor for key, factor in seam.items()}
                name = f"{names[before[0]]} → {names[place]}"
                words = dict.fromkeys(self.rows[picks[at]].engine for at in (before[0], place))
                engines = " → ".join(words)
                found.append(Piece("seam", place, before[0], name, engines, layer.repeat, terms))
            for form in self.network.weights(place):
                need = FormConversion(form, self._form(place, picks, form))
                if need.source != need.target and need.alike in self.conversions:
                    once.append(self._converted(place, None, need))
        for passed in self.network.passed():
            for reader, need in self.changes(passed, picks):
                if need.alike not in self.conversions:
                    missing.append(need)
                    continue
                at = passed.writer if reader is None else reader
                assert at is not None
                found.append(self._converted(at, passed.writer, need))
        return found, once, missing

    def _converted(self, layer: int, writer: int | None, need: FormConversion) -> Piece:
        row = self.conversions[need.alike]
        made = self.rows[row]
        note = "measured with hot caches" if made.source in self.hot else None
        return Piece(
            *("conversion", layer, writer, made.graph.name, made.configuration, 1, {row: 1.0}),
            *(row, note),
        )

    def mixes_clocks(self, pieces: Sequence[Piece], *more: int) -> bool:
        """Return True if some rows, with `more` of them, were timed behind a gate and some without,
        which adds microseconds."""
        used = frozenset().union(*(self.rows[row].timings for row in (*summed(pieces), *more)))
        return {"gated events", "events"} <= used

    def time(self, pieces: Sequence[Piece], kept: Flags) -> Total:
        return total(summed(pieces), self.table.logs, self.table.document, kept)

    def energy(self, pieces: Sequence[Piece], kept: Flags) -> Total | None:
        """Return the joules of layers and conversions, and of the idle device in the seams; None if
        those of a row are not known."""
        size = len(self.rows)
        rows = {piece.row for piece in pieces if piece.row is not None}
        if not np.isfinite(self.table.joules[sorted(rows)][:, kept]).any(axis=1).all():
            return None
        terms: Sum = {}
        for piece in pieces:
            for row, factor in piece.terms.items():
                at, by = (row, self.idle_w * 1e-9) if piece.row is None else (row + size, 1.0)
                terms[at] = terms.get(at, 0.0) + factor * by
        both = np.vstack([self.table.logs, self.table.joules])
        return total({r: f for r, f in terms.items() if f}, both, self.table.document, kept)

    def problem(
        self,
        options: Options,
        goal: Goal,
        limits: Mapping[str, float],
        kept: Flags,
        is_limited: bool,
    ) -> Problem:
        """Return the choice among these rows of each layer. `is_limited`: time is an objective
        before energy."""
        logs = levels(self.table.logs, self.table.document, kept)
        joules = levels(self.table.joules, self.table.document, kept)
        goals = (["time"] if goal == "time" or is_limited else []) + [goal] * (goal == "energy")

        def costs(time_ns: float, energy_j: float) -> tuple[float, ...]:
            found = [time_ns if name == "time" else energy_j for name in goals]
            return tuple(math.inf if math.isnan(one) else one for one in found)

        repeats = [layer.repeat for layer in self.network.layers]
        alone = [
            [costs(n * math.exp(logs[row]), n * math.exp(joules[row])) for row in rows]
            for n, rows in zip(repeats, options, strict=True)
        ]
        pairs: list[Pair] = []
        for place, repeat in enumerate(repeats):
            before = self.seam(place)
            if before is not None and before[1]:
                sides = (before[0], place)
                by_engine = [self._groups(options, side, lambda r: r.engine) for side in sides]
                for one, first in by_engine[0].items():
                    for two, second in by_engine[1].items():
                        known = [before[1][e] for e in {one, two} if e in before[1]]
                        time_ns = repeat * max([0.0, *(self.value(t, logs) for t in known)])
                        if time_ns:
                            priced = costs(time_ns, time_ns * self.idle_w * 1e-9)
                            pairs.append(Pair((first, second), priced))
        for passed in self.network.passed():
            pairs += self._conversion_pairs(
                passed, options, lambda row: costs(math.exp(logs[row]), math.exp(joules[row]))
            )
        return Problem(alone, pairs, [self._limit(*each, options) for each in limits.items()])

    def _groups(
        self, options: Options, layer: int, key: Callable[[Row], Key]
    ) -> Mapping[Key, Group]:
        """Return the options of a layer by what they share."""
        found: dict[Key, Group] = {}
        for number, row in enumerate(options[layer]):
            name = key(self.rows[row])
            found[name] = (*found.get(name, ()), (layer, number))
        return found

    def _conversion_pairs(
        self, passed: Passed, options: Options, price: Callable[[int], tuple[float, ...]]
    ) -> Iterator[Pair]:
        """Yield the conversions of a tensor from each form into each other one. The fixed form of
        an input or a result is that of all options of the first layer."""

        def by_form(layer: int | None, form: Form) -> Mapping[Form, Group]:
            if layer is None:
                return {form: tuple((0, number) for number in range(len(options[0])))}
            return self._groups(options, layer, lambda row: varied(form, row.variant))

        readers = [by_form(*each) for each in passed.readers]
        for source, first in by_form(passed.writer, passed.form).items():
            for target in dict.fromkeys(form for groups in readers for form in groups):
                if target != source:
                    row = self.conversions.get(FormConversion(source, target).alike)
                    others = tuple(groups[target] for groups in readers if target in groups)
                    costs = None if row is None else price(row)
                    is_known = costs is not None and math.isfinite(sum(costs))
                    yield Pair((first, *others), costs if is_known else None)

    def _limit(self, name: str, bound: float, options: Options) -> Limit:
        power = 2 if name == "error" else 1

        def amount(place: int, row: int) -> float:
            error = self.rows[row].error
            repeat = self.network.layers[place].repeat
            assert error is not None
            return repeat * error**power

        amounts = [[amount(place, row) for row in rows] for place, rows in enumerate(options)]
        return Limit(amounts, bound**power)


def summed(pieces: Sequence[Piece]) -> Sum:
    """Return how often each row is in a pass."""
    found: Sum = {}
    for piece in pieces:
        for row, factor in piece.terms.items():
            found[row] = found.get(row, 0.0) + factor
    return {row: factor for row, factor in found.items() if factor}
