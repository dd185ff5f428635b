"""Sums and products: convolution, matmul, grouped matmul, reduction, pooling, block scaling."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench_run.graph.dtypes import DTYPES
from bench_run.validate.roundoff.estimate import SIGMAS, Estimate, RoundingStep

# Errors of one long sum, added term by term or by a matrix unit, as (rtol, atol).
#
# On its way to the final s the sum of K terms is (k/K)·s after k of them, and a random bridge
# around that, whose size is p·√K·B with a Brownian bridge B for terms of standard deviation p. What
# an addition errs by is a part of the sum so far, so that the error has a part relative to s and an
# absolute one that goes with B. P(∫B² > x) falls like exp(−π²x/2): some bridges stray far, and
# noise that follows them exceeds c times its usual size with a probability like exp(−π·c). ∫B
# itself is normal, of variance 1/12.
#
# Term after term (recursive summation: Higham, Accuracy and Stability of Numerical Algorithms,
# section 4.1) is the least accurate order in use: PyTorch's vector_norm adds two
# million float terms so on a CPU, bit by bit.

NOISE = 0.4
"""Standard deviation of a rounding to nearest, as a part of u·|sum|: an error spread evenly over a
unit in the last place, the significand spread evenly on a logarithmic scale."""
EVEN_NOISE = 1 / math.sqrt(3)
"""The same where all sums have one size, just above a power of two: their last place is then a full
2u of them."""
CUT_NOISE = 2 * NOISE
"""Variance of a term cut off at the last place of the sum: uniform over twice the range, its sign
that of the term."""
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
    """Terms of a sum."""

    count: int
    mean: float
    """Magnitude of the mean."""
    deviation: float

    @classmethod
    def of(cls, count: int, rms: float, mean: float) -> Terms:
        return cls(count, mean, math.sqrt(max(0.0, rms**2 - mean**2)))


def recursive_drift(unit: float, terms: Terms) -> float:
    """Return the relative error that all sums of such terms may share; see `recursive_error`."""
    return unit * _drift(unit, terms) * terms.count


def recursive_error(unit: float, terms: Terms) -> tuple[float, float]:
    """Return the error of a sum rounded to nearest after each term.

    Roundings are independent of each other, with a mean of 0 (Higham and Mary, A new approach to
    probabilistic rounding error analysis, 2019), as long as the sum is small: once its last place
    comes close to the terms, roundings depend on the terms and drift, down to stagnation (Connolly,
    Higham and Mary, Stochastic rounding and its probabilistic backward error analysis, 2021). The
    worst drift is Higham's bound (4.4) of K·u, halved since the sum grows.
    """
    walk = NOISE * SIGMAS * math.sqrt(terms.count / 3)
    rtol = walk + _drift(unit, terms) * terms.count
    return unit * rtol, unit * NOISE * FAR_BRIDGE * terms.count * terms.deviation


def usual_walk(unit: float, count: int, noise: float = EVEN_NOISE) -> float:
    """Return the standard deviation over many sums of the part relative to the sum."""
    return unit * noise * math.sqrt(count / 3)


def _drift(unit: float, terms: Terms) -> float:
    """Return the mean of a rounding as a share of u·|final sum|."""
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
"""Matrix units by bits of the operands.

16 bits: V100 keeps 23 fraction bits of a product, in steps of 4; A100 24 in steps of 8, H100 25 in
steps of 16, of which the sum loses the last 1 or 2: half and three quarters of a place on average.
8 bits: 13 fraction bits of both, in steps of 16 on Ada and of 32 on H100 (which DeepSeek-V3's
report, section 3.3.2, measured as errors near 2 % at K = 4096). CDNA3 is finer, CDNA1 and 2 round
to nearest.
"""


def matrix_unit_drift(bits: int, terms: Terms) -> float:
    """Return the relative error that all sums may share: cutting off errs towards 0."""
    row, size = MATRIX_UNITS[bits], math.hypot(terms.mean, terms.deviation)
    one_sign = min(1.0, 2 * terms.mean / size) if size else 0.0
    return row.unit * BIAS / 2 * terms.count * (one_sign + 1 / row.cut)


def matrix_unit_error(bits: int, terms: Terms) -> tuple[float, float]:
    """Return the relative and the absolute error of a sum by matrix units, for operands of `bits`
    bits.

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


ROUNDING = NOISE * SIGMAS
WINOGRAD = 8.0
"""Error of float 3x3 convolutions by Winograd's F(4x4, 3x3), in units of direct ones (Lavin and
Gray, Fast Algorithms for Convolutional Neural Networks, 2016: 2.8e-4 against 4.0e-5 for a VGG
layer of 64 channels). It is float arithmetic throughout, so it is allowed for."""


def total(terms: int, rms: float, mean: float) -> float:
    """Return the root mean square of a sum."""
    return math.sqrt(terms * rms**2 + (terms * mean) ** 2)


def contraction(
    step: RoundingStep, ports: tuple[str, str], terms: int, factor: float = 1.0
) -> Estimate:
    """Estimate Σ over `terms` products of two operands. `factor`: ratio of its error to that of a
    direct sum.

    ``--math fast`` asks engines for sums in the type of 16-bit operands: cuBLAS's reduced precision
    reduction (PyTorch's allow_fp16_reduced_precision_reduction), cuDNN's numerical note of the same
    name.
    """
    a, b = (step[port] for port in ports)
    bits = [DTYPES[step.tensors[port].data_type].bits for port in ports]
    rounded = step.operand_unit if min(bits) == 32 else 0.0
    rms, mean = a.rms * b.rms, a.mean * b.mean
    carried = (a.noise + 0.6 * rounded * a.rms) * b.rms + (b.noise + 0.6 * rounded * b.rms) * a.rms
    products = Terms.of(terms, rms, mean)
    ways = [tuple(factor * part for part in recursive_error(step.unit, products))]
    drifts = [recursive_drift(step.unit, products)]
    walks = [factor * usual_walk(step.unit, terms)]
    if step.unit and (max(bits) <= 16 or rounded):
        ways.append(matrix_unit_error(8 if max(bits) <= 8 else 16, products))
        drifts.append(matrix_unit_drift(8 if max(bits) <= 8 else 16, products))
        walks.append(
            usual_walk(MATRIX_UNITS[8 if max(bits) <= 8 else 16].unit, terms, 2 * EVEN_NOISE)
        )
    if step.math == "fast" and max(bits) == 16:
        ways.append(recursive_error(step.type_unit(ports[0]), products))
        drifts.append(recursive_drift(step.type_unit(ports[0]), products))
        walks.append(usual_walk(step.type_unit(ports[0]), terms))
    rtol, atol = (max(parts) for parts in zip(*ways, strict=True))
    atol += SIGMAS * math.sqrt(terms) * carried
    drift = max(drifts) + a.drift + b.drift + rounded + step.unit
    size = sum_of(terms, rms, mean, a.peak * b.peak)
    return size.with_error(rtol + step.unit, atol, drift, max(walks) + step.unit)


def sum_of(terms: int, rms: float, mean: float, peak: float, low: float = 0.0) -> Estimate:
    """Return magnitudes of a sum of terms with these."""
    size = total(terms, rms, mean)
    most = min(terms * peak, terms * mean + SIGMAS * math.sqrt(terms) * rms)
    return Estimate(size, terms * mean, most, terms * low, low > 0)


def matmul(step: RoundingStep) -> dict[str, Estimate]:
    return {"c": contraction(step, ("a", "b"), step.tensors["a"].dims[-1])}


def conv_forward(step: RoundingStep) -> dict[str, Estimate]:
    terms = math.prod(step.tensors["w"].dims[1:])
    return {"y": contraction(step, ("x", "w"), terms, _fast_convolution(step))}


def conv_data_gradient(step: RoundingStep) -> dict[str, Estimate]:
    """Return the estimate of dx. An element of dx meets a tap of the kernel for at most 1/stride of
    its positions."""
    filters, channels, *kernel = step.tensors["w"].dims
    groups = max(1, step.tensors["dx"].dims[1] // channels)
    taps = math.prod(
        -(-length // stride)
        for length, stride in zip(kernel, step.node.attributes["stride"], strict=True)
    )
    terms = max(1, filters // groups * taps)
    return {"dx": contraction(step, ("dy", "w"), terms, _fast_convolution(step))}


def conv_weight_gradient(step: RoundingStep) -> dict[str, Estimate]:
    batch, _, *spatial = step.tensors["dy"].dims
    return {"dw": contraction(step, ("x", "dy"), batch * math.prod(spatial))}


def _fast_convolution(step: RoundingStep) -> float:
    kernel = step.tensors["w"].dims[2:]
    attributes = step.node.attributes
    dense = set(attributes["stride"]) == set(attributes["dilation"]) == {1}
    is_float = DTYPES[step.tensors["w"].data_type].bits == 32
    square = sum(length == 3 for length in kernel) >= 2
    return WINOGRAD if dense and is_float and square else 1.0


def grouped_matmul(step: RoundingStep) -> dict[str, Estimate]:
    terms = step.tensors["token"].dims[-1]
    return {"output": contraction(step, ("token", "weight"), terms)}


def grouped_weight_gradient(step: RoundingStep) -> dict[str, Estimate]:
    terms = step.tensors["token"].dims[-2]
    return {"dweight": contraction(step, ("doutput", "token"), terms)}


def added(step: RoundingStep, x: Estimate, terms: int) -> Estimate:
    """Estimate Σ x over `terms` elements."""
    rows = Terms.of(terms, x.rms, x.mean)
    rtol, atol = recursive_error(step.unit, rows)
    atol += SIGMAS * math.sqrt(terms) * x.noise
    result = sum_of(terms, x.rms, x.mean, x.peak, x.low if x.positive else 0.0)
    drift = recursive_drift(step.unit, rows) + x.drift + step.unit
    usual_rtol = usual_walk(step.unit, terms) + step.unit
    return result.with_error(rtol + step.unit, atol, drift, usual_rtol)


def reduction(step: RoundingStep) -> dict[str, Estimate]:
    terms = step.tensors["in"].elements // step.tensors["out"].elements
    return {"out": REDUCTIONS[step.node.attributes["mode"]](step, step["in"], terms)}


def _mean(step: RoundingStep, x: Estimate, terms: int) -> Estimate:
    average = added(step, x, terms).scaled(1 / terms)
    drift = average.drift + 2 * step.unit
    usual_rtol = average.relative_deviation + 2 * step.unit
    return average.with_error(average.rtol + 2 * step.unit, average.atol, drift, usual_rtol)


def norm1(step: RoundingStep, x: Estimate, terms: int) -> Estimate:
    return added(step, magnitude(x), terms)


def magnitude(x: Estimate) -> Estimate:
    """Compute |x|."""
    return Estimate(x.rms, max(x.mean, 0.8 * x.rms), x.peak, x.low, True, x.rtol, x.atol, x.drift)


def square(x: Estimate, unit: float) -> Estimate:
    """Estimate x², as one rounding. Its variance is that of a uniform distribution's square around
    the mean, or more."""
    big, spread = x.peak**2, max(0.0, x.rms**2 - x.mean**2)
    rms = math.sqrt(x.rms**4 + 4 * x.mean**2 * spread + spread**2)
    rtol = 2 * x.rtol + unit
    atol = 2 * x.atol * x.peak
    return Estimate(rms, x.rms**2, big, x.low**2, True, rtol, atol, 2 * x.drift)


def norm2(step: RoundingStep, x: Estimate, terms: int) -> Estimate:
    """Estimate √Σx²: a root halves the relative error of its argument."""
    sums = added(step, square(x, step.unit), terms)
    root = math.sqrt(sums.rms)
    rtol = sums.rtol / 2 + 2 * step.unit
    return Estimate(root, root, math.sqrt(sums.peak), positive=True).with_error(
        rtol,
        sums.atol / (2 * max(root, 1e-30)),
        sums.drift / 2 + 2 * step.unit,
        sums.relative_deviation / 2 + 2 * step.unit,
    )


def _product(step: RoundingStep, x: Estimate, terms: int) -> Estimate:
    """Estimate Π x: relative errors add up like a walk."""
    rtol = SIGMAS * math.sqrt(terms) * (0.4 * step.unit + 0.6 * x.rtol) + step.unit
    size = min(x.rms, 1.0) ** terms
    return Estimate(size, size, max(1.0, x.peak) ** min(terms, 64)).with_error(rtol, 0.0)


def _extreme(_step: RoundingStep, x: Estimate, _terms: int) -> Estimate:
    return x


REDUCTIONS = {
    "add": added,
    "avg": _mean,
    "norm1": norm1,
    "norm2": norm2,
    "mul": _product,
    "mul_no_zeros": _product,
    "min": _extreme,
    "max": _extreme,
    "amax": _extreme,
}


def pooling(step: RoundingStep) -> dict[str, Estimate]:
    """Return the estimate of pooling: the largest is exact; an average is a short sum."""
    x = step["x"]
    if step.node.attributes["resample_mode"] == "maxpool":
        return {"y": x, "index": Estimate(1.0, 1.0, 1.0)}
    return {
        "y": _mean(step, x, math.prod(step.node.attributes["window"])).with_error(
            x.rtol + 4 * step.unit,
            x.atol + ROUNDING * step.unit * x.peak,
            x.drift + 2 * step.unit,
        )
    }


def pooling_gradient(step: RoundingStep) -> dict[str, Estimate]:
    """Estimate the gradient of pooling: each element of dx adds the windows that contain it."""
    attributes = step.node.attributes
    windows = math.prod(
        -(-window // stride)
        for window, stride in zip(attributes["window"], attributes["stride"], strict=True)
    )
    return {"dx": added(step, step["dy"], max(1, windows))}


def dequantize(step: RoundingStep) -> dict[str, Estimate]:
    x, scale = step["x"], step["scale"]
    size = Estimate(x.rms * scale.rms, x.mean * scale.mean, x.peak * scale.peak)
    return {"y": size.with_error(x.rtol + scale.rtol + step.unit, x.atol * scale.peak)}


def quantize(step: RoundingStep) -> dict[str, Estimate]:
    """Estimate a quantization: y may be rounded to either neighbour; values are those of the
    type."""
    row = DTYPES[step.tensors["y"].data_type]
    y = Estimate(row.largest / 2, 0.0, row.largest).with_error(row.unit_roundoff, 0.0)
    return {"y": y, "scale": Estimate(1.0, 1.0, 1.0)}
