"""Between a tensor's own type and the float64, int64 and bool that the reference computes in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.dtypes import DTYPES, array_type

if TYPE_CHECKING:
    from bench_run.reference.common import Array

WIDE = {"float": np.float64, "scale": np.float64, "integer": np.int64, "boolean": np.bool_}
"""The type of computation by the kind of the data type."""


def widen(array: Array, data_type: str) -> Array:
    """Return the same values, exactly, in the type of computation; C order."""
    return np.ascontiguousarray(array.astype(WIDE[DTYPES[data_type].kind], copy=False))


def settle(value: Array, data_type: str) -> Array:
    """Return a result in the wide type of its tensor's kind, not rounded to the tensor's type.

    For an integer tensor a fraction is cut off (as C, NumPy and PyTorch convert), NaN becomes 0;
    for a boolean one everything but 0 is true.
    """
    kind = DTYPES[data_type].kind
    if kind == "integer" and value.dtype.kind == "f":
        limit = float(2**63)
        whole = np.trunc(np.nan_to_num(value, nan=0.0, posinf=limit, neginf=-limit))
        inside = np.clip(whole, -limit, np.nextafter(limit, 0.0)).astype(np.int64)
        return np.where(whole >= limit, np.iinfo(np.int64).max, inside)
    return value.astype(WIDE[kind], copy=False)


def expected(value: Array, data_type: str) -> Array:
    """Return a result in the form of expected outputs: whole numbers within the range of their
    type, others not rounded, since an engine's rounding belongs to the tolerance."""
    return rounded(value, data_type) if DTYPES[data_type].kind == "integer" else value


def rounded(value: Array, data_type: str) -> Array:
    """Return a settled result rounded to the values of its tensor's type, still in the wide type.

    To nearest, ties to even; half, bfloat16 and float overflow to infinity. The 8-bit floats
    saturate, infinities included, and so do integers: hipDNN's sources leave both open, this is
    what converting instructions of GPUs do.
    """
    row = DTYPES[data_type]
    if row.kind == "boolean" or data_type in ("double", "int64"):
        return value
    if row.kind == "integer":
        limits = np.iinfo(array_type(data_type))
        return np.clip(value, limits.min, limits.max)
    if row.bits == 8:
        value = np.clip(value, row.smallest if row.kind == "scale" else -row.largest, row.largest)
    with np.errstate(over="ignore"):
        if data_type not in ("float", "half"):
            value = _to_odd(value)
        return value.astype(array_type(data_type)).astype(np.float64)


def _to_odd(value: Array) -> Array:
    """Round to a float32 that rounds to any narrower type as the float64 itself would.

    ml_dtypes converts float64 by way of float32, which rounds twice. Rounding to odd (towards zero,
    last bit set where anything was lost) makes the first of two roundings harmless. Source: Boldo
    and Melquiond, Emulation of FMA and correctly rounded sums, 2008.
    """
    narrow = value.astype(np.float32)
    back = narrow.astype(np.float64)
    lost = (back != value) & ~np.isnan(value)
    bits = narrow.view(np.uint32)
    bits = np.where(np.abs(back) > np.abs(value), bits - np.uint32(1), bits)
    return np.where(lost, bits | np.uint32(1), bits).astype(np.uint32).view(np.float32)


def rounded_up(value: Array, data_type: str) -> Array:
    """Round non-negative numbers up to the next value of the type."""
    if data_type == "double":
        return value
    below = rounded(value, data_type)
    row = DTYPES[data_type]
    codes = below.astype(array_type(data_type)).view(f"u{row.bytes}")
    above = (codes + (below < value)).astype(codes.dtype).view(array_type(data_type))
    return above.astype(np.float64)
