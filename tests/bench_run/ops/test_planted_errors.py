"""Errors planted in an engine's results are found, and right results are not blamed."""

from __future__ import annotations

import pytest

MATMUL = "matmul: m=64 n=48 k=512 dtype=half"
PLANTED = {
    "one element of a convolution": (
        "one-element", "conv_fwd: n=1 c=8 h=9 w=9 k=8 r=3 s=3 dtype=half"),
    "one element of a product": ("one-element", MATMUL),
    "a bias of one unit in the last place in float": ("bias", "mul: n=2 c=8 h=16 w=16"),
    "a bias of one unit in the last place in half": ("bias", "add: n=2 c=8 h=16 w=16 dtype=half"),
    "a bias of one unit in half products": ("bias", MATMUL),
    "sums in half": ("half-sums", MATMUL),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_found(run_quickly, hostile, name):
    way, spec = PLANTED[name]
    done, document = run_quickly("--op", spec, "--engine", f"hostile:{way}")
    validation = document.cases[0].validation
    assert (2, "failed") == (done.returncode, validation.status), done.stderr
    assert validation.outputs[0].mismatched > 0


def test_one_wrong_element_is_one_mismatch_with_its_place(run_quickly, hostile):
    _, document = run_quickly("--op", MATMUL, "--engine", "hostile:one-element")
    (output,) = document.cases[0].validation.outputs
    assert (1, [63, 47]) == (output.mismatched, list(output.worst[0].index))


def test_the_same_graphs_are_right_without_the_errors(run_quickly, hostile):
    specs = [word for _, spec in PLANTED.values() for word in ("--op", spec)]
    done, document = run_quickly(*specs, "--engine", "hostile:fine")
    assert 0 == done.returncode
    assert {"passed"} == {case.validation.status for case in document.cases}
