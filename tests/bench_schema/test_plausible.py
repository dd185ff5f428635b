"""A time that beats the machine is marked."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from bench_schema.document import Cpu, Work
from bench_schema.summary import implausible

PRODUCT = Work(2 * 512**3, 3 * 512 * 512 * 4, None)
ADD = Work(100_000, 12_000_000, None)
TWO_CORES = Cpu("a processor", 2, 2)


@dataclass
class Ceilings:
    ceiling_gbps: float | None
    ceiling_tflops: dict


H200 = Ceilings(4300.0, {"half": 780.0, "float": 51.0})


def at(median_ns):
    return {"e2e_ns": SimpleNamespace(median=median_ns)}


def test_a_product_that_takes_as_long_as_a_call_is_implausible():
    assert "597 TFLOP/s" in implausible(PRODUCT, at(450), None, TWO_CORES, "float")


def test_a_good_matrix_library_is_plausible():
    assert None is implausible(PRODUCT, at(1_500_000), None, TWO_CORES, "float")


def test_an_addition_faster_than_the_first_level_cache_is_implausible():
    assert "GB/s" in implausible(ADD, at(1000), None, TWO_CORES, "float")


@pytest.mark.parametrize(("median_ns", "marked"), [(900, False), (200, True)])
def test_a_gpu_is_held_against_what_was_measured_of_it(median_ns, marked):
    found = implausible(PRODUCT, at(median_ns), H200, None, "half")
    assert marked is (found is not None)


def test_the_faster_series_counts():
    both = at(1_500_000) | {"device_ns": SimpleNamespace(median=100)}
    assert "device_ns" in implausible(PRODUCT, both, H200, None, "half")


def test_nothing_is_said_of_unknown_machines_types_and_work():
    assert None is implausible(PRODUCT, at(1), None, None, "float")
    assert None is implausible(Work(5, None, None), at(1), None, TWO_CORES, "int4")
    assert None is implausible(Work(), at(1), H200, None, "half")
    assert None is implausible(PRODUCT, {}, H200, None, "half")
