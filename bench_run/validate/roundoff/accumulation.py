"""Errors of one long sum, added term by term or by a matrix unit, as (rtol, atol).

On its way to the final s the sum of K terms is (k/K)·s after k of them, and a random bridge around
that, whose size is p·√K·B with a Brownian bridge B for terms of standard deviation p. What an
addition errs by is a part of the sum so far, so that the error has a part relative to s and an
absolute one that goes with B. P(∫B² > x) falls like exp(−π²x/2): some bridges stray far, and noise
that follows them exceeds c times its usual size with a probability like exp(−π·c). ∫B itself is
normal, of variance 1/12.

Term after term (recursive summation: Higham, Accuracy and Stability of Numerical Algorithms,
section 4.1) is the least accurate order in use: PyTorch's vector_norm adds two
million float terms so on a CPU, bit by bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench_run.validate.roundoff.estimate import SIGMAS

NOISE = 0.4
"""Standard deviation of a rounding to nearest, as a part of u·|sum|: an error spread evenly over a
unit in the last place, the significand spread evenly on a logarithmic scale."""
EVEN_NOISE = 1 / math.sqrt(3)
"""The same where all sums have one size, just above a power of two: their last place is then a full
2u of them."""
CUT_NOISE = 2 * NOISE
"""Of a term cut off at the last place of the sum: as even over twice the range, its sign that of
the term."""
BIAS = 0.75
"""Mean of an error that always points the same way, as a part of u·|sum|: half a unit in the last
place, averaged over a growing sum."""
FAR_BRIDGE = 6.6
"""exp(−6.6·π) is 1e-9, as six standard deviations are."""
BRIDGE_MEAN = SIGMAS / math.sqrt(12)
DRIFT_ROOT = 1 / 32
DRIFT_LINE = 1 / 44
"""Means of roundings to nearest. Where the sum's last place h is finer than the deviation p of the
terms, the terms themselves make the roundings random, all but a mean of (h/2)·√(h/p)/8: the root is
that of terms as dense near 0 as squares are, and 1/8 bounds the means measured on uniform, normal
and exponential terms, their magnitudes and their squares. From h = p on it is (h/2)·(h/p)/8, that
of uniform terms. Averaged over a sum that grows evenly, with z = h/p at its end, these are u·√z/32
and u·z/44 of it."""


@dataclass(frozen=True)
class Terms:
    """What is added."""

    count: int
    mean: float
    """In magnitude."""
    deviation: float

    @classmethod
    def of(cls, count: int, rms: float, mean: float) -> Terms:
        return cls(count, mean, math.sqrt(max(0.0, rms**2 - mean**2)))


def recursive_drift(unit: float, terms: Terms) -> float:
    """What all sums of such terms may err alike, relative to them; see `recursive_error`."""
    return unit * _drift(unit, terms) * terms.count


def recursive_error(unit: float, terms: Terms) -> tuple[float, float]:
    """Of a sum rounded to nearest after each term.

    Roundings are independent of each other, with a mean of 0 (Higham and Mary, A new approach to
    probabilistic rounding error analysis, 2019), as long as the sum is small: once its last place
    is no longer far below the terms, roundings depend on the terms and drift, down to stagnation
    (Connolly, Higham and Mary, Stochastic rounding and its probabilistic backward error analysis,
    2021). The worst drift is Higham's bound (4.4) of K·u, halved since the sum grows.
    """
    walk = NOISE * SIGMAS * math.sqrt(terms.count / 3)
    rtol = walk + _drift(unit, terms) * terms.count
    return unit * rtol, unit * NOISE * FAR_BRIDGE * terms.count * terms.deviation


def usual_walk(unit: float, count: int, noise: float = EVEN_NOISE) -> float:
    """Standard deviation over many sums of the part relative to the sum."""
    return unit * noise * math.sqrt(count / 3)


def _drift(unit: float, terms: Terms) -> float:
    """Mean of a rounding as a part of u·|final sum|."""
    if terms.deviation == 0:
        return BIAS / 2 if terms.mean else 0.0
    ratio = 2 * unit * terms.count * terms.mean / terms.deviation
    return min(BIAS / 2, max(DRIFT_ROOT * math.sqrt(ratio), DRIFT_LINE * ratio))


@dataclass(frozen=True)
class MatrixUnit:
    """The least exact arithmetic known of matrix units; u is its unit roundoff.

    Each step aligns some products and the sum so far to the largest of them, cuts each off towards
    0 at a last place of 2u, adds them exactly and cuts off the sum. Sources: Fasi, Higham,
    Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, 2021; Khattak and Mikaitis,
    Accurate Models of NVIDIA Tensor Cores, 2025; Xie et al., MMA-Sim, 2025, also for CDNA.
    """

    unit: float
    step: int
    """Products of one step."""
    cut: float
    """Products for which the sum is once cut off by a full last place of its own. Infinite where
    products have no more places than the sum: it has then nothing to be cut off."""


MATRIX_UNITS = {
    16: MatrixUnit(2.0**-24, 4, 16),
    8: MatrixUnit(2.0**-14, 32, math.inf),
}
"""By bits of the operands.

16 bits: V100 keeps 23 fraction bits of a product, in steps of 4; A100 24 in steps of 8, H100 25 in
steps of 16, of which the sum loses the last 1 or 2: half and three quarters of a place on average.
8 bits: 13 fraction bits of both, in steps of 16 on Ada and of 32 on H100 (which DeepSeek-V3's
report, section 3.3.2, measured as errors near 2 % at K = 4096). CDNA3 is finer, CDNA1 and 2 round
to nearest.
"""


def matrix_unit_drift(bits: int, terms: Terms) -> float:
    """What all sums may err alike, relative to them: cutting off errs towards 0."""
    row, size = MATRIX_UNITS[bits], math.hypot(terms.mean, terms.deviation)
    one_sign = min(1.0, 2 * terms.mean / size) if size else 0.0
    return row.unit * BIAS / 2 * terms.count * (one_sign + 1 / row.cut)


def matrix_unit_error(bits: int, terms: Terms) -> tuple[float, float]:
    """Of a sum by matrix units, for operands of so many bits.

    Cut products err like their signs: they drift as far as they have one sign in common. A sum cut
    off always errs towards 0: it drifts along the bridge. Until the sum is larger than single
    products, the largest product of a step decides the last place: at most the root of the step's
    squares.
    """
    row, count, size = MATRIX_UNITS[bits], terms.count, math.hypot(terms.mean, terms.deviation)
    one_sign = min(1.0, 2 * terms.mean / size) if size else 0.0
    walk = CUT_NOISE * SIGMAS * math.sqrt(count / 3)
    rtol = walk + BIAS / 2 * count * (one_sign + 1 / row.cut)
    noise = CUT_NOISE * FAR_BRIDGE * count
    drift = BIAS * BRIDGE_MEAN * count / row.cut * math.sqrt(count)
    early = CUT_NOISE * SIGMAS * math.sqrt(row.step * count)
    return row.unit * rtol, row.unit * ((noise + drift) * terms.deviation + early * size)
