"""How much faster B is than A in one run, from their interleaved rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.numbers.summary import MIN_ROUNDS_FOR_T, t_interval

if TYPE_CHECKING:
    from bench_schema.document import Case


@dataclass(frozen=True)
class SpeedUp:
    """Time of A over time of B (above 1: B is faster), with its 95 % interval where known."""

    value: float
    low: float | None
    high: float | None


def speed_up(a: Case, b: Case, series: str) -> SpeedUp:
    """Rounds are interleaved, so they are compared in pairs: the t interval over the logarithms of
    the pairs' ratios of medians leaves out what a round does to both sides alike."""
    medians = [{r.index: _median(r.series[series]) for r in case.rounds} for case in (a, b)]
    pairs = sorted(medians[0].keys() & medians[1].keys())
    ratios = [medians[0][i] / medians[1][i] for i in pairs if medians[1][i] > 0]
    if not ratios:
        return SpeedUp(math.nan, None, None)
    value = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    if len(ratios) < MIN_ROUNDS_FOR_T:
        return SpeedUp(value, None, None)
    return SpeedUp(value, *t_interval(ratios))


def _median(samples: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    return float(np.median(samples))
