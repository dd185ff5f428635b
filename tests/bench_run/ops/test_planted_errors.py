"""Errors planted in an engine's results are found, and right results are not blamed."""

from __future__ import annotations

import pytest

from bench_run.graph.make import make_graphs

MATMUL = "matmul: m=64 n=48 k=512 dtype=half"
PLANTED = {
    "one element of a convolution": (
        "one-element",
        "conv_fwd: n=1 c=8 h=9 w=9 k=8 r=3 s=3 dtype=half",
    ),
    "one element of a product": ("one-element", MATMUL),
    "a bias of one unit in the last place in float": ("bias", "mul: n=2 c=8 h=16 w=16"),
    "a bias of one unit in the last place in half": ("bias", "add: n=2 c=8 h=16 w=16 dtype=half"),
    "a bias of one unit in half products": ("bias", MATMUL),
    "sums in half": ("half-sums", MATMUL),
}


def words(flag, values):
    return [word for value in dict.fromkeys(values) for word in (flag, value)]


SPECS = words("--op", (spec for _, spec in PLANTED.values()))
WAYS = words("--engine", (f"hostile:{way}" for way, _ in PLANTED.values() if way != "half-sums"))


@pytest.mark.long
def test_planted_errors_are_found(run_quickly, hostile):
    done, document = run_quickly(*SPECS, *WAYS)
    named = {make_graphs(spec)[0].name: [] for _, spec in PLANTED.values()}
    for case in document.cases:
        named[case.graph.name].append((case.engine, case.validation.status))
    for way, spec in PLANTED.values():
        if way != "half-sums":
            assert (f"hostile:{way}", "failed") in named[make_graphs(spec)[0].name]
    assert 2 == done.returncode


@pytest.mark.long
def test_sums_in_half_in_place_of_float_are_found(run_quickly, hostile):
    done, document = run_quickly("--op", MATMUL, "--engine", "hostile:half-sums")
    assert (2, "failed") == (done.returncode, document.cases[0].validation.status)


def test_one_wrong_element_is_one_mismatch_with_its_place(run_quickly, hostile):
    _, document = run_quickly("--op", MATMUL, "--engine", "hostile:one-element")
    (output,) = document.cases[0].validation.outputs
    assert (1, [63, 47]) == (output.mismatched, list(output.worst[0].index))


@pytest.mark.long
def test_the_same_graphs_are_right_without_the_errors(run_quickly, hostile):
    done, document = run_quickly(*SPECS, "--engine", "hostile:fine")
    assert 0 == done.returncode
    assert {"passed"} == {case.validation.status for case in document.cases}
