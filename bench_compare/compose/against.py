"""Predictions next to chains that ran: what a sum of layers is off by."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.compose.model import Check
from bench_compare.compose.table import Table, kind_of, ratio, total

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_compare.compose.setup import Setup
    from bench_compare.model import Source

APART = {"device_ns": 0.03, "e2e_ns": 0.06}
"""Largest |log(measured / predicted)| of a sum that is as good as such sums are: of whole networks
on an H200 and on two cores (`tests/benchmarks/README.md`)."""
AS_IN_A_PASS = {"hot": ("pass", "hot"), "pass": ("pass", "hot")}
"""States of rows that predict a chain of a state, the best first; otherwise its own."""


def checks_of(setup: Setup) -> tuple[list[Check], float | None]:
    """Return the chains of ``--against`` with their predictions, and the largest |measured /
    predicted - 1| of these and of the chains among the other documents; None if there are none."""
    checks = [check for source in setup.question.against for check in _of(setup, source)]
    asked = {source.path for source in setup.question.against}
    others = [source for source in setup.sources if source.path not in asked]
    every = [*checks, *(check for source in others for check in _of(setup, source))]
    return checks, max((abs(math.expm1(one.log_error)) for one in every), default=None)


def _of(setup: Setup, source: Source) -> Iterator[Check]:
    """Yield the checks by the chains of one document."""
    own = source.document.run.settings.cache
    asked = setup.question.cache
    states = AS_IN_A_PASS.get(own, (own,)) if asked is None else (asked,)
    for case in source.document.cases:
        if kind_of(case) != "chain" or tuple(case.graph.layers) != setup.network.chain:
            continue
        for state in dict.fromkeys((*states, setup.state)):
            check = _check(setup, source, case.id, state) if state in setup.benches else None
            if check is not None:
                yield check
                break


def _check(setup: Setup, source: Source, chain: str, state: str) -> Check | None:
    """Return the check by one chain and the rows of a state; None if it has no time or a layer has
    no row. Rows of the chain's own rounds share their state, which cancels."""
    table = Table(tuple(_together(setup, source, chain, state)), setup.engines, setup.series)
    bench = setup.bench_of(state, table)
    places = [n for n, row in enumerate(table.rows) if row.kind == "chain"]
    if not places or table.rows[places[0]].excluded is not None:
        return None
    (place,) = places
    row, kept = table.rows[place], table.every
    picks = setup.as_file(row.engine, bench)
    if picks is None:
        return None
    pieces, _, missing = bench.pieces(picks)
    if missing:
        return None
    measured = total({place: 1.0}, table.logs, table.document, kept)
    predicted = bench.time(pieces, kept)
    found, half = ratio(measured, predicted)
    log_error = math.log(found.value) if found.value > 0 else math.inf
    apart = APART[setup.series]
    holds: bool | None = abs(log_error) <= apart
    if half is not None:
        holds = abs(log_error) <= apart + half
    if not holds and (half is None or bench.mixes_clocks(pieces, place)):
        holds = None
    energy = bench.energy(pieces, kept)
    joules = np.nanmean(np.exp(table.joules[place])) if table.has_energy({place}) else None
    own = source.document.run.settings.cache
    return Check(
        engine=row.engine,
        cache="hot" if own == "pass" else own,
        source=source.path,
        case=chain,
        measured=measured.estimate,
        predicted=predicted.estimate,
        log_error=log_error,
        holds=holds,
        energy_measured_j=None if joules is None else float(joules),
        energy_predicted_j=None if energy is None else energy.value,
    )


def _together(setup: Setup, source: Source, chain: str, state: str) -> Iterator[Source]:
    """Yield the documents of a state's table with this chain and no other one."""
    is_there = False
    for one in setup.tables[state].sources:
        cases, own = one.document.cases, chain if one.path == source.path else None
        kept = [c for c in cases if kind_of(c) != "chain" or c.id == own]
        is_there |= any(c.id == own for c in kept)
        yield replace(one, document=replace(one.document, cases=tuple(kept)))
    if not is_there:
        kept = [c for c in source.document.cases if c.id == chain]
        yield replace(source, document=replace(source.document, cases=tuple(kept)))
