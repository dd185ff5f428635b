"""What JSON cannot hold is found wherever it is, and nothing else is."""

import math
import struct
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from bench_schema.codec import non_finite
from bench_schema.document import Kernel, Telemetry
from hypothesis import given
from hypothesis import strategies as st

BITS = st.integers(0, 2**64 - 1) | st.sampled_from(
    [0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF0 << 48) + 1, 0x7FEF << 48]
)


@given(BITS)
def test_every_double_is_judged_by_its_bits(bits):
    value = struct.unpack("<d", struct.pack("<Q", bits))[0]
    assert (non_finite(Telemetry(power_w=value)) is None) == math.isfinite(value)


@given(st.binary(max_size=40).map(lambda data: data.decode("latin-1")), BITS)
def test_text_and_integers_that_look_like_nan_are_fine(text, number):
    assert non_finite({"text": "\xcb\x7f\xff" + text, "number": number}) is None


def test_bits_of_neighbouring_numbers_that_look_like_nan_are_fine():
    looks = struct.unpack(">d", b"\x40\xcb\x7f\xf8\0\0\0\0")[0]
    assert non_finite(Telemetry(power_w=looks)) is None


@pytest.mark.parametrize("value", [math.nan, -math.inf, np.float64("inf"), np.float32("nan")])
def test_the_place_is_named(stored, value):
    kernel = Kernel("k", 1, 1.0, MappingProxyType({"bytes": 1.0, "rate": value}))
    cases = (*stored.cases[:3], replace(stored.cases[3], kernels=(kernel,)))
    path, name = non_finite(replace(stored, cases=cases))
    assert path == ("cases", 3, "kernels", 0, "counters", "rate")
    assert name == f"number {float(value)}"


def test_a_value_outside_of_the_cases_is_found(stored):
    machine = replace(stored.machine, devices=(replace(stored.machine.devices[0], l2_bytes=None),))
    run = replace(stored.run, settings=replace(stored.run.settings, atol=math.inf))
    path, _ = non_finite(replace(stored, machine=machine, run=run))
    assert path == ("run", "settings", "atol")


def test_a_document_of_finite_numbers_is_fine(stored):
    assert non_finite(stored) is None
