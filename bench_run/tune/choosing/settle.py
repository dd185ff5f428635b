"""Whether the rounds of the finalists are enough. Arrays in, decisions out.

They are when other rounds like them would most likely name the same winner, and when the times that
are told, the winner's and the default's, are known as well as is promised. Looks are few, at
numbers of rounds that are fixed beforehand, and share the error of the intervals
(`bench_schema/numbers/looks.py`). Drawing rounds again: B. Efron, "Bootstrap methods: another look
at the jackknife", Annals of Statistics 7 (1979).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bench_run.tune.choosing.decide import decide, still_open

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.tune.choosing.decide import Finalist

CLAIM = 0.001
"""Standard error to which a time is known that is told. Two tunings then differ by less than 0.1 %
in the median, and hardly ever by more than 0.3 %."""
WORTH = 1.5
"""Times that: who would not be known as well with all rounds gets no more."""
REDRAWN = 60
SAME = 0.95
"""Share of the redrawn sets of rounds that have to lead to the same winner."""
ROUNDS_AT_MOST = 4
"""Times the rounds asked for."""
FEWEST = 3
"""Rounds below which nothing is known of their spread."""


def open_finalists(
    finalists: Sequence[Finalist], default: int, margin_ratio: float, looks: int, most: int
) -> frozenset[int]:
    """Who needs more rounds: everybody who may win, until it is known who does; then the winner and
    the default, until their times are known. `most`: rounds after which there are no more. What
    they would not achieve does not ask for them."""
    if not finalists:
        return frozenset()
    if min(f.logs.size for f in finalists) < FEWEST:
        return frozenset(f.index for f in finalists)
    lasting = still_open(finalists, default, margin_ratio, looks)
    winner = decide(lasting, default, margin_ratio, looks).winner
    told = [f for f in finalists if f.index in (winner, default)]
    if len(lasting) > 1 and not _same_winner(lasting, default, margin_ratio, looks, winner):
        return frozenset(f.index for f in (*lasting, *told))
    return frozenset(f.index for f in told if _needs_rounds(f, most))


def _needs_rounds(finalist: Finalist, most: int) -> bool:
    reached = _spread(finalist) / math.sqrt(most)
    return standard_error(finalist) > CLAIM and reached <= WORTH * CLAIM


def standard_error(finalist: Finalist) -> float:
    """Of the mean of its logarithms, so as a part of the time."""
    return _spread(finalist) / math.sqrt(finalist.logs.size)


def _spread(finalist: Finalist) -> float:
    return float(finalist.logs.std(ddof=1))


def _same_winner(
    finalists: Sequence[Finalist], default: int, margin_ratio: float, looks: int, winner: int
) -> bool:
    rounds = min(f.logs.size for f in finalists)
    draws = np.random.default_rng(rounds).integers(0, rounds, (REDRAWN, rounds))
    others = 0
    for picks in draws:
        drawn = [replace(f, logs=f.logs[picks]) for f in finalists]
        others += decide(drawn, default, margin_ratio, looks).winner != winner
        if others > (1 - SAME) * REDRAWN:
            return False
    return True
