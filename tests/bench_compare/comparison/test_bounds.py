"""A verdict between unlike kernels or clocks never rests on less than what times may be off by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bench_schema.document import Kernel

from bench_compare.comparison.compare import compare
from bench_compare.model import Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, round_, side

RANDOM = np.random.default_rng(5)


def made(label, median_ns, kernel, bound_ns=700.0, timing="kernel records"):
    documents = []
    for number in range(3):
        rounds = [
            replace(
                round_(index, {"device_ns": RANDOM.normal(median_ns, 8, 20).astype(int)}),
                device_bound_ns=bound_ns,
                device_timing=timing,
            )
            for index in range(5)
        ]
        one = case("conv", rounds, kernels=(Kernel(kernel, 1, float(median_ns)),))
        documents.append(document([one], label, f"{label}{number}"))
    return side(label, *documents)


def verdict(base, other):
    return compare(base, [other], Policy()).cases[0].verdict


@pytest.mark.parametrize(
    ("kernel", "other_ns", "timing", "expected"),
    [
        ("a", 10_500, "kernel records", Verdict.SLOWER),
        ("b", 10_500, "kernel records", Verdict.UNCLEAR),
        ("b", 11_500, "kernel records", Verdict.SLOWER),
        ("a", 10_500, "gated events", Verdict.UNCLEAR),
    ],
)
def test_a_difference_below_the_bound_counts_only_between_like_kernels_and_clocks(
    kernel, other_ns, timing, expected
):
    base, other = made("base", 10_000, "a"), made("other", other_ns, kernel, timing=timing)
    assert expected == verdict(base, other)


def test_documents_that_state_no_bound_are_judged_as_before():
    base, other = made("base", 10_000, "a", None), made("other", 10_500, "b", None)
    assert Verdict.SLOWER == verdict(base, other)
