"""Batch, layer and RMS norm: statistics over n elements, then a scale and a shift of each.

Variances may come from E[x²] − E[x]², which cancels: their error is one of E[x²]. Of R statistics
over n elements the smallest variance is about R^(−2/(n−1)) of the usual one, so its root divides by
that much less: short rows make large values and large errors.
"""

from __future__ import annotations

import math
from dataclasses import replace

from bench_run.graph.operations.norms import rmsnorm_axes
from bench_run.validate.roundoff.estimate import COARSE, SIGMAS, Estimate, RoundingStep
from bench_run.validate.roundoff.sums import added, square, sum_of

EPSILON = 1e-5
LEAST = 1e-30
"""Variance in place of 0 without ε, whose inverse root is infinite."""
INVERSE_DRIFT = 2.5
"""Error that all inverse roots may share, in units: a GPU's own rsqrt is off by up to 2.2 (PTX ISA,
rsqrt.approx: 2^-22.9), and a division by the count may be a product with a rounded number."""
STEPS = 4.0
"""Roundings of a scale and a shift, each of at most the size of the largest term."""


def _count(step: RoundingStep, statistic: str, x: str = "x") -> tuple[int, int]:
    """Return the number of elements of a statistic, and the number of statistics."""
    rows = max(1, step.tensors[statistic].elements)
    return max(1, step.tensors[x].elements // rows), rows


def statistics(
    step: RoundingStep, count: int, rows: int, *, centred: bool = True
) -> tuple[Estimate, Estimate]:
    """Return the mean and 1/√(variance + ε), or 1/√(mean square + ε) if not centred."""
    x, epsilon = step["x"], step.get("epsilon", EPSILON).rms
    mean = added(step, x, count).scaled(1 / count)
    squares = added(step, square(x, step.unit), count).scaled(1 / count)
    variance = squares.mean - (x.mean**2 if centred else 0.0)
    variance = max(variance * max(0.0, 1 - 1 / count), 0.0) if centred else variance
    usual = 1 / math.sqrt(max(variance + epsilon, LEAST))
    spread = rows ** (1 / max(1, count - 1 if centred else count))
    most = min(2 * usual * spread, 1 / math.sqrt(max(epsilon, LEAST)))
    error = _size_of_error(squares) + (2 * mean.peak * _size_of_error(mean) if centred else 0.0)
    # How many times smaller than the usual one a variance of so many elements may be by
    # chance: its deviation is √(2/n) of it.
    least = 1 - SIGMAS * math.sqrt(2 / count)
    slope = 0.5 * min(most**2, usual**2 * (1 / least if least > 0 else math.inf))
    rtol = slope * error + STEPS * step.unit
    apart = math.hypot(_usual_error(squares), 2 * mean.mean * _usual_error(mean) * centred)
    shared = squares.drift * squares.mean + 2 * mean.mean**2 * mean.drift * centred
    inv = Estimate(usual, usual, most, 0.5 * usual, positive=True, rtol=rtol)
    return mean, replace(
        inv,
        drift=slope * shared + INVERSE_DRIFT * step.unit,
        usual_rtol=math.hypot(slope * apart, step.unit),
    ).in_groups(slope * apart, rows)


def _alone(statistic: Estimate) -> Estimate:
    """Return the statistic as a separate result, in which each element is a group."""
    return statistic.in_groups(0.0, 1)


def shifted(step: RoundingStep, mean: Estimate, inv: Estimate, statistics_count: int) -> Estimate:
    """Estimate y = (x − mean)·inv·scale + bias."""
    x, scale, bias = step["x"], step.get("scale", 1.0), step.get("bias", 0.0)
    gain = inv.peak * scale.peak
    size = (x.peak + mean.peak) * gain + bias.peak
    carried = gain * (_size_of_error(x) + _size_of_error(mean))
    relative = inv.rtol + scale.rtol + inv.atol / max(inv.low, 1e-30)
    atol = STEPS * step.unit * size + carried + relative * bias.peak + bias.atol
    rms = math.hypot(math.hypot(x.rms, mean.rms) * inv.rms * scale.rms, bias.rms)
    y = Estimate(rms, bias.mean, size)
    if not rms or x.drift:  # what operands err alike is not followed through
        return y.with_error(relative + step.unit, atol)
    offset = inv.rms * scale.rms / rms
    drift = inv.drift + scale.drift + offset * mean.mean * mean.drift
    group = math.hypot(inv.group, offset * _usual_error(mean))
    own = STEPS * step.unit * (x.rms + mean.rms) * inv.rms * scale.rms + step.unit * bias.rms
    y = y.with_error(relative + step.unit, atol, drift, math.hypot(step.unit, scale.rtol))
    product = step.unit  # of the statistic and a parameter, rounded once for the whole group
    return replace(y, usual=own).in_groups(math.hypot(group, product), statistics_count)


def batchnorm_inference(step: RoundingStep) -> dict[str, Estimate]:
    return {"y": shifted(step, step["mean"], step["inv_variance"], _count(step, "mean")[1])}


def batchnorm_inference_variance(step: RoundingStep) -> dict[str, Estimate]:
    variance, epsilon = step["variance"], step.get("epsilon", EPSILON).rms
    root = 1 / math.sqrt(max(variance.rms + epsilon, LEAST))
    most = 1 / math.sqrt(max(variance.low + epsilon, LEAST))
    rtol = STEPS * step.unit + 0.5 * variance.rtol
    inv = Estimate(root, root, most, 0.5 * root, positive=True, rtol=rtol)
    inv = replace(inv, drift=INVERSE_DRIFT * step.unit + 0.5 * variance.drift)
    return {"y": shifted(step, step["mean"], inv, _count(step, "mean")[1])}


def batchnorm_training(step: RoundingStep) -> dict[str, Estimate]:
    count, rows = _count(step, "scale")
    mean, inv = statistics(step, count, rows)
    x = step["x"]
    variance = Estimate(x.rms**2, x.rms**2, x.rms**2 * 2, positive=True)
    moved = {"mean": mean, "variance": variance.with_error(2 * inv.rtol, 0.0)}
    results = {"y": shifted(step, mean, inv, rows), "mean": mean, "inv_variance": _alone(inv)}
    for name, batch in moved.items():
        previous = step.get(f"prev_running_{name}", 0.0)
        size = max(previous.peak, batch.peak)
        atol = STEPS * step.unit * size + _size_of_error(batch)
        both = Estimate(max(previous.rms, batch.rms), previous.mean, size)
        results[f"next_running_{name}"] = both.with_error(step.unit, atol)
    return results


def layernorm(step: RoundingStep) -> dict[str, Estimate]:
    count = math.prod(step.tensors["x"].dims[-step.node.attributes["normalized_dim_count"] :])
    rows = step.tensors["x"].elements // count
    mean, inv = statistics(step, count, rows)
    y = shifted(step, mean, inv, rows)
    return {"y": y, "mean": mean, "inv_variance": _alone(inv)}


def rmsnorm(step: RoundingStep) -> dict[str, Estimate]:
    saved = step.tensors.get("inv_rms")
    dims = step.tensors["x"].dims
    axes = rmsnorm_axes(dims, step.tensors["scale"].dims, None if saved is None else saved.dims)
    count = max(1, math.prod(dims[axis] for axis in axes))
    rows = step.tensors["x"].elements // count
    _, inv = statistics(step, count, rows, centred=False)
    return {"y": shifted(step, Estimate(0.0, 0.0, 0.0), inv, rows), "inv_rms": _alone(inv)}


def _gradients(
    step: RoundingStep, inv: Estimate, mean: Estimate, coupled: int
) -> dict[str, Estimate]:
    """Return the estimates of the gradients. With x̂ = (x − mean)·inv: dbias = Σdy, dscale = Σdy·x̂
    over the elements of a parameter, dx = inv·(g − (Σg + x̂·Σg·x̂)/n) with g = dy·scale over the n
    elements of a statistic."""
    dy, x, scale = step["dy"], step["x"], step["scale"]
    normal = _normal(step, x, mean, inv)
    x_count = step.tensors["x"].elements
    summed = max(1, x_count // step.tensors["scale"].elements)
    products = _product(dy, normal, step.unit)
    weighted = _product(dy, scale, step.unit)
    coupling = _product(weighted, normal, step.unit)
    sums = [added(step, term, coupled).scaled(1 / coupled) for term in (weighted, coupling)]
    size = weighted.peak + sums[0].peak + normal.peak * sums[1].peak
    error = _size_of_error(weighted) + _size_of_error(sums[0])
    error += normal.peak * _size_of_error(sums[1]) + sums[1].peak * _size_of_error(normal)
    atol = inv.peak * (error + STEPS * step.unit * size) + inv.atol * size
    dx = Estimate(weighted.rms * inv.rms, 0.0, size * inv.peak)
    drift = inv.drift + weighted.drift + step.unit
    apart = math.hypot(_usual_error(sums[0]), normal.rms * _usual_error(sums[1]))
    group = math.hypot(inv.group, apart / weighted.rms if weighted.rms else 0.0)
    own = STEPS * step.unit * weighted.rms * inv.rms
    dx = dx.with_error(inv.rtol + step.unit, atol, drift, step.unit)
    return {
        "dx": replace(dx, usual=own).in_groups(group, x_count // coupled),
        "dscale": added(step, products, summed),
        "dbias": added(step, dy, summed),
    }


def _size_of_error(x: Estimate) -> float:
    """Return the largest error, as an absolute number."""
    return x.atol + x.rtol * x.peak


def _usual_error(x: Estimate) -> float:
    """Return the standard deviation, as an absolute number."""
    return math.hypot(x.relative_deviation * x.rms, x.deviation)


def _normal(step: RoundingStep, x: Estimate, mean: Estimate, inv: Estimate) -> Estimate:
    size = (x.peak + mean.peak) * inv.peak
    atol = inv.peak * (_size_of_error(x) + _size_of_error(mean)) + 2 * step.unit * size
    rms = math.hypot(x.rms, mean.rms) * inv.rms
    normal = Estimate(rms, 0.0, min(size, max(SIGMAS * rms, size / 4)))
    drift = x.drift + inv.drift + (mean.drift * mean.mean * inv.rms / rms if rms else 0.0)
    return normal.with_error(inv.rtol, atol, drift)


def _product(a: Estimate, b: Estimate, unit: float) -> Estimate:
    atol = a.atol * b.peak + b.atol * a.peak
    size = sum_of(1, a.rms * b.rms, a.mean * b.mean, a.peak * b.peak)
    return size.with_error(a.rtol + b.rtol + unit, atol, a.drift + b.drift + COARSE * unit)


def batchnorm_backward(step: RoundingStep) -> dict[str, Estimate]:
    count, rows = _count(step, "scale")
    mean, inv = _saved(step, "inv_variance", count, rows)
    return _gradients(step, inv, mean, count)


def layernorm_backward(step: RoundingStep) -> dict[str, Estimate]:
    count = math.prod(step.tensors["x"].dims[-step.node.attributes["normalized_dim_count"] :])
    mean, inv = _saved(step, "inv_variance", count, step.tensors["x"].elements // count)
    return _gradients(step, inv, mean, count)


def rmsnorm_backward(step: RoundingStep) -> dict[str, Estimate]:
    count, _ = _count(step, "inv_rms")
    return _gradients(step, step["inv_rms"], Estimate(0.0, 0.0, 0.0), count)


def _saved(step: RoundingStep, inv: str, count: int, rows: int) -> tuple[Estimate, Estimate]:
    if inv in step.operands and "mean" in step.operands:
        return step["mean"], step[inv]
    return statistics(step, count, rows)
