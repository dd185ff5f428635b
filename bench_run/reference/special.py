"""SciPy's special functions. SciPy is loaded when one of them is called: it takes longer than many
a graph, and most graphs need none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_run.reference.common import Array


def erf(x: Array) -> Array:
    from scipy import special

    found: Array = special.erf(x)
    return found


def expit(x: Array) -> Array:
    """The logistic function 1/(1 + e⁻ˣ)."""
    from scipy import special

    found: Array = special.expit(x)
    return found


def ndtr(x: Array) -> Array:
    """The normal distribution's cumulative function Φ(x)."""
    from scipy import special

    found: Array = special.ndtr(x)
    return found
