"""Sums and products: convolution, matmul, grouped matmul, reduction, pooling, block scaling.

How far a long sum errs is in `accumulation.py`.
"""

from __future__ import annotations

import math

from bench_run.graph.dtypes import DTYPES
from bench_run.validate.roundoff.accumulation import (
    EVEN_NOISE,
    MATRIX_UNITS,
    NOISE,
    Terms,
    matrix_unit_drift,
    matrix_unit_error,
    recursive_drift,
    recursive_error,
    usual_walk,
)
from bench_run.validate.roundoff.estimate import SIGMAS, Estimate, Step

ROUNDING = NOISE * SIGMAS
WINOGRAD = 8.0
"""Error of float 3x3 convolutions by Winograd's F(4x4, 3x3), in units of direct ones (Lavin and
Gray, Fast Algorithms for Convolutional Neural Networks, 2016: 2.8e-4 against 4.0e-5 for a VGG
layer of 64 channels). It is float arithmetic throughout, so it is allowed for."""


def total(terms: int, rms: float, mean: float) -> float:
    """Root mean square of a sum."""
    return math.sqrt(terms * rms**2 + (terms * mean) ** 2)


def contraction(step: Step, ports: tuple[str, str], terms: int, factor: float = 1.0) -> Estimate:
    """Σ over `terms` products of two operands. `factor`: how much worse than a direct sum.

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
    """Magnitudes of a sum of terms with these."""
    size = total(terms, rms, mean)
    most = min(terms * peak, terms * mean + SIGMAS * math.sqrt(terms) * rms)
    return Estimate(size, terms * mean, most, terms * low, low > 0)


def matmul(step: Step) -> dict[str, Estimate]:
    return {"c": contraction(step, ("a", "b"), step.tensors["a"].dims[-1])}


def conv_forward(step: Step) -> dict[str, Estimate]:
    terms = math.prod(step.tensors["w"].dims[1:])
    return {"y": contraction(step, ("x", "w"), terms, _fast_convolution(step))}


def conv_data_gradient(step: Step) -> dict[str, Estimate]:
    """An element of dx meets a tap of the kernel for at most 1/stride of its positions."""
    filters, channels, *kernel = step.tensors["w"].dims
    groups = max(1, step.tensors["dx"].dims[1] // channels)
    taps = math.prod(
        -(-length // stride)
        for length, stride in zip(kernel, step.node.attributes["stride"], strict=True)
    )
    terms = max(1, filters // groups * taps)
    return {"dx": contraction(step, ("dy", "w"), terms, _fast_convolution(step))}


def conv_weight_gradient(step: Step) -> dict[str, Estimate]:
    batch, _, *spatial = step.tensors["dy"].dims
    return {"dw": contraction(step, ("x", "dy"), batch * math.prod(spatial))}


def _fast_convolution(step: Step) -> float:
    kernel = step.tensors["w"].dims[2:]
    attributes = step.node.attributes
    dense = set(attributes["stride"]) == set(attributes["dilation"]) == {1}
    is_float = DTYPES[step.tensors["w"].data_type].bits == 32
    return WINOGRAD if dense and is_float and _has_square_of_three(kernel) else 1.0


def _has_square_of_three(kernel: tuple[int, ...]) -> bool:
    return sum(length == 3 for length in kernel) >= 2


def grouped_matmul(step: Step) -> dict[str, Estimate]:
    terms = step.tensors["token"].dims[-1]
    return {"output": contraction(step, ("token", "weight"), terms)}


def grouped_weight_gradient(step: Step) -> dict[str, Estimate]:
    terms = step.tensors["token"].dims[-2]
    return {"dweight": contraction(step, ("doutput", "token"), terms)}


def added(step: Step, x: Estimate, terms: int) -> Estimate:
    """Σ x over `terms` elements."""
    rows = Terms.of(terms, x.rms, x.mean)
    rtol, atol = recursive_error(step.unit, rows)
    atol += SIGMAS * math.sqrt(terms) * x.noise
    result = sum_of(terms, x.rms, x.mean, x.peak, x.low if x.positive else 0.0)
    drift = recursive_drift(step.unit, rows) + x.drift + step.unit
    usual_rtol = usual_walk(step.unit, terms) + step.unit
    return result.with_error(rtol + step.unit, atol, drift, usual_rtol)


def reduction(step: Step) -> dict[str, Estimate]:
    terms = step.tensors["in"].elements // step.tensors["out"].elements
    return {"out": REDUCTIONS[step.node.attributes["mode"]](step, step["in"], terms)}


def _mean(step: Step, x: Estimate, terms: int) -> Estimate:
    average = added(step, x, terms).scaled(1 / terms)
    drift = average.drift + 2 * step.unit
    usual_rtol = average.relative_deviation + 2 * step.unit
    return average.with_error(average.rtol + 2 * step.unit, average.atol, drift, usual_rtol)


def _norm1(step: Step, x: Estimate, terms: int) -> Estimate:
    return added(step, magnitude(x), terms)


def magnitude(x: Estimate) -> Estimate:
    """|x|."""
    return Estimate(x.rms, max(x.mean, 0.8 * x.rms), x.peak, x.low, True, x.rtol, x.atol, x.drift)


def square(x: Estimate, unit: float) -> Estimate:
    """x², as one rounding. Its variance is that of a uniform distribution's square around the
    mean, or more."""
    big, spread = x.peak**2, max(0.0, x.rms**2 - x.mean**2)
    rms = math.sqrt(x.rms**4 + 4 * x.mean**2 * spread + spread**2)
    rtol = 2 * x.rtol + unit
    atol = 2 * x.atol * x.peak
    return Estimate(rms, x.rms**2, big, x.low**2, True, rtol, atol, 2 * x.drift)


def _norm2(step: Step, x: Estimate, terms: int) -> Estimate:
    """√Σx²: a root halves the relative error of its argument."""
    sums = added(step, square(x, step.unit), terms)
    root = math.sqrt(sums.rms)
    rtol = sums.rtol / 2 + 2 * step.unit
    return Estimate(root, root, math.sqrt(sums.peak), positive=True).with_error(
        rtol,
        sums.atol / (2 * max(root, 1e-30)),
        sums.drift / 2 + 2 * step.unit,
        sums.relative_deviation / 2 + 2 * step.unit,
    )


def _product(step: Step, x: Estimate, terms: int) -> Estimate:
    """Π x: relative errors add up like a walk."""
    rtol = SIGMAS * math.sqrt(terms) * (0.4 * step.unit + 0.6 * x.rtol) + step.unit
    size = min(x.rms, 1.0) ** terms
    return Estimate(size, size, max(1.0, x.peak) ** min(terms, 64)).with_error(rtol, 0.0)


def _extreme(_step: Step, x: Estimate, _terms: int) -> Estimate:
    return x


REDUCTIONS = {
    "add": added,
    "avg": _mean,
    "norm1": _norm1,
    "norm2": _norm2,
    "mul": _product,
    "mul_no_zeros": _product,
    "min": _extreme,
    "max": _extreme,
    "amax": _extreme,
}


def pooling(step: Step) -> dict[str, Estimate]:
    """The largest is exact; an average is a short sum."""
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


def pooling_gradient(step: Step) -> dict[str, Estimate]:
    """Each element of dx adds the windows that it is in."""
    attributes = step.node.attributes
    windows = math.prod(
        -(-window // stride)
        for window, stride in zip(attributes["window"], attributes["stride"], strict=True)
    )
    return {"dx": added(step, step["dy"], max(1, windows))}


def dequantize(step: Step) -> dict[str, Estimate]:
    x, scale = step["x"], step["scale"]
    size = Estimate(x.rms * scale.rms, x.mean * scale.mean, x.peak * scale.peak)
    return {"y": size.with_error(x.rtol + scale.rtol + step.unit, x.atol * scale.peak)}


def quantize(step: Step) -> dict[str, Estimate]:
    """y may be rounded to either neighbour; values are those of the type."""
    row = DTYPES[step.tensors["y"].data_type]
    y = Estimate(row.largest / 2, 0.0, row.largest).with_error(row.unit_roundoff, 0.0)
    return {"y": y, "scale": Estimate(1.0, 1.0, 1.0)}
