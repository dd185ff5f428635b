"""What each layer could have taken, and why it takes what it takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench_compare.compose.choose.select import rows_of
from bench_compare.compose.model import LayerChoice, OptionRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.compose.choose.select import Allowed
    from bench_compare.compose.predict.configuration import Evidence
    from bench_compare.compose.table.network import Station
    from bench_compare.compose.table.rows import Row


def layer_choices(
    found: Evidence, rows: Sequence[Allowed], chosen: Sequence[Row], baseline: Sequence[Row],
    chooses: Evidence,
) -> tuple[LayerChoice, ...]:  # fmt: skip
    """`chooses`: the rounds that chose; times that are shown are of those that predict."""
    costs = found.prices.times.tolist(), found.prices.energies.tolist()
    options: dict[tuple[str | None, int, int], tuple[OptionRow, ...]] = {}
    made = []
    for station, here, one, base in zip(
        found.network.stations, rows, chosen, baseline, strict=True
    ):  # fmt: skip
        key = (station.fingerprint, one.number, base.number)
        if key not in options:
            options[key] = _options(found, costs, station, here.excluded, one, base)
        made.append(
            LayerChoice(
                layer=station.layer.id,
                name=base.name,
                family=base.family,
                repeat=station.layer.repeat,
                chosen=one.text,
                baseline=base.text,
                reason=_reason(here, one, base, chooses),
                options=options[key],
            )
        )
    return tuple(made)


def _options(
    found: Evidence, costs: tuple[list[float], list[float]], station: Station,
    excluded: Mapping[int, str], chosen: Row, baseline: Row,
) -> tuple[OptionRow, ...]:  # fmt: skip
    """`costs`: times and energies by number of the row."""
    times, energies = costs
    rows = rows_of(found.table, station, chosen.cache)
    timed = [row for row in rows if math.isfinite(times[row.number])]
    ordered = sorted(timed, key=lambda row: times[row.number])
    return tuple(
        OptionRow(
            configuration=row.text,
            time=found.alone[row.number],
            energy_j=_known(energies[row.number]),
            error=row.error,
            workspace_bytes=row.workspace_bytes,
            source=row.source,
            case=row.case,
            is_chosen=row is chosen,
            is_baseline=row is baseline,
            excluded=excluded.get(row.number),
        )
        for row in ordered
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _reason(here: Allowed, chosen: Row, baseline: Row, chooses: Evidence) -> str:
    if here.is_fixed:
        return "asked for"
    if len(here.rows) == 1:
        return "the only one"
    times = chooses.prices.times
    fastest = min(here.rows, key=lambda row: float(times[row.number]))
    if chosen is fastest:
        return "the fastest"
    return "the baseline" if chosen is baseline else "not the fastest by itself"
