"""Statistics of one sample series; the only place that computes them.

The interval of the median. Iterations within a round are not independent (clock states, memory
placement), rounds are. So with three rounds or more it is the t interval over the logarithms of
the rounds' medians, R - 1 degrees of freedom; over the medians themselves where one of them is
not positive. With one or two rounds it is the order-statistic (binomial) interval of the pooled
samples, which knows nothing of what differs between rounds: read it as a lower bound of the
uncertainty. Below six samples there is none.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from bench_schema.document import Achieved, Device, Samples, Summary, Work

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence


BATCH = 5
EVIDENCE = 4.0
"""Standard errors (of independent samples) between warm-up and the rest. In simulated series of
20 warm samples the share that is called not warm falls from 40 % to 4 % (5 % at an autocorrelation
of 0.5); a transient of 10 % is found as often and leaves the same bias as without this rule."""
MAIN_SERIES = ("device_ns", "e2e_ns")
"""The first of these that a case has is its time: in tables, for rates, for a precision asked
for."""
SHARES = (0.05, 0.5, 0.90, 0.95, 0.99)
"""Of the samples that lie below p5, the median, p90, p95 and p99."""
CONFIDENCE = 0.95
MIN_ROUNDS_FOR_T = 3


@dataclass(frozen=True)
class WarmupCut:
    cut: int
    """Leading samples to leave out."""
    not_warm: bool
    """The cut fell on the half-way mark: the series never settled."""


def warmup_cut(samples: Samples) -> WarmupCut:
    """MSER-5: how much of the beginning is warm-up.

    Of the medians of batches of five log times it leaves out the first d, d in the first half,
    such that (variance of the rest) / (count of the rest) is smallest (White, Cobb & Spratt 2000).
    In short series that alone often finds something in mere noise (two of five series of 20 that
    were warm all along), so what is left out must also differ from the rest: see `EVIDENCE`.
    """
    batches = len(samples) // BATCH
    if batches < 2 or samples.min() <= 0:
        return WarmupCut(0, False)
    medians = np.sort(samples[: batches * BATCH].reshape(batches, BATCH), axis=1)[:, BATCH // 2]
    logs = np.log(medians[::-1])
    logs -= logs[0]  # variances by sums of squares need small numbers
    count = np.arange(1, batches + 1)
    squares = np.cumsum(logs * logs) - np.cumsum(logs) ** 2 / count
    half = batches // 2
    scores = (squares / (count * count))[::-1][: half + 1]
    best = int(np.argmin(scores))
    if best == 0 or not _differs(samples, best * BATCH):
        return WarmupCut(0, False)
    return WarmupCut(best * BATCH, best == half)


def _differs(samples: Samples, cut: int) -> bool:
    """Whether the median before the cut is more than `EVIDENCE` deviations from the one after."""
    before, after = np.log(samples[:cut]), np.log(samples[cut:])
    middle = float(np.median(after))
    deviation = 1.4826 * float(np.median(np.abs(after - middle)))
    noise = deviation * math.sqrt(1 / len(before) + 1 / len(after))
    return abs(float(np.median(before)) - middle) > EVIDENCE * noise


def summarize(rounds: Sequence[Samples], cuts: Sequence[int]) -> Summary:
    """Statistics of one series over its rounds without the first ``cuts[r]`` samples of each."""
    kept = [samples[cut:] for samples, cut in zip(rounds, cuts, strict=True)]
    kept = [samples for samples in kept if samples.size]
    if not kept:
        raise ValueError("no samples to summarise")
    pooled = np.sort(np.concatenate(kept))
    p5, middle, p90, p95, p99 = np.quantile(pooled, SHARES).tolist()
    low, high = median_interval(kept, pooled)
    return Summary(
        count=len(pooled),
        mean=float(pooled.mean()),
        std=float(pooled.std(ddof=1)) if len(pooled) > 1 else None,
        min=float(pooled[0]),
        p5=p5,
        median=middle,
        p90=p90,
        p95=p95,
        p99=p99,
        max=float(pooled[-1]),
        mad=float(np.median(np.abs(pooled - middle))),
        median_ci_low=low,
        median_ci_high=high,
    )


def main_series(series: Container[str]) -> str | None:
    """The name of the series that is a case's time, among those it has; None where it has none."""
    return next((name for name in MAIN_SERIES if name in series), None)


def half_width_ratio(summary: Summary) -> float | None:
    """Half of the median's 95 % interval, relative to the median."""
    if summary.median_ci_low is None or summary.median_ci_high is None or summary.median == 0:
        return None
    return (summary.median_ci_high - summary.median_ci_low) / 2 / summary.median


def midmean(values: Samples) -> float:
    """Mean of the middle half of the values, fewer than four: of all. As a median it does not mind
    a few that were disturbed; beside it, it resolves what lies between two steps of a clock, and
    varies less (Tukey 1977, "Exploratory Data Analysis")."""
    cut = len(values) // 4
    return float(np.sort(values)[cut : len(values) - cut].mean())


def median_interval(
    rounds: Sequence[Samples], pooled: Samples
) -> tuple[float | None, float | None]:
    """95 % confidence interval of the median; pooled samples are in order."""
    if len(rounds) >= MIN_ROUNDS_FOR_T:
        return t_interval([float(np.median(samples)) for samples in rounds])
    rank = binomial_rank(len(pooled))
    if rank is None:
        return None, None
    return float(pooled[rank]), float(pooled[-1 - rank])


def t_interval(medians: Sequence[float]) -> tuple[float, float]:
    """Of the median, from the medians of independent rounds; symmetric in the logarithm."""
    logarithmic = min(medians) > 0
    values = [math.log(median) for median in medians] if logarithmic else list(medians)
    count = len(values)
    centre = math.fsum(values) / count
    spread = math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (count - 1))
    half = t_quantile(count - 1) * spread / math.sqrt(count)
    low, high = centre - half, centre + half
    return (math.exp(low), math.exp(high)) if logarithmic else (low, high)


@functools.cache
def binomial_rank(count: int) -> int | None:
    """Largest k such that the k-th smallest to the k-th largest of ``count`` independent values
    (from 0) hold the median with 95 % confidence; None where all of them do not."""
    tail = (1 - CONFIDENCE) / 2
    log_half = count * math.log(0.5)
    below, rank = 0.0, -1
    for successes in range(count // 2):
        choose = (
            math.lgamma(count + 1) - math.lgamma(successes + 1) - math.lgamma(count - successes + 1)
        )
        below += math.exp(choose + log_half)
        if below > tail:
            break
        rank = successes
    return rank if rank >= 0 else None


T_QUANTILES = (
    12.706205,
    4.302653,
    3.182446,
    2.776445,
    2.570582,
    2.446912,
    2.364624,
    2.306004,
    2.262157,
    2.228139,
    2.200985,
    2.178813,
    2.160369,
    2.144787,
    2.131450,
    2.119905,
    2.109816,
    2.100922,
    2.093024,
    2.085963,
    2.079614,
    2.073873,
    2.068658,
    2.063899,
    2.059539,
    2.055529,
    2.051831,
    2.048407,
    2.045230,
    2.042272,
)
"""Student's t at 97.5 % for 1 to 30 degrees of freedom. A table: importing scipy.special takes
twice as long as importing NumPy (0.19 s beside 0.10 s), in every command that reads documents."""
NORMAL_QUANTILE = 1.959963985


def t_quantile(degrees: int) -> float:
    """Student's t at 97.5 %: a table, then Abramowitz & Stegun 26.7.5 (in 1/degrees)."""
    if degrees <= len(T_QUANTILES):
        return T_QUANTILES[degrees - 1]
    z = NORMAL_QUANTILE
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3


def achieved(
    work: Work, summary: Mapping[str, Summary], device: Device | None, data_type: str
) -> Achieved | None:
    """Rates at the median of the main series; None without samples or at a median of no time."""
    series = main_series(summary)
    if series is None or summary[series].median <= 0:
        return None
    median_ns = summary[series].median
    tflops = None if work.flops is None else work.flops / median_ns / 1000  # flops/ns are GFLOP/s
    gbps = None if work.moved_bytes is None else work.moved_bytes / median_ns  # bytes/ns are GB/s
    return Achieved(series, tflops, gbps, _ceiling_share(work, tflops, gbps, device, data_type))


def _ceiling_share(
    work: Work, tflops: float | None, gbps: float | None, device: Device | None, data_type: str
) -> float | None:
    """Of the roofline, min(peak rate, intensity × bandwidth); of bandwidth at no flops."""
    if device is None or device.ceiling_gbps is None or gbps is None or tflops is None:
        return None
    if work.flops == 0:
        return gbps / device.ceiling_gbps
    peak = device.ceiling_tflops.get(data_type)
    if peak is None or work.intensity is None:
        return None
    return tflops / min(peak, work.intensity * device.ceiling_gbps / 1000)


# Student's t for a single number, in plain floats.
#
# Most comparisons ask for a few degrees of freedom only, and for an array of one to sixteen numbers
# calling NumPy costs 20 times as much as the arithmetic: with these, two small documents are
# compared in half of the time. `bench_compare.statistics.special` has the same for long arrays; a
# test holds the two together. Formula numbers are those of the NIST Digital Library of Mathematical
# Functions (DLMF).


TINY = 1e-300
HALF_LOG_PI = 0.5 * math.log(math.pi)


def tail(t: float, dof: float) -> float:
    """P(|T| >= |t|) (DLMF 8.17, I at dof / (dof + t²))."""
    a, square = dof / 2, t * t
    if math.isinf(square):
        return 0.0
    x, rest = dof / (dof + square), square / (dof + square)
    if x == 0 or rest == 0:  # beyond what a double tells from the end
        return 1.0 - (x == 0)
    front = math.exp(a * math.log(x) + 0.5 * math.log(rest) - _log_beta_half(a))
    if x > (a + 1) / (a + 2.5):
        return 1 - front * _fraction(0.5, a, rest) / 0.5
    return front * _fraction(a, 0.5, x) / a


def _log_beta_half(a: float) -> float:
    """log B(a, 1/2)."""
    return math.lgamma(a) + HALF_LOG_PI - math.lgamma(a + 0.5)


def _fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (DLMF 8.17.22), Lentz's algorithm."""
    c, d = 1.0, 1 / _guarded(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, 400):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _guarded(1 + term * d)
            c = _guarded(1 + term / c)
            result *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return result


def _guarded(value: float) -> float:
    return TINY if abs(value) < TINY else value


@lru_cache(maxsize=4096)
def quantile(probability: float, dof: float, start: float) -> float:
    """The value that T stays below with a probability of 0.5 or more: Newton's method on the
    two-sided tail, which is convex, so that from the left it never oversteps. `start` is the normal
    quantile; the first terms in 1/dof are added (Abramowitz and Stegun 26.7.5)."""
    z, wanted = start, 2 * (1 - probability)
    scale = -_log_beta_half(dof / 2) - 0.5 * math.log(dof)
    t = z + (z**3 + z) / (4 * dof) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * dof**2)
    for _ in range(200):
        density = math.exp(scale - (dof + 1) / 2 * math.log1p(t * t / dof))
        step = (tail(t, dof) - wanted) / (2 * density)
        t = max(t + step, 0.0)
        if abs(step) <= 1e-10 * (1 + t):
            break
    return t


@lru_cache(maxsize=4096)
def two_sided(degrees: int, looks: int = 1) -> float:
    """The t within which the share 1 - 0.05 / `looks` of all values lies: for intervals of which
    several looks share the error."""
    if looks == 1:
        return t_quantile(degrees)
    return quantile(1 - (1 - CONFIDENCE) / (2 * looks), degrees, NORMAL_QUANTILE)
