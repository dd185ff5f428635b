"""Attention. Flash kernels keep the probabilities P, and in backward dS, in the operands' type for
the matrix units; some round scale·q to it as well. Both are correct and allowed for; where the
operands are float, everything is.

An error e of a score makes a relative error e of its probability. Errors of different keys are
independent, so that a row sums them like √ΣP², which is 1/√(number of keys) for a flat row and up
to 1 where a mask leaves few keys.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bench_run.graph.dtypes import DTYPES
from bench_run.graph.operations.sdpa import band
from bench_run.validate.roundoff.estimate import SIGMAS, Estimate, RoundingStep
from bench_run.validate.roundoff.sums import (
    ROUNDING,
    Terms,
    contraction,
    matrix_unit_drift,
    recursive_drift,
    recursive_error,
    usual_walk,
)

FUNCTION_UNITS = 16.0
"""Errors of exponentials and divisions in units of the compute type, as in `pointwise.py`."""
SHARED_UNITS = 2.0
"""Part of these that all elements may share."""
USUAL_UNITS = 3.0
"""Their standard deviation over many elements."""
FLATNESS = 2.0
"""Usual ratio of a probability of an unmasked row to the mean."""


def _scale(step: RoundingStep) -> float:
    if "scale" in step.operands:
        return step["scale"].peak
    value = step.node.attributes.get("attn_scale_value")
    return step.tensors["q"].dims[-1] ** -0.5 if value is None else abs(float(value))


def _score(step: RoundingStep) -> Estimate:
    """Return the estimate of scale·(q·k) + bias, with its error."""
    scale = _scale(step)
    for port in ("descale_q", "descale_k"):
        scale *= step.get(port, 1.0).peak
    dots = contraction(step, ("q", "k"), step.tensors["q"].dims[-1]).scaled(scale)
    bias = step.get("attn_mask", 0.0)
    narrow = 0.0
    if DTYPES[step.tensors["q"].data_type].bits == 16:
        narrow = 0.6 * SIGMAS * step.type_unit("q") * dots.rms
    atol = dots.atol + dots.rtol * dots.peak + narrow + step.unit * (dots.peak + bias.peak)
    size = Estimate(math.hypot(dots.rms, bias.rms), bias.mean, dots.peak + bias.peak)
    return size.with_error(0.0, atol)


def _row_weight(step: RoundingStep) -> float:
    """Return √ΣP² of the row with the fewest keys."""
    mask = band(step.node.attributes)
    masked = mask.left is not None or mask.right is not None
    varying = {"seq_len_kv", "seq_len_q", "page_table_k", "attn_mask"} & set(step.operands)
    if masked or varying:
        return 1.0
    return min(1.0, FLATNESS / math.sqrt(step.tensors["k"].dims[2]))


def _heads_of_a_key(step: RoundingStep) -> int:
    return max(1, step.tensors["q"].dims[1] // step.tensors["k"].dims[1])


def _column_weight(step: RoundingStep) -> float:
    """Return √ΣP² of the key that most rows use, over the query heads that share it."""
    heads = _heads_of_a_key(step)
    if _row_weight(step) == 1.0:
        rows = 1.3 + math.sqrt(step.tensors["q"].dims[2]) / step.tensors["k"].dims[2]
    else:
        rows = FLATNESS * math.sqrt(step.tensors["q"].dims[2]) / step.tensors["k"].dims[2]
    return rows * math.sqrt(heads)


def _usual_weight(step: RoundingStep, score: Estimate) -> float:
    """Return √ΣP² over all rows, as a root mean square. With scores of standard deviation s a row
    of n keys has exp(s²/2)/√n, since probabilities are then log-normal."""
    if {"seq_len_kv", "seq_len_q", "page_table_k", "attn_mask"} & set(step.operands):
        return 1.0
    mask = band(step.node.attributes)
    queries, keys = step.tensors["q"].dims[2], step.tensors["k"].dims[2]
    rows = np.arange(queries) + (keys - queries if mask.bottom_right else 0)
    first = np.zeros(queries) if mask.left is None else rows - mask.left
    last = np.full(queries, keys) if mask.right is None else rows + mask.right + 1
    count = np.minimum(keys, last) - np.maximum(0, first)
    left = np.maximum(1, count).astype(np.float64)  # keys that the mask leaves each row
    squares = np.minimum(1.0, math.exp(min(score.rms, 3.0) ** 2) / left)
    return math.sqrt(float(squares.mean()))


def _relative(step: RoundingStep, score: Estimate) -> float:
    """Return the error of a probability relative to it, as far as the scores make it."""
    return score.atol + FUNCTION_UNITS * step.unit


def _averaged(step: RoundingStep, relative: float, weight: float, x: Estimate) -> float:
    """Return the error of Σ P·x. Probabilities sum to 1, so no row errs by more than the largest
    x."""
    unit = step.type_unit("q")
    statistical = math.hypot(relative, 0.6 * SIGMAS * unit) * weight * x.rms
    return min(statistical, (relative + unit) * x.peak) + SIGMAS * x.noise * min(weight, 1.0)


def _drift(step: RoundingStep) -> float:
    """Return the error that all elements may share: exponentials and divisions, sums cut off by
    matrix units, and probabilities that are cut off to a narrow type, as some kernels for CDNA do,
    where others round to nearest."""
    bits, keys = DTYPES[step.tensors["q"].data_type].bits, step.tensors["k"].dims[2]
    own = SHARED_UNITS * step.unit + step.operand_unit
    if bits > 16:
        return own + recursive_drift(step.unit, Terms(keys, 1.0, 1.0))
    cut = matrix_unit_drift(8 if bits == 8 else 16, Terms(keys, 0.0, 1.0))
    return own + cut + step.type_unit("q")


def forward(step: RoundingStep) -> dict[str, Estimate]:
    v, score = step["v"], _score(step)
    factor = step.get("descale_v", 1.0).peak * step.get("scale_o", 1.0).peak
    keys, weight = step.tensors["v"].dims[2], _row_weight(step)
    error = _averaged(step, _relative(step, score), 2 * weight, v)
    rms = math.hypot(v.rms / math.sqrt(keys), v.mean) if weight < 1 else v.rms
    rtol, atol = recursive_error(step.unit, Terms(keys, 0.0, v.rms / keys))
    o = Estimate(rms, v.mean, v.peak).with_error(
        FUNCTION_UNITS * step.unit + rtol, error + atol, _drift(step)
    )
    usual = _averaged(step, _relative(step, score), _usual_weight(step, score), v) + atol
    usual_rtol = math.hypot(USUAL_UNITS * step.unit, usual_walk(step.unit, keys))
    o = replace(o, usual=usual / SIGMAS, usual_rtol=usual_rtol)
    spread = math.log(max(2, keys)) + score.peak
    stats_error = score.atol + FUNCTION_UNITS * step.unit * max(1.0, spread)
    stats = Estimate(spread, spread, spread).with_error(step.unit, stats_error)
    peak = Estimate(score.rms, score.mean, score.peak).with_error(step.unit, score.atol)
    total = Estimate(keys / 2, keys / 2, keys).with_error(stats_error, stats_error)
    return {"o": o.scaled(factor), "stats": stats, "max": peak, "sum_exp": total}


def backward(step: RoundingStep) -> dict[str, Estimate]:
    """Estimate dV = Pᵀ·dO, dS = P∘(dO·Vᵀ − Δ), dQ = scale·dS·K, dK = scale·dSᵀ·Q."""
    q, k, do = (step[port] for port in ("q", "k", "do"))
    score, scale, unit_io = _score(step), _scale(step), step.type_unit("q")
    narrow = 0.6 * SIGMAS * unit_io
    relative = math.hypot(_relative(step, score) + step["stats"].atol, narrow)
    products = contraction(step, ("do", "v"), step.tensors["v"].dims[-1])
    centred = 2 * products.rms
    inner = math.hypot(relative, narrow) * centred + products.atol
    row, column = _row_weight(step), _column_weight(step)
    sums = ROUNDING * step.unit
    errors = {
        "dq": scale * (inner * k.rms * row + sums * centred * k.rms),
        "dk": scale * (inner * q.rms * column + sums * centred * q.rms * (1 + column)),
        "dv": relative * do.rms * column + sums * do.rms * (1 + column),
        "dbias": inner * max(row, column),
    }
    seen = _usual_weight(step, score)
    heads = _heads_of_a_key(step)
    column_seen = seen * math.sqrt(heads * step.tensors["q"].dims[2] / step.tensors["k"].dims[2])
    common = {
        "dq": scale * (inner * k.rms * seen + sums * centred * k.rms * seen),
        "dk": scale * (inner + sums * centred) * q.rms * column_seen,
        "dv": (relative + sums) * do.rms * column_seen,
        "dbias": inner * seen,
    }
    narrow_type = DTYPES[step.tensors["q"].data_type].bits <= 16  # P and dS are rounded to it
    drift = 2 * _drift(step) if narrow_type else _drift(step) + step.unit
    size = {"dq": k.rms * row, "dk": q.rms * column, "dv": do.rms * column, "dbias": 1.0}
    factor = {"dq": scale * centred, "dk": scale * centred, "dv": 1.0, "dbias": centred}
    return {
        port: replace(
            Estimate(size[port] * factor[port], 0.0, SIGMAS * size[port] * factor[port]).with_error(
                FUNCTION_UNITS * step.unit, error, drift, USUAL_UNITS * step.unit
            ),
            usual=min(error, common[port]) / SIGMAS,
        )
        for port, error in errors.items()
    }
