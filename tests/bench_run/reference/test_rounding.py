"""Rounding to the values of a data type."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.graph.dtypes import DTYPES, array_type
from bench_run.reference.rounding import rounded, rounded_up, settle, widen

FLOATS = [n for n, row in DTYPES.items() if row.kind == "float" and row.array_type is not None]
SMALL = [name for name in FLOATS if DTYPES[name].bits == 8]


def values_of(data_type):
    """Every finite value of an 8- or 16-bit type, ascending."""
    row = DTYPES[data_type]
    codes = np.arange(2**row.bits, dtype=f"u{row.bytes}").view(array_type(data_type))
    with np.errstate(invalid="ignore"):
        every = np.unique(codes.astype(np.float64))
    return every[np.isfinite(every)]


@pytest.mark.parametrize("data_type", [*SMALL, "half", "bfloat16"])
def test_values_of_the_type_stay_what_they_are(data_type):
    values = values_of(data_type)
    np.testing.assert_array_equal(rounded(values, data_type), values)


@pytest.mark.parametrize("data_type", [*SMALL, "half", "bfloat16"])
def test_just_off_the_middle_of_two_values_rounds_to_the_nearer(data_type):
    values = values_of(data_type)
    low, high = values[:-1], values[1:]
    middle = low / 2 + high / 2
    span = high - low
    np.testing.assert_array_equal(rounded(middle - span * 2**-40, data_type), low)
    np.testing.assert_array_equal(rounded(middle + span * 2**-40, data_type), high)


def test_bfloat16_is_not_rounded_twice():
    x = np.array([1 + 2**-8 + 2**-40])  # ml_dtypes before 0.7 made 1 of it, by way of float32
    assert rounded(x, "bfloat16").item() == 1 + 2**-7


@pytest.mark.parametrize("data_type", SMALL)
def test_eight_bit_floats_saturate(data_type):
    x = np.array([1e9, -1e9, np.inf, -np.inf])
    largest = DTYPES[data_type].largest
    assert rounded(x, data_type).tolist() == [largest, -largest, largest, -largest]


@pytest.mark.parametrize("data_type", ["half", "bfloat16", "float"])
def test_wider_floats_overflow_to_infinity(data_type):
    assert rounded(np.array([1e300, -1e300]), data_type).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("data_type", FLOATS)
def test_nan_stays_nan(data_type):
    assert np.isnan(rounded(np.array([np.nan]), data_type)).all()


def test_integers_saturate():
    assert rounded(np.array([200, -200, 5]), "int8").tolist() == [127, -128, 5]


@given(st.floats(0, 400, allow_subnormal=False), st.sampled_from([*SMALL, "half", "fp8_e8m0"]))
def test_rounding_up_gives_the_next_value_that_is_no_smaller(x, data_type):
    values = values_of(data_type)
    if x > values[-1]:
        x = float(values[-1])
    expected = values[values >= x][0]
    if data_type != "fp8_e8m0":
        expected = values[(values >= x) & (values >= 0)][0]
    assert rounded_up(np.array([x]), data_type).item() == expected


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_settle_without_loss_where_float64_holds_them(n):
    x = float(n)
    inside = min(Fraction(x), Fraction(2**63 - 1))
    assert settle(np.array([x]), "int64").item() == int(inside)


def test_widening_keeps_booleans_and_integers_what_they_are():
    assert widen(np.array([True]), "boolean").dtype == np.bool_
    assert widen(np.array([7], np.int8), "int8").dtype == np.int64
