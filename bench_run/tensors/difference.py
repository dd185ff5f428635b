"""Difference between two arrays: element by element, in chunks that stay in the cache.

Special values. ``matching`` (ours): NaN matches NaN, an infinity matches one of equal sign, and
nothing else matches either. ``allclose`` (hipDNN's): a NaN or infinity on either side is outside,
even next to an equal one. ``allclose_matching_infinities`` (hipDNN's): equal infinities match, NaN
never does. An empty array has no difference.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable

Array = npt.NDArray[Any]

CHUNK = 1 << 13
"""Elements at a time; below the length at which BLAS would start threads for a dot product."""
MATCHES_NAN = {"matching": True, "allclose": False, "allclose_matching_infinities": False}
MATCHES_INFINITY = {"matching": True, "allclose": False, "allclose_matching_infinities": True}


@dataclass(frozen=True)
class Bound:
    """An element is inside where |actual − expected| <= atol + rtol·|expected|."""

    rtol: float
    atol: float
    validator: str = "matching"

    @property
    def exact(self) -> bool:
        return self.rtol == 0 and self.atol == 0


@dataclass
class ArrayDifference:
    """Result of a comparison. Magnitudes are NaN if a NaN met a number."""

    elements: int = 0
    outside: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    """Over the elements whose expected value is not 0."""
    square_error: float = 0.0
    square_expected: float = 0.0
    fourth_expected: float = 0.0
    """Σe⁴."""
    total: float = 0.0
    """Σ(a − e)."""
    projected: float = 0.0
    """Σ(a − e)·e: over Σe² the error that all elements share, relative to them."""
    projected_up: float = 0.0
    """Σ(a − e)·|e|: the same where the error has one sign, whatever the elements have."""
    peak: float = 0.0
    """Largest magnitude on either side."""
    worst: list[tuple[float, int]] = field(default_factory=list)
    """Elements outside, as (−severity, flat index), most severe first. Severity is the error in
    units of the allowed one."""

    @property
    def relative_l2(self) -> float:
        """√Σ(a − e)² / √Σe²; infinite where only the expected values are all 0."""
        if self.square_error == 0:
            return 0.0
        if self.square_expected == 0:
            return math.inf
        return math.sqrt(self.square_error / self.square_expected)

    @property
    def cosine(self) -> float:
        """Σa·e / √(Σa²·Σe²); NaN if one side is 0."""
        product = self.projected + self.square_expected
        squares = self.square_error + 2 * self.projected + self.square_expected
        size = math.sqrt(max(0.0, squares) * self.square_expected)
        return min(1.0, product / size) if size else math.nan

    @property
    def rms(self) -> float:
        """hipDNN's measure: √Σ(a − e)² / (√n · peak)."""
        if self.square_error == 0:
            return 0.0
        return math.sqrt(self.square_error / self.elements) / self.peak


def difference(actual: Array, expected: Array, bound: Bound, keep: int) -> ArrayDifference:
    """Compare one-dimensional arrays of equal length; ``keep``: number of worst elements kept."""
    found = ArrayDifference(elements=actual.size)
    with np.errstate(all="ignore"):  # infinities and NaN are answered, not warned about
        for start in range(0, actual.size, CHUNK):
            stop = start + CHUNK
            _add(found, actual[start:stop], expected[start:stop], bound, start, keep)
    return found


def _add(
    found: ArrayDifference, actual: Array, expected: Array, bound: Bound, start: int, keep: int
) -> None:
    wide, wanted = actual.astype(np.float64), expected.astype(np.float64)
    signed = wide - wanted
    error = np.abs(signed)
    size = np.abs(wanted)
    largest = float(error.max())
    if math.isfinite(largest):
        allowed = size * bound.rtol + bound.atol
        # Whole numbers are compared as such: float64 would lose the end of an int64.
        outside = actual != expected if bound.exact else error > allowed
    else:
        # Specials that match are taken out of all the arrays.
        special = ~(np.isfinite(wide) & np.isfinite(wanted))
        both_nan = np.isnan(wide) & np.isnan(wanted) & MATCHES_NAN[bound.validator]
        same_infinity = special & (wide == wanted) & MATCHES_INFINITY[bound.validator]
        matched = both_nan | same_infinity
        for array in (wide, wanted, error):
            array[matched] = 0
        allowed = np.abs(wanted) * bound.rtol + bound.atol
        outside = (special & ~matched) | ~(special | (error <= allowed))
        size, signed = np.abs(wanted), wide - wanted
        largest = float(error.max())
    found.max_abs = _larger(found.max_abs, largest)
    ratio = error / size
    if size.min() == 0:
        ratio = np.where(size == 0, 0, ratio)  # much faster than to assign
    found.max_rel = _larger(found.max_rel, float(ratio.max()))
    found.square_error += float(np.dot(error, error))
    found.square_expected += float(np.dot(wanted, wanted))
    square = wanted * wanted
    found.fourth_expected += float(np.dot(square, square))
    found.total += float(signed.sum())
    found.projected += float(np.dot(signed, wanted))
    found.projected_up += float(np.dot(signed, size))
    found.peak = max(found.peak, float(size.max()), float(np.abs(wide).max()))
    count = int(np.count_nonzero(outside))
    found.outside += count
    if not (count and keep):
        return
    indices = np.flatnonzero(outside)
    severity = error[indices] / allowed[indices]
    severity[~(severity >= 0)] = math.inf  # NaN met a number, or 0 is allowed
    if len(found.worst) == keep and severity.max() <= -found.worst[-1][0]:
        return  # the earlier of equals is kept
    if count > keep:
        top = np.argpartition(-severity, keep - 1)[:keep]
        indices, severity = indices[top], severity[top]
    rows: Iterable[tuple[float, int]] = zip(
        (-severity).tolist(), (indices + start).tolist(), strict=True
    )
    found.worst = heapq.nsmallest(keep, [*found.worst, *rows])


def _larger(one: float, two: float) -> float:
    return math.nan if math.isnan(one) or math.isnan(two) else max(one, two)
