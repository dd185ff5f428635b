"""Long sums by arithmetic that engines really use, against what the model allows them."""

import numpy as np
import pytest

from bench_run.graph.layouts import packed
from bench_run.graph.model import Graph, Tensor
from bench_run.graph.operations import make_node
from bench_run.tensors.layout import logical_view, to_storage
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.outputs import compare
from bench_run.validate.roundoff.sums import Terms, matrix_unit_error, recursive_error
from bench_run.validate.tolerance import Circumstances, tolerances

UNIT = 2.0**-24


def drawn(kind, shape, seed=0):
    rng = np.random.default_rng(seed)
    draws = {
        "uniform": lambda: rng.uniform(-1, 1, shape),
        "positive": lambda: rng.random(shape),
        "squares": lambda: rng.random(shape) ** 2,
        "normal squares": lambda: rng.standard_normal(shape) ** 2,
        "magnitudes": lambda: np.abs(rng.standard_normal(shape)),
        "normal": lambda: rng.standard_normal(shape),
        "equal": lambda: np.broadcast_to(rng.random((shape[0], 1)), shape),
    }
    return draws[kind]()


def terms_of(data):
    count, wide = data.shape[1], data.astype("f8")
    if (wide == wide[:, :1]).all():
        return Terms(count, wide.mean(), 0.0)
    return Terms.of(count, np.sqrt((wide * wide).mean()), abs(wide.mean()))


def worst(actual, exact, bound):
    """Largest error in units of what is allowed."""
    rtol, atol = bound
    return float((np.abs(actual - exact) / (atol + rtol * np.abs(exact))).max())


def one_by_one(data, dtype):
    return np.add.accumulate(data.astype(dtype), axis=1, dtype=dtype)[:, -1].astype("f8")


KINDS = ("uniform", "positive", "squares", "normal squares", "magnitudes", "normal", "equal")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [16, 256, 4096, 65_536])
def test_float_sums_of_one_term_after_another_are_within_the_bound(kind, count):
    data = drawn(kind, (max(20, 500_000 // count), count)).astype("f4")
    exact = data.sum(axis=1, dtype="f8")
    assert worst(one_by_one(data, "f4"), exact, recursive_error(UNIT, terms_of(data))) <= 1


@pytest.mark.parametrize("kind", ["positive", "squares", "normal squares"])
def test_a_million_positive_terms_may_drift(kind):
    data = drawn(kind, (4, 1_000_003)).astype("f4")
    exact = data.sum(axis=1, dtype="f8")
    assert worst(one_by_one(data, "f4"), exact, recursive_error(UNIT, terms_of(data))) <= 1


def test_independent_roundings_do_not_explain_the_drift_of_a_million_squares():
    data = drawn("squares", (4, 1_000_003)).astype("f4")
    exact = data.sum(axis=1, dtype="f8")
    walk, _ = recursive_error(UNIT, Terms(1_000_003, 0.0, 1.0))
    assert worst(one_by_one(data, "f4"), exact, (walk, 0.0)) > 1.5


@pytest.mark.parametrize("kind", ["uniform", "positive", "squares"])
@pytest.mark.parametrize("count", [64, 1000, 10_000])
def test_sums_in_half_are_outside_of_the_bound_of_float(kind, count):
    data = drawn(kind, (20, count)).astype("f2")
    exact = data.sum(axis=1, dtype="f8")
    assert worst(one_by_one(data, "f2"), exact, recursive_error(UNIT, terms_of(data))) > 1


def aligned_sum(products, step, kept, result):
    """Sums of rows as matrix units add: products of a step and the sum so far are cut off towards 0
    at `kept` fraction bits of the largest of them, the sum then at `result` bits of its own."""
    total = np.zeros(len(products))
    for start in range(0, products.shape[1], step):
        block = np.column_stack([products[:, start : start + step], total])
        exact = np.trunc(block / last_place(np.abs(block).max(axis=1), kept)[:, None])
        total = exact.sum(axis=1) * last_place(np.abs(block).max(axis=1), kept)
        total = np.trunc(total / last_place(total, result)) * last_place(total, result)
    return total


def last_place(value, bits):
    return np.ldexp(1.0, np.frexp(value)[1] - 1 - bits)


MATRIX_UNITS = {
    "V100": (16, 4, 23, 23),
    "A100": (16, 8, 24, 23),
    "H100": (16, 16, 25, 23),
    "Ada, 8 bits": (8, 16, 13, 13),
    "H100, 8 bits": (8, 32, 13, 13),
}


@pytest.mark.parametrize("unit", sorted(MATRIX_UNITS))
@pytest.mark.parametrize("kind", ["uniform", "normal", "positive"])
@pytest.mark.parametrize("count", [16, 64, 576, 4608])
def test_matrix_units_that_cut_off_are_within_their_bound(unit, kind, count):
    bits, step, kept, result = MATRIX_UNITS[unit]
    shape = (1_000_000 // count, count)
    a, b = (drawn(kind, shape, seed).astype("f2").astype("f8") for seed in (1, 2))
    products = a * b
    actual = aligned_sum(products, step, kept, result)
    assert worst(actual, products.sum(axis=1), matrix_unit_error(bits, terms_of(products))) <= 1


@pytest.mark.long
def test_sums_that_are_cut_off_drift_further_than_rounded_ones_may():
    a, b = (drawn("uniform", (400, 16_384), seed) for seed in (1, 2))
    products = a.astype("f2").astype("f8") * b.astype("f2")
    actual = aligned_sum(products, *MATRIX_UNITS["A100"][1:])
    assert worst(actual, products.sum(axis=1), recursive_error(UNIT, terms_of(products))) > 1


@pytest.mark.parametrize("count", [16, 64, 576, 4608])
def test_products_added_in_half_are_outside_of_a_matrix_units_bound(count):
    a, b = (drawn("uniform", (200, count), seed).astype("f2") for seed in (1, 2))
    products = a.astype("f8") * b
    actual = one_by_one(products, "f2")
    assert worst(actual, products.sum(axis=1), matrix_unit_error(16, terms_of(products))) > 10


def matmul(rows, terms, columns):
    node = make_node("matmul", {"a": 0, "b": 1}, {"c": 2})
    dims = ((rows, terms), (terms, columns), (rows, columns))
    tensors = tuple(Tensor(uid, f"t{uid}", "half", d, packed(d)) for uid, d in enumerate(dims))
    return Graph("g", "float", "float", "float", tensors, (node,))


def outside(change):
    """Elements of a product of half matrices with 4608 terms each that are called wrong, where
    `change` adds each row of products."""
    graph = matmul(32, 4608, 32)
    data = make_inputs(graph, 0)
    a, b = (logical_view(data[uid], graph.by_uid[uid]).astype("f8") for uid in (0, 1))
    products = (a[:, None, :] * b.T[None]).reshape(-1, 4608)
    exact, output = products.sum(axis=1).reshape(32, 32), graph.by_uid[2]
    allowed = tolerances(graph, circumstances=Circumstances(inputs=data))[2]
    actual = to_storage(change(products).reshape(32, 32), output)
    return compare(actual, exact, output, allowed).mismatched


@pytest.mark.parametrize("unit", ["V100", "A100", "H100"])
def test_a_matrix_product_that_cuts_off_is_right(unit):
    assert outside(lambda products: aligned_sum(products, *MATRIX_UNITS[unit][1:])) == 0


def test_a_matrix_product_with_partial_sums_in_half_is_wrong():
    assert outside(lambda products: one_by_one(products, "f2")) > 900


def test_one_wrong_product_in_4608_is_found():
    def without_largest(products):
        result = aligned_sum(products, *MATRIX_UNITS["H100"][1:])
        result[517] -= products[517].max()
        return result

    assert outside(without_largest) == 1
