"""The whole suite as one thing: totals of every combination, weighted by how often graphs occur."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bench_run.tune.racing.heats import intervals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from bench_run.tune.findings import Raced


@dataclass(frozen=True)
class Combination:
    """One value of every axis for all graphs."""

    key: str
    variant: Mapping[str, str]
    total_ns: float | None
    """From the blocks of the race, so for ranking only; None where some graph cannot run so."""
    missing: tuple[str, ...]


def combinations(raced: Sequence[Raced]) -> list[Combination]:
    """Every one that some graph has, the default first."""
    variants = {o.key: o.variant for each in raced for o in each.options}
    return [_combination(key, variant, raced) for key, variant in variants.items()]


def _combination(key: str, variant: Mapping[str, str], raced: Sequence[Raced]) -> Combination:
    total, missing = 0.0, []
    for each in raced:
        time_ns = _estimates(each).get(key)
        if time_ns is None:
            missing.append(each.graph.id.name)
        else:
            total += each.graph.loaded.repeat * time_ns
    return Combination(key, variant, None if missing else total, tuple(missing))


def _estimates(each: Raced) -> dict[str, float]:
    """Nanoseconds by the option's key, all from blocks beside the default. A duplicate has the time
    of what it is a duplicate of."""
    if each.state is None or 0 not in each.entered or 0 not in each.state.alive:
        return {}
    base = float(np.nanmean(each.state.logs[0]))
    known = {}
    for row, found in enumerate(intervals(each.state, 0)):
        if found is not None and row in each.state.alive:
            known[each.options[each.entered[row]].key] = math.exp(base + found[0])
    for option, fate in zip(each.options, each.fates, strict=True):
        if fate.status == "duplicate" and fate.reason is not None:
            original = fate.reason.partition(" as ")[2]
            original = "" if original == "the default" else original
            if original in known:
                known[option.key] = known[original]
    return known


def original_of(each: Raced, key: str) -> int | None:
    """Index of the option that runs what this key means; None where nothing does."""
    by_key = {option.key: index for index, option in enumerate(each.options)}
    index = by_key.get(key)
    while index is not None and each.fates[index].status == "duplicate":
        original = (each.fates[index].reason or "").partition(" as ")[2]
        index = by_key.get("" if original == "the default" else original)
    return index if index in each.entered else None


def global_finalists(raced: Sequence[Raced], most: int) -> list[Raced]:
    """The combinations that are confirmed, the same for every graph: those of the smallest totals,
    and the default."""
    ranked = sorted(
        (c for c in combinations(raced) if c.total_ns is not None), key=lambda c: c.total_ns or 0.0
    )
    keys = [c.key for c in ranked[:most]]
    keys = list(dict.fromkeys([*keys, ""]))
    chosen = []
    for each in raced:
        indices = [original_of(each, key) for key in keys]
        known = list(dict.fromkeys(i for i in indices if i is not None))
        chosen.append(replace(each, finalists=known, tied=known))
    return chosen


def total_logs(
    raced: Sequence[Raced], key: str, logs: Mapping[str, npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64] | None:
    """Logarithm of the suite's total in each round, from the confirmed rounds by id of the case;
    None where a graph has none."""
    total: npt.NDArray[np.float64] | None = None
    for each in raced:
        index = original_of(each, key)
        found = None if index is None else logs.get(each.options[index].case.id)
        if found is None:
            return None
        part = each.graph.loaded.repeat * np.exp(found)
        rounds = part.size if total is None else min(total.size, part.size)
        total = part[:rounds] if total is None else total[:rounds] + part[:rounds]
    return None if total is None else np.log(total)
