import math

import pytest
from bench_schema.units import (
    change_text,
    interval_text,
    margin_text,
    share_text,
    significant,
    value_text,
)
from hypothesis import given
from hypothesis import strategies as st

CASES = {
    (840.0, "ns"): "840 ns",
    (12_345.0, "ns"): "12.35 µs",
    (999.99, "ns"): "1.000 µs",
    (2_500_000.0, "ns"): "2.500 ms",
    (3.1e9, "ns"): "3.100  s",
    (2**20 * 8.0, "bytes"): "8 MiB",
    (1_500.0, "bytes"): "1.465 KiB",
    (0.0, "ns"): "0 ns",
    (5.0, ""): "5",
    (0.0039, ""): "0.003900",
    (780.25, "TFLOP/s"): "780.2 TFLOP/s",
    (None, "ns"): "-",
}


@pytest.mark.parametrize(("value", "unit"), CASES)
def test_a_value_is_shown_in_the_unit_that_suits_it(value, unit):
    assert CASES[value, unit] == value_text(value, unit)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0314, "+3.1%"),
        (0.969, "-3.1%"),
        (1.1, "1.1× slower"),
        (0.642, "1.56× faster"),
        (2.4, "2.4× slower"),
        (0.25, "4× faster"),
        (123.45, "123× slower"),
        (1_608_632, "1000+× slower"),
    ],
)
def test_small_changes_are_percentages_and_large_ones_factors(ratio, text):
    assert text == change_text(ratio)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0012, "0.12 %"), (0.58, "58 %"), (1.0, "100 %"), (2.4, "more than 100 %")],
)
def test_a_share_has_no_exponent(share, text):
    assert text == share_text(share, 2)


def test_what_is_unknown_is_not_zero():
    assert ("-", "-", "") == (change_text(None), interval_text(None, 1.0), margin_text(1, None, 2))


def test_the_margin_speaks_in_the_terms_of_the_change():
    margins = [
        margin_text(1.1, 1.08, 1.11),
        margin_text(4.0, 3.9, 4.05),
        margin_text(0.25, 0.2, 0.3),
    ]
    assert ["±1.9%", "±2.6%", "±25.0%"] == margins


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.012, 1.024, "+1.2% to +2.4%"),
        (0.81, 1.24, "-19.0% to +24.0%"),
        (0.54, 1.31, "1.85× faster to 1.31× slower"),
        (1.305, 1.312, "1.3× to 1.31× slower"),
        (0.5, 0.99, "1.01× to 2× faster"),
        (0.0, 7.87, "too noisy to tell"),
        (0.9, 2.1, "1.11× faster to 2.1× slower"),
        (20.0, 4000.0, "20× to 1000+× slower"),
    ],
)
def test_an_interval_beyond_a_quarter_is_told_as_factors(low, high, text):
    assert text == interval_text(low, high)


def test_a_margin_is_as_short_where_it_is_wide():
    assert ("±64.1%", "too noisy to tell") == (
        margin_text(0.886, 0.54, 1.31),
        margin_text(1.0, 0.0, 7.87),
    )


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_every_number_has_a_text(value):
    assert all(show(value).strip() for show in (significant, change_text))


@given(st.floats(min_value=1e-3, max_value=1e15))
def test_a_time_keeps_four_digits(value):
    text, unit = value_text(value, "ns").split()
    factor = {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1.0}[unit]
    assert math.isclose(float(text) * factor, value, rel_tol=6e-4)
