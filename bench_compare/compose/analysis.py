"""The core: documents and a pipeline in, a `Composition` out. Nothing runs, nothing is written."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.identity import REWRITES
from bench_schema.pipeline import pipeline_text

from bench_compare.compose.against import checks
from bench_compare.compose.forms import FormConversion, as_variant
from bench_compare.compose.given import (
    blocked,
    by_engine,
    idle_power_w,
    limits_text,
    read_given,
    unusable,
    without_answer,
)
from bench_compare.compose.model import LayerChoice, LayerConversion, OptionRow
from bench_compare.compose.optimum import least
from bench_compare.compose.pieces import cheapest, forms, weight_conversions
from bench_compare.compose.prediction import (
    beside,
    describe,
    evidence,
    pieces,
    ratios,
    time_of,
    widened,
)
from bench_compare.compose.rows import SERIES
from bench_compare.compose.select import allowed, baseline_rows, defaults, rows_of
from bench_compare.compose.space import make_space
from bench_compare.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bench_compare.compose.given import Given, Inputs
    from bench_compare.compose.model import (
        Composition,
        Configuration,
        IntervalKind,
        Missing,
    )
    from bench_compare.compose.network import Network, Station
    from bench_compare.compose.optimum import Best
    from bench_compare.compose.prediction import PredictionRounds
    from bench_compare.compose.rows import TableRow
    from bench_compare.compose.select import Allowed
    from bench_compare.compose.space import ChoiceSpace


def layer_choices(
    found: PredictionRounds,
    rows: Sequence[Allowed],
    chosen: Sequence[TableRow],
    baseline: Sequence[TableRow],
    chooses: PredictionRounds,
) -> tuple[LayerChoice, ...]:
    """Return the options of each layer and the reason for its choice. `chooses`: the rounds that
    chose; the times shown are from the rounds that predict."""
    times, energies = found.prices.times.tolist(), found.prices.energies.tolist()
    options: dict[tuple[str | None, int, int], tuple[OptionRow, ...]] = {}
    made = []
    stations = found.network.stations
    for station, here, one, base in zip(stations, rows, chosen, baseline, strict=True):
        key = (station.fingerprint, one.number, base.number)
        if key not in options:
            known = rows_of(found.table, station, one.cache)
            timed = [row for row in known if math.isfinite(times[row.number])]
            options[key] = tuple(
                OptionRow(
                    configuration=row.text,
                    time=found.alone[row.number],
                    energy_j=None if math.isnan(joules := energies[row.number]) else joules,
                    error=row.error,
                    workspace_bytes=row.workspace_bytes,
                    source=row.source,
                    case=row.case,
                    is_chosen=row is one,
                    is_baseline=row is base,
                    excluded=here.excluded.get(row.number),
                )
                for row in sorted(timed, key=lambda row: times[row.number])
            )
        fastest = min(here.rows, key=lambda row: float(chooses.prices.times[row.number]))
        reason = "the baseline" if one is base else "not the fastest by itself"
        if here.is_fixed:
            reason = "asked for"
        elif len(here.rows) == 1:
            reason = "the only one"
        elif one is fastest:
            reason = "the fastest"
        made.append(
            LayerChoice(
                layer=station.layer.id,
                name=base.name,
                family=base.family,
                repeat=station.layer.repeat,
                chosen=one.text,
                baseline=base.text,
                reason=reason,
                options=options[key],
                conversions=_conversions(found, station, here.rows),
            )
        )
    return tuple(made)


def _conversions(
    found: PredictionRounds, station: Station, rows: Sequence[TableRow]
) -> tuple[LayerConversion, ...]:
    """Return conversions into each form that a row of the layer wants, and out of it."""
    times, energies = found.prices.times, found.prices.energies
    forms_of: dict[str, list[FormConversion]] = {}
    for edge in found.network.edges:
        sides = forms(edge, found.network)
        if sides is None or station.number not in (edge.reader, edge.writer):
            continue
        into = edge.reader == station.number
        own = sides[1] if into else sides[0]
        for variant in {tuple(sorted(row.variant.items())) for row in rows}:
            other = as_variant(own, dict(variant))
            if other != own:
                need = FormConversion(own, other) if into else FormConversion(other, own)
                known = forms_of.setdefault(_conversion_name(need), [])
                known.extend([need] if need not in known else [])
    made = []
    for name, needs in sorted(forms_of.items()):
        measured = [
            cheapest(found.table.conversions.get((need, rows[0].cache), ()), times.tolist())
            for need in needs
        ]
        numbers = [row.number for row in measured if row is not None]
        whole = len(numbers) == len(needs)
        joules = float(energies[numbers].sum())
        made.append(
            LayerConversion(
                name,
                float(times[numbers].sum()) if whole else None,
                joules if whole and math.isfinite(joules) else None,
            )
        )
    return tuple(made)


def _conversion_name(need: FormConversion) -> str:
    if need.source.dtype != need.target.dtype:
        return f"{need.source.dtype}_to_{need.target.dtype}"
    return f"{need.source.layout}_to_{need.target.layout}"


INTERVALS: dict[IntervalKind, str] = {
    "rounds": "the interval is that of rounds and clock: how far the model is off is not known",
    "documents": "the interval is that of documents and clock: how far the model is off is not "
    "known",
    "bracket": "the interval is the bracket between hot and colder caches",
    "none": "there is no interval: a single round, or too few for how far apart they are",
}


class Composer:
    """Composition of a pipeline for which every row is present."""

    def __init__(self, given: Given, rows: Sequence[Allowed]) -> None:
        self._given, self._rows = given, rows
        self._settings = given.inputs.settings
        found = baseline_rows(given.table, given.network, given.baseline, given.cache)
        self._baseline = [row for row in found if row is not None]
        self._candidates = [self._candidates_of(n) for n in range(len(rows))]
        self._is_choice = any(len(rows) > 1 for rows in self._candidates)
        known = bool(np.isfinite(given.table.energies).any())
        idle = idle_power_w(given.inputs.sources) if known else None
        network, table = given.network, given.table
        self._whole = self._predicts = self._chooses = evidence(network, table, idle, None)
        if self._is_choice:
            self._chooses = evidence(network, table, idle, 1)
            some = evidence(network, table, idle, 0)
            self._predicts = beside(some, self._whole, self._baseline)

    def _candidates_of(self, number: int) -> list[TableRow]:
        """Return the rows that the layer may take: all with ``--choose``, otherwise the requested
        one."""
        rows, station = self._rows[number], self._given.network.stations[number]
        if self._settings.choose is not None:
            return list(rows.rows)
        default = self._baseline[number]
        if rows.is_fixed:
            if len(rows.rows) > 1 and default not in rows.rows:
                names = ", ".join(row.text for row in rows.rows[:5])
                raise UsageError(
                    f"--fix {station.layer.id}: several rows fit: {names}; name one, or give "
                    "--choose"
                )
            return [default] if default in rows.rows else list(rows.rows)
        wanted = dict(station.layer.variant)
        same = [r for r in rows.rows if r.variant == wanted and r.engine == default.engine]
        return same[:1] if wanted and same else [default]

    def composition(self) -> tuple[Composition, list[TableRow]]:
        """Return the composition and the rows of the chosen configuration; no rows without an
        answer."""
        given, stations = self._given, self._given.network.stations
        for station, allowed_rows, rows in zip(stations, self._rows, self._candidates, strict=True):
            if not rows:
                reasons = "; ".join(list(dict.fromkeys(allowed_rows.excluded.values()))[:3])
                why = f"layer {station.layer.id}: no row can be taken: {reasons}"
                return without_answer(given, (), [why]), []
        frugal = self._settings.choose == "energy"
        space = self.space(frugal)
        best = least(space.problem, self._settings.choose or "time")
        if not best.choice:
            missing = [
                given.lines.conversions(needs, engine, given.cache, blocks=True)
                for engine, needs in by_engine(space.unpriced)
            ]
            if frugal:
                missing.append(given.lines.energy(given.baseline, given.cache, blocks=True))
            return without_answer(given, missing, [self._impossible(best)]), []
        chosen = self._rows_of(space, best)
        choose = self._settings.choose
        found, remarks = checks(self._whole, given.chains)
        name = f"chosen by {choose}" if choose else "asked for"
        is_baseline = all(a is b for a, b in zip(chosen, self._baseline, strict=True))
        predicts = self._whole if is_baseline else self._predicts
        made, kind = self._widened(name, predicts, chosen)
        baseline, _ = self._widened(given.baseline, self._whole, self._baseline)
        # Each engine's own choice throughout.
        others = []
        for engine in given.table.engines:
            own = defaults(given.table, given.network, engine, given.cache)
            whole = [row for row in own if row is not None]
            if len(whole) == len(own):
                other = describe(engine, self._whole, whole)
                others.append(replace(other, parts=(), once=()))
        problems = []
        if given.inputs.against and not found:
            problems.append("--against: no chain of this pipeline that can be predicted was found")
        plain = without_answer(given, self._missing(space, chosen), problems)
        composition = replace(
            plain,
            optimal=best.optimal if choose else None,
            method=self._method(space, best, kind),
            interval=kind,
            baseline=baseline,
            chosen=made,
            others=tuple(others),
            ratios=ratios(self._predicts, self._baseline, chosen),
            layers=layer_choices(self._predicts, self._rows, chosen, self._baseline, self._chooses),
            checks=tuple(found),
            remarks=(*given.remarks, *remarks, *self._remarks(space, chosen, made)),
        )
        return composition, chosen

    def space(self, frugal: bool) -> ChoiceSpace:
        given = self._given
        return make_space(
            given.network,
            given.table,
            self._chooses.prices,
            self._candidates,
            given.cache,
            self._settings.limits,
            frugal,
        )

    def _impossible(self, best: Best) -> str:
        if self._settings.limits:
            limits = limits_text(self._settings.limits)
            sure = "is there" if best.optimal else "was found"
            return f"no choice of these rows that keeps {limits} {sure}"
        if self._settings.choose == "energy":
            energies = self._chooses.prices.energies
            for station, rows in zip(self._given.network.stations, self._candidates, strict=True):
                if not np.isfinite(energies[[row.number for row in rows]]).any():
                    return (
                        f"layer {station.layer.id} has no row whose energy was measured and is "
                        "above zero (bench-run --energy)"
                    )
            return "no choice of the rows whose energy was measured fits together"
        return "no choice of these rows fits together: conversions were not measured"

    def _rows_of(self, space: ChoiceSpace, best: Best) -> list[TableRow]:
        return [rows[option] for rows, option in zip(space.options, best.choice, strict=False)]

    def _widened(
        self, name: str, found: PredictionRounds, rows: Sequence[TableRow]
    ) -> tuple[Configuration, IntervalKind]:
        made, kind = widened(describe(name, found, rows))
        if kind == "rounds" and time_of(found, rows).unit == "documents":
            kind = "documents"
        return made, kind

    def _missing(self, space: ChoiceSpace, chosen: Sequence[TableRow]) -> list[Missing]:
        given = self._given
        made = [*pieces(self._predicts, chosen).gaps, *pieces(self._predicts, self._baseline).gaps]
        seams: dict[str, set[object]] = {}
        for gap in made:
            if gap.station is not None:
                seams.setdefault(gap.engine, set()).add(gap.station.seam)
        found = [given.lines.seams(len(n), engine, given.cache) for engine, n in seams.items()]
        found += [
            given.lines.conversions(needs, engine, given.cache, blocks=False)
            for engine, needs in by_engine(space.unpriced)
        ]
        # Conversions of weights that no row has.
        by_id = {s.layer.id: row for s, row in zip(given.network.stations, chosen, strict=True)}
        once = {
            need: by_id[layer].engine
            for layer, need in weight_conversions(given.network, chosen)
            if not given.table.conversions.get((need, given.cache))
        }
        found += [
            given.lines.conversions(needs, engine, given.cache, blocks=False)
            for engine, needs in by_engine(once.items())
        ]
        states = given.table.caches
        if "hot" not in states:
            found.append(given.lines.cache("hot", given.baseline))
        if not {"pass", "rotate", "cold"} & set(states):
            found.append(given.lines.cache("pass", given.baseline))
        return found

    def _method(self, space: ChoiceSpace, best: Best, kind: IntervalKind) -> str:
        words = []
        if self._settings.choose is not None:
            words.append(
                f"{self._settings.choose} over {space.merged} rows of {len(space.options)} layers "
                f"({sum(map(len, space.options))} after those that another one beats everywhere)"
            )
        if not best.optimal and best.gap:
            words.append(f"no choice is better by more than {100 * best.gap:.2g} %")
        if self._is_choice:
            words.append("odd rounds chose and even rounds predict")
        words.append(INTERVALS[kind])
        return "; ".join(words)

    def _remarks(
        self, space: ChoiceSpace, chosen: Sequence[TableRow], made: Configuration
    ) -> Iterator[str]:
        """Yield remarks on the answer for its reader."""
        given, table, pipeline = self._given, self._given.table, self._given.network.pipeline
        between = pieces(self._predicts, chosen).between_engines
        follow = "1 layer follows" if between == 1 else f"{between} layers follow"
        gaps = sum(1 for part in made.parts if part.kind == "seam" and part.source is None)
        count = (
            "seam was not measured and counts" if gaps == 1 else "seams were not measured and count"
        )
        shares = [row.share for row in pipeline.left_out]
        left_out = sum(filter(None, shares))
        # Times of a device leave out what the host takes for launches, one after another.
        replays = any(one.document.run.settings.replay for one in given.inputs.sources)
        is_launched = table.series == SERIES[0] and not replays
        bound = sum(row.is_launch_bound for row in chosen) if is_launched else 0
        notes = [part.note for part in made.parts if part.note is not None]
        unresolved = sum("not resolved" in note for note in notes)
        remarks: tuple[tuple[object, str], ...] = (
            (
                between,
                f"{follow} one on another engine, where no seam can be measured: "
                "the larger of the engines' own stands for it, and at least nothing",
            ),
            (
                space.unpriced,
                f"{len(space.unpriced)} conversions were not measured: choices with them are out",
            ),
            (gaps, f"{gaps} {count} nothing"),
            (
                pipeline.is_linked and any(one.tensors is None for one in given.network.stations),
                "the types and memory orders of layers without a graph's file are not known: ways "
                "to run them that change these are out; with files they count",
            ),
            (not pipeline.is_linked, "the file has no links: its layers are added, without seams"),
            (left_out, f"without {left_out:.1%} of the model's work, which no graph expresses"),
            (None in shares, "without operations whose share of the model's work is not known"),
            (
                given.cache == "hot",
                "layers were measured with hot caches; in a pass they find them colder",
            ),
            (
                bound,
                f"{bound} of {len(chosen)} layers take less of the device than of the host that "
                "launches them: a pass that is launched may wait for the host, which --metric "
                "e2e_ns counts and --replay avoids",
            ),
            (
                unresolved,
                f"the energy of {unresolved} rows is not resolved by the device's counter",
            ),
            (
                self._is_choice and len(set((table.rounds % 2).tolist())) < 2,
                "there is a single round: the rows that chose predict as well",
            ),
        )
        yield from (text for holds, text in remarks if holds)
        # Fused graphs beside all of their own parts: the same work may stand in the file twice.
        fusions = {r.base: r for r in table.rows if r.variant.get("fusion") == "off" and r.layers}
        here = {row.base for row in chosen}
        for base, row in fusions.items():
            if base in here and here.issuperset(row.layers):
                yield (
                    f"the pipeline has the fused graph {row.name} and all of its parts: if they "
                    "are one piece of work it counts twice"
                )


@dataclass(frozen=True, eq=False)
class Composed:
    composition: Composition
    network: Network
    rows: tuple[TableRow, ...]
    """Rows of the chosen configuration, one a layer; empty without an answer."""
    types: Mapping[tuple[str, str], str]
    """Document and case to the type of its graph's main operand."""


def compose(inputs: Inputs) -> Composed:
    """Compose the pipeline. Raises `InputError` for documents without a table, `UsageError` for
    unknown names."""
    given = read_given(inputs)
    types = {(row.source, row.case): row.data_type for row in given.table.rows}
    missing = blocked(given)
    if missing:
        why = "; ".join(("rows are missing: see below", *unusable(given)))
        made = without_answer(given, missing, (why,))
        return Composed(made, given.network, (), types)
    limited = bool(inputs.settings.limits)
    rows = allowed(given.table, given.network, given.cache, given.fixes, limited)
    composition, chosen = Composer(given, rows).composition()
    return Composed(composition, given.network, tuple(chosen), types)


# A configuration as a pipeline that ``bench-run --chain`` runs.
#
# A chain runs on one engine, and a layer's ``variant`` tells it the plan. What needs other graphs
# (a layout, a type, fusion) or several engines is not written but refused.


def export(network: Network, rows: Sequence[TableRow], path: Path) -> str:
    """Return the text of the file at `path`. Raises `UsageError` if a chain cannot run it."""
    engines = list(dict.fromkeys(row.engine for row in rows))
    if len(engines) > 1:
        raise UsageError(
            f"--save: the layers run on {' and '.join(engines)}, a chain on one engine: choose "
            "among its rows with --engine"
        )
    known: dict[str, tuple[Mapping[str, str], str | None]] = {}
    for station, row in zip(network.stations, rows, strict=True):
        unlike = next((axis for axis in REWRITES if axis in row.variant), None)
        if unlike is not None:
            raise UsageError(
                f"--save: layer {station.layer.id} runs with {unlike}={row.variant[unlike]}, which "
                f"is another graph; --fix '{station.layer.id}=...' holds it to one of its own"
            )
        known[station.layer.id] = dict(row.variant), station.fingerprint
    layers = tuple(
        replace(one, variant=known[one.id][0], fingerprint=known[one.id][1])
        for one in network.pipeline.layers
    )
    return pipeline_text(replace(network.pipeline, layers=layers), path.resolve().parent)
