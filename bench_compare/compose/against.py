"""Predictions next to pipelines that were measured for real.

A chain of this pipeline is held against the prediction of its engine's rows.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import case_time, round_logs
from bench_schema.student import t_quantile

from bench_compare.compose.model import Check, IntervalEstimate
from bench_compare.compose.prediction import PredictionRounds, describe, interval, unsettled, within
from bench_compare.compose.rows import MOST_JOULES
from bench_compare.compose.select import default_row, rows_of, states_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Case

    from bench_compare.compose.network import Network
    from bench_compare.compose.rows import LayerTable, TableRow
    from bench_compare.model import Source

CLOSE = 1e-9
"""Share below which a difference is rounding."""


@dataclass(frozen=True)
class MeasuredChain:
    """A whole chain, as a document has it."""

    source: str
    case: Case
    cache: str
    estimate: IntervalEstimate
    energy_j: float | None


def measured_chains(
    sources: Sequence[Source], engines: frozenset[str], series: str
) -> tuple[list[MeasuredChain], list[str]]:
    """Return chains that ran and were right, and sentences on those that were not. `engines`: by
    key."""
    found, remarks = [], []
    for source in sources:
        cache = source.document.run.settings.cache
        cache = "hot" if cache == "pass" else cache  # a chain leaves its caches so by itself
        for case in source.document.cases:
            is_whole = case.graph.layers and "#" not in case.graph.path
            if not is_whole or case.engine not in engines:
                continue
            problem = _problem(case, series)
            if problem is not None:
                remarks.append(f"{source.path}: {case.id}: {problem}")
                continue
            joules = [one.energy_j_per_iteration for one in case.rounds]
            energies = [j for j in joules if j is not None and 0 < j < MOST_JOULES]
            mean = float(np.mean(energies)) if energies else None
            found.append(MeasuredChain(source.path, case, cache, _estimate(case, series), mean))
    return found, remarks


def _problem(case: Case, series: str) -> str | None:
    if case.outcome.status != "completed":
        return f"{case.outcome.status}: {case.outcome.reason or 'no reason given'}"
    if case.validation is not None and case.validation.status == "failed":
        return "its outputs are wrong, so its time says nothing"
    if not any(series in one.series and one.series[series].size for one in case.rounds):
        return f"no samples of {series}"
    return None


def _estimate(case: Case, series: str) -> IntervalEstimate:
    """Return the case's time with Student's t over rounds and the spread between documents, as
    predictions have it."""
    values = np.exp(np.array([*round_logs(case, series).values()]))
    time = case_time(case, series)
    assert time is not None, "it has samples of the series"
    value = time.ns
    if values.size < 2:
        return IntervalEstimate(value)
    quantile = float(t_quantile(0.975, np.array([values.size - 1.0]))[0])
    variance = float(values.var(ddof=1)) / values.size
    half = quantile * math.sqrt(variance + unsettled([(variance, values.size - 1)], value))
    return within(value, half / value)


def is_of(network: Network, measured: MeasuredChain) -> bool:
    """Return True if a chain is that of the pipeline: its graphs in their order, or its very
    file."""
    prints = [s.fingerprint for s in network.stations for _ in range(s.layer.repeat)]
    if None not in prints and tuple(prints) == measured.case.graph.layers:
        return True
    return measured.case.graph.sha256 == hashlib.sha256(network.path.read_bytes()).hexdigest()


def own_rows(network: Network, table: LayerTable, engine: str, cache: str) -> list[TableRow] | None:
    """Return the rows that a chain runs on an engine: its defaults, except for layers with a
    variant in the file. None if some layer was not measured so."""
    found = []
    for station in network.stations:
        wanted = dict(station.layer.variant)
        row = default_row(table, station, engine, cache)
        if wanted:
            rows = rows_of(table, station, cache)
            row = next((r for r in rows if r.engine == engine and r.variant == wanted), None)
        if row is None or row.problem is not None:
            return None
        found.append(row)
    return found


def checks(
    found: PredictionRounds, chains: Sequence[MeasuredChain]
) -> tuple[list[Check], list[str]]:
    """Return the checks of this pipeline's chains, and sentences on those that cannot be
    predicted."""
    made, remarks = [], []
    for one in chains:
        if not is_of(found.network, one):
            continue
        engine = one.case.engine.split("@", 1)[0]
        states = states_of(found.table, one.cache)
        tried = (own_rows(found.network, found.table, engine, cache) for cache in states)
        rows = next((rows for rows in tried if rows is not None), None)
        if rows is None:
            remarks.append(
                f"{one.source}: {one.case.id}: not all of its layers are in the table on {engine} "
                f"with {' or '.join(states)} caches"
            )
            continue
        whole = describe(engine, found, rows)
        predicted, _ = interval(whole.time, whole.ends)
        joules = None if whole.energy is None else whole.energy.value
        made.append(_check(one, predicted, joules))
    return made, remarks


def _check(one: MeasuredChain, predicted: IntervalEstimate, joules: float | None) -> Check:
    """Compare a prediction with a measured chain. It holds if the two differ by no more than both
    intervals together (root of squares) allow. A measurement without an interval, such as a single
    round, refutes nothing."""
    measured, holds = one.estimate, None
    value, low, high = predicted.value, predicted.low, predicted.high
    if low is not None and high is not None:
        apart, slack = measured.value - value, CLOSE * measured.value
        own = high - value if apart > 0 else value - low
        if measured.low is None or measured.high is None:
            holds = True if abs(apart) <= own + slack else None
        else:
            other = measured.value - measured.low if apart > 0 else measured.high - measured.value
            holds = abs(apart) <= math.hypot(own, other) * (1 + CLOSE) + slack
    return Check(
        engine=one.case.engine,
        cache=one.cache,
        source=one.source,
        case=one.case.id,
        measured=measured,
        predicted=predicted,
        log_error=math.log(measured.value / value) if value > 0 else math.inf,
        holds=holds,
        energy_measured_j=one.energy_j,
        energy_predicted_j=joules,
    )
