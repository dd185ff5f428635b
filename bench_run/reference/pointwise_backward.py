"""Gradients of activations: dx from dy and x, the input of the forward activation.

Each is dy times the derivative of the forward formula in `pointwise`.
Source: hipDNN's pointwise node (ReLU, sigmoid, tanh); the derivative where it shows none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.special import expit, ndtr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.reference.common import Array
    from bench_run.reference.pointwise_parameters import Parameters

SQRT_2_PI = np.sqrt(2.0 / np.pi)


def _relu(p: Parameters, dy: Array, x: Array) -> Array:
    """x ≤ L: s; x > U: 0; else 1, so also at U and at NaN. Where the factor is 0, so is dx, even
    if dy is infinite or NaN."""
    low = p.slope * dy if p.slope else 0.0
    return np.where(x <= p.lower, low, np.where(x > p.upper, 0.0, dy))


def _elu(p: Parameters, dy: Array, x: Array) -> Array:
    """x > 0: 1; else α·eˣ."""
    return dy * np.where(x > 0, 1.0, p.elu_alpha * np.exp(x))


def _gelu(_p: Parameters, dy: Array, x: Array) -> Array:
    """Φ(x) + x·φ(x)."""
    density = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    return np.asarray(dy * (ndtr(x) + x * density))


def _gelu_tanh(_p: Parameters, dy: Array, x: Array) -> Array:
    """½(1 + t) + ½x(1 − t²)·√(2/π)·(1 + 3·0.044715x²), t the forward's tanh."""
    t = np.tanh(SQRT_2_PI * (x + 0.044715 * x**3))
    inner = SQRT_2_PI * (1.0 + 3.0 * 0.044715 * x * x)
    return np.asarray(dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner))


def _sigmoid(_p: Parameters, dy: Array, x: Array) -> Array:
    """σ(x)·(1 − σ(x)), the latter as σ(−x)."""
    return np.asarray(dy * expit(x) * expit(-x))


def _softplus(p: Parameters, dy: Array, x: Array) -> Array:
    """σ(βx)."""
    return np.asarray(dy * expit(p.softplus_beta * x))


def _swish(p: Parameters, dy: Array, x: Array) -> Array:
    """σ(βx) + βx·σ(βx)·(1 − σ(βx))."""
    z = p.swish_beta * x
    return np.asarray(dy * expit(z) * (1.0 + z * expit(-z)))


def _tanh(_p: Parameters, dy: Array, x: Array) -> Array:
    """1 − tanh²x, as 1/cosh²x: no cancellation for large x."""
    return np.asarray(dy / np.cosh(x) ** 2)


BACKWARD: Mapping[str, Callable[..., Array]] = {
    "elu_bwd": _elu,
    "gelu_approx_tanh_bwd": _gelu_tanh,
    "gelu_bwd": _gelu,
    "relu_bwd": _relu,
    "sigmoid_bwd": _sigmoid,
    "softplus_bwd": _softplus,
    "swish_bwd": _swish,
    "tanh_bwd": _tanh,
}
