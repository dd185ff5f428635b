"""Functions as a GPU's own instructions compute them: what ``--math tf32`` and ``fast`` allow.

Source: PTX ISA 9.1, section 9.7.3, largest errors of the .approx forms of float instructions:
tanh 2^-11 relative; sin 2^-20.5 absolute within ±2π and 2^-14.7 within ±100π; ex2 2 units in the
last place; lg2 2^-22 absolute between ½ and 2, relative elsewhere; div 2 units in the last place.
rsqrt and rcp are as good as what is always allowed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.reference.pointwise_parameters import Parameters

Array = npt.NDArray[Any]

TANH = 2.0**-11
SINE = 2.0**-20.5
SINE_FAR = 2.0**-14.7
LOGARITHM = 2.0**-22
LAST_PLACE = 2.0**-23


def _gelu_inner(x: Array) -> Array:
    return np.asarray(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _gelu_slope(x: Array) -> Array:
    return np.asarray(math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x))


def _half_tanh(x: Array, beta: float = 1.0) -> Array:
    """σ(βx) = ½ + ½·tanh(βx/2): the part of it that is computed."""
    return np.abs(0.5 * np.tanh(0.5 * beta * x))


def _swish_gradient(p: Parameters, dy: Array, x: Array) -> Array:
    """With t = tanh(z/2) and z = βx: ½(1 + t) + ¼z(1 − t²)."""
    half, z = _half_tanh(x, p.swish_beta), p.swish_beta * x
    return np.asarray(np.abs(dy) * half * (1 + 2 * np.abs(z) * half))


def _gelu_gradient(_p: Parameters, dy: Array, x: Array) -> Array:
    """With t the tanh: ½(1 + t) + ½x(1 − t²)·(slope of its argument)."""
    t = np.abs(np.tanh(_gelu_inner(x)))
    return np.asarray(np.abs(dy) * (0.5 * t + np.abs(x) * t * t * _gelu_slope(x)))


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
    "swish_bwd": lambda p, dy, x: TANH * _swish_gradient(p, dy, x),
    "gelu_approx_tanh_bwd": lambda p, dy, x: TANH * _gelu_gradient(p, dy, x),
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
    """(rtol, atol) of a mode's own error over these points: relative as far as the error goes with
    the result, absolute beyond."""
    if mode not in ERRORS:
        return 0.0, 0.0
    error, size = np.asarray(ERRORS[mode](given, *points)), np.abs(values)
    fine = np.isfinite(error) & np.isfinite(size) & (size > 0)
    if not fine.any():
        return 0.0, 0.0
    error, size = error[fine], size[fine]
    rtol = float(np.median(error / size))
    return rtol, max(0.0, float((error - rtol * size).max()))
