"""Element-wise operations: errors pass through by the slope of the function.

The slopes are taken numerically from the float64 reference over the range of the operands, so
every mode and every parameter is covered by the same few lines. A jump (a comparison, a rounding to
integers, the kink of a ReLU's gradient) has no slope: an operand that is itself inexact may fall on
the other side, and such an element is a mismatch.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bench_run.graph.dtypes import DTYPES
from bench_run.reference.pointwise import MODES, parameters
from bench_run.validate.roundoff.estimate import Estimate, RoundingStep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.reference.pointwise import Parameters


# Functions as a GPU's own instructions compute them: what ``--math tf32`` and ``fast`` allow.
#
# Source: PTX ISA 9.1, section 9.7.3, largest errors of the .approx forms of float instructions:
# tanh 2^-11 relative; sin 2^-20.5 absolute within ±2π and 2^-14.7 within ±100π; ex2 2 units in the
# last place; lg2 2^-22 absolute between ½ and 2, relative elsewhere; div 2 units in the last place.
# rsqrt and rcp are as good as what is always allowed.

Array = npt.NDArray[Any]

TANH = 2.0**-11
SINE = 2.0**-20.5
SINE_FAR = 2.0**-14.7
LOGARITHM = 2.0**-22
LAST_PLACE = 2.0**-23


def _gelu_inner(x: Array) -> Array:
    return np.asarray(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _half_tanh(x: Array, beta: float = 1.0) -> Array:
    """Compute ½·tanh(βx/2), the computed part of σ(βx) = ½ + ½·tanh(βx/2)."""
    return np.abs(0.5 * np.tanh(0.5 * beta * x))


def swish_gradient(p: Parameters, dy: Array, x: Array) -> Array:
    """Return the largest error of the gradient for each unit of relative error of t = tanh(z/2), z
    = βx. The gradient is dy·(½(1 + t) + ¼z(1 − t²))."""
    half, z = _half_tanh(x, p.swish_beta), p.swish_beta * x
    return np.asarray(np.abs(dy) * half * (1 + 2 * np.abs(z) * half))


def gelu_gradient(_p: Parameters, dy: Array, x: Array) -> Array:
    """Return the largest error of the gradient for each unit of relative error of t, the tanh. The
    gradient is dy·(½(1 + t) + ½x(1 − t²)·(slope of its argument))."""
    t = np.abs(np.tanh(_gelu_inner(x)))
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
    return np.asarray(np.abs(dy) * (0.5 * t + np.abs(x) * t * t * slope))


def _sine(x: Array) -> Array:
    return np.where(np.abs(x) <= 2 * math.pi, SINE, SINE_FAR)


ERRORS: Mapping[str, Callable[..., Array]] = {
    "tanh_fwd": lambda _p, x: TANH * np.abs(np.tanh(x)),
    "sigmoid_fwd": lambda _p, x: TANH * _half_tanh(x),
    "swish_fwd": lambda p, x: TANH * np.abs(x) * _half_tanh(x, p.swish_beta),
    "gelu_approx_tanh_fwd": lambda _p, x: TANH * np.abs(0.5 * x * np.tanh(_gelu_inner(x))),
    "tanh_bwd": lambda _p, dy, x: TANH * np.abs(2 * dy) * np.tanh(x) ** 2,
    "sigmoid_bwd": lambda _p, dy, x: TANH * np.abs(2 * dy) * _half_tanh(x) ** 2,
    "softplus_bwd": lambda p, dy, x: TANH * np.abs(dy) * _half_tanh(x, p.softplus_beta),
    "swish_bwd": lambda p, dy, x: TANH * swish_gradient(p, dy, x),
    "gelu_approx_tanh_bwd": lambda p, dy, x: TANH * gelu_gradient(p, dy, x),
    "exp": lambda _p, x: LAST_PLACE * (2 + np.abs(x)) * np.exp(x),
    "log": lambda _p, x: LOGARITHM * np.maximum(1.0, np.abs(np.log(x))),
    "sin": lambda _p, x: _sine(x),
    "tan": lambda _p, x: _sine(x) * (1 + np.abs(np.tan(x))) * np.hypot(1, np.tan(x)),
    "div": lambda _p, a, b: 2 * LAST_PLACE * np.abs(a / b),
}
"""Largest error of a mode at a point, from its operands. Gates are taken to be made of tanh, the
coarsest of the instructions, as CUTLASS makes them where CUTLASS_USE_TANH_FOR_SIGMOID is set; exp
rounds x·log₂e before ex2 takes it."""


def approximation(
    mode: str, given: Parameters, points: list[Array], values: Array
) -> tuple[float, float]:
    """Return (rtol, atol) of a mode's own error over these points: relative as far as the error is
    proportional to the result, absolute beyond."""
    if mode not in ERRORS:
        return 0.0, 0.0
    error, size = np.asarray(ERRORS[mode](given, *points)), np.abs(values)
    fine = np.isfinite(error) & np.isfinite(size) & (size > 0)
    if not fine.any():
        return 0.0, 0.0
    error, size = error[fine], size[fine]
    rtol = float(np.median(error / size))
    return rtol, max(0.0, float((error - rtol * size).max()))


ONE_ROUNDING = frozenset(("abs", "add", "identity", "max_op", "min_op", "mul", "neg", "sub")) | (
    frozenset(("relu_bwd", "relu_fwd", "binary_select"))
)
TWO_ROUNDINGS = frozenset(("div", "reciprocal", "sqrt"))
"""Correctly rounded by IEEE 754, but fast vector and GPU forms of them are only nearly so."""
JUMPS = frozenset(("ceil", "floor", "gen_index", "logical_and", "logical_not", "logical_or")) | (
    frozenset(("cmp_eq", "cmp_ge", "cmp_gt", "cmp_le", "cmp_lt", "cmp_neq"))
)
JUMPING_OPERANDS = {"relu_bwd": (1,), "binary_select": (0,)}
PARAMETERS = ("relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope")
FUNCTION_UNITS = 16.0
"""Errors of a special function in units of the compute type: a few for the function itself (NumPy,
CUDA and SLEEF document 1 to 4), some for the steps around it."""
SHARED_UNITS = 2.0
"""Part of these that all elements may share."""
SAMPLES = 512
STEP = 1e-6


def pointwise(step: RoundingStep) -> dict[str, Estimate]:
    mode = step.node.attributes["operation"]
    operands = [step[f"in_{i}"] for i in range(MODES[mode][0])] if mode in MODES else []
    if mode in JUMPS:
        peak = max((operand.peak for operand in operands), default=1.0)
        return {"out_0": Estimate(1.0, 1.0, peak)}
    given = parameters(step.node)
    function = MODES[mode][1]
    points = [_points(operand, place) for place, operand in enumerate(operands)]
    with np.errstate(all="ignore"):
        values = np.asarray(function(given, *points), np.float64)
        largest = DTYPES[step.tensors["out_0"].data_type].largest
        values = np.where(np.abs(values) > largest, math.inf, values)  # as the type holds them
        rtol, atol = _own_error(step, mode, operands, values)
        size = Estimate.of(values, absent=1.0)
        drift = _own_drift(step, mode)
        if step.approximates:
            wider = approximation(mode, given, points, values)
            rtol, atol = rtol + wider[0], atol + wider[1]
            drift += wider[0] + _part(wider[1], size)
        for place, operand in enumerate(operands):
            if place in JUMPING_OPERANDS.get(mode, ()):
                continue
            slope = _slope(lambda *x: function(given, *x), points, place)
            relative, absolute = _passed_on(operand, slope, points[place], values)
            rtol, atol = rtol + relative, atol + absolute
            shared = replace(operand, rtol=operand.drift, atol=0.0)
            relative, absolute = _passed_on(shared, slope, points[place], values)
            drift += relative + _part(absolute, size)
    return {"out_0": size.with_error(rtol, atol, drift)}


def _part(absolute: float, size: Estimate) -> float:
    """Return an absolute error as a part of the usual size."""
    return absolute / size.rms if size.rms else 0.0


def _own_drift(step: RoundingStep, mode: str) -> float:
    """Return the drift. Roundings to nearest do not drift. A parameter's rounding is the same for
    all elements; an approximation may err one way by about as much as it rounds."""
    parameter = step.unit if any(step.node.attributes.get(n) for n in PARAMETERS) else 0.0
    if mode in ONE_ROUNDING:
        return parameter
    result_unit = step.type_unit("out_0")
    narrow = result_unit / 2 if result_unit > step.unit and mode not in TWO_ROUNDINGS else 0.0
    return parameter + SHARED_UNITS * step.unit + narrow


def _points(operand: Estimate, place: int) -> Array:
    """Return values of the operand's size: spread over its range, mostly near its usual size."""
    spread = np.random.Generator(np.random.PCG64(place)).random(SAMPLES)
    if operand.positive:
        return operand.low + (operand.peak - operand.low) * spread
    usual = min(operand.peak, 1.8 * operand.rms)
    points = usual * (2 * spread - 1)
    points[:2] = -operand.peak, operand.peak
    return points


def _slope(function: Callable[..., Array], points: list[Array], place: int) -> Array:
    width = STEP * max(1e-30, float(np.abs(points[place]).max()))
    sides = []
    for sign in (-1.0, 1.0):
        moved = list(points)
        moved[place] = points[place] + sign * width
        sides.append(np.asarray(function(*moved), np.float64))
    return np.abs(sides[1] - sides[0]) / (2 * width)


def _passed_on(
    operand: Estimate, slope: Array, points: Array, values: Array
) -> tuple[float, float]:
    """Return an operand's error in the result: relative up to the result's size, absolute
    beyond."""
    slope = slope[np.isfinite(slope)]
    if slope.size == 0 or operand.rtol == operand.atol == 0:
        return 0.0, 0.0
    excess = 0.0
    if slope.size == points.size:
        excess = max(0.0, float((np.abs(points) * slope - np.abs(values)).max()))
    absolute = operand.atol * float(slope.max()) + operand.rtol * excess
    return operand.rtol, absolute


def _own_error(
    step: RoundingStep, mode: str, operands: list[Estimate], values: Array
) -> tuple[float, float]:
    """Return the errors of the operation itself. A single rounding to the type of the result is
    counted with the stored result.

    Parameters are rounded to the compute type. Libraries only promise one of the two neighbours for
    a special function in a narrow type: one more rounding.
    """
    unit, result_unit = step.unit, step.type_unit("out_0")
    parameter = unit if any(step.node.attributes.get(name) for name in PARAMETERS) else 0.0
    if mode in ONE_ROUNDING:
        return (0.0 if result_unit == unit else unit) + parameter, 0.0
    if mode in TWO_ROUNDINGS:
        return 2 * unit, 0.0
    if mode == "add_square":
        return 2 * unit, unit * operands[1].peak ** 2
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max()) if finite.size else 1.0
    return max(FUNCTION_UNITS * unit, result_unit), FUNCTION_UNITS / 2 * unit * largest
