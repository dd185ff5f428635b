"""Operations that are spread over threads give what one thread gives, to the last bit."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.graph.make import make_graphs
from bench_run.reference import evaluate, matmul, pointwise, threads
from bench_run.reference.threads import cut, do_each, each, use_threads
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs

SPECS = (
    "matmul: batch=3 m=70 n=33 k=65 dtype=float",
    "matmul: batch=30 m=7 n=3 k=6 dtype=float",
    "conv_fwd: n=3 c=8 h=9 w=9 k=6 r=3 s=3 pad=1 dtype=float",
    "conv_fwd: n=3 c=8 h=9 w=9 k=6 r=1 s=1 dtype=float",
    "conv_dgrad: n=3 c=8 h=9 w=9 k=6 r=3 s=3 pad=1 dtype=float",
    "conv_wgrad: n=3 c=8 h=9 w=9 k=6 r=3 s=3 pad=1 dtype=float",
    "sdpa: b=2 h=4 hk=2 s=24 d=8 dtype=half mask=causal",
    "sdpa_bwd: b=2 h=4 s=24 d=8 dtype=half",
    "layernorm: n=4 s=20 h=32 dtype=float",
    "gelu: dims=40x50 dtype=float",
)


@pytest.fixture(autouse=True)
def one_thread_again():
    yield
    use_threads(1)


@pytest.fixture
def small_parts(monkeypatch):
    """Parts so small that each of these graphs has several."""
    monkeypatch.setattr(matmul, "PART_PRODUCTS", 2**12)
    monkeypatch.setattr(matmul, "TILE", (16, 16))
    monkeypatch.setattr(pointwise, "BLOCK_ELEMENTS", 2**8)
    for name, size in {
        "convolution.SCRATCH_BYTES": 2**12,
        "attention.BLOCK_ELEMENTS": 2**8,
        "norms.PART_ELEMENTS": 2**8,
    }.items():
        monkeypatch.setattr(f"bench_run.reference.{name}", size)


def results(spec):
    (graph,) = make_graphs(spec)
    by_uid = graph.by_uid
    made = make_inputs(graph, 7)
    return evaluate(graph, {uid: logical_view(s, by_uid[uid]) for uid, s in made.items()})


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.usefixtures("small_parts")
def test_four_threads_give_the_bits_of_one(spec, monkeypatch):
    alone = results(spec)
    used = set()
    use_threads(4)
    submit = threads._pool.submit

    def noting(function, part):
        def compute(part):
            used.add(threading.get_ident())
            return function(part)

        return submit(compute, part)

    monkeypatch.setattr(threads._pool, "submit", noting)
    together = results(spec)
    assert threading.get_ident() not in used
    assert used
    for uid, array in alone.items():
        np.testing.assert_array_equal(array, together[uid])


@given(dims=st.lists(st.integers(0, 7), max_size=4).map(tuple), most=st.integers(1, 40))
def test_parts_cover_every_element_once_and_are_no_larger_than_asked(dims, most):
    count = np.zeros(dims, int)
    for part in cut(dims, most):
        count[part] += 1
        assert count[part].size <= most
    assert (count == 1).all()


def test_results_come_in_the_order_of_the_parts():
    use_threads(4)

    def late(number):
        time.sleep(0.01 * (number % 3))
        return number

    assert list(range(20)) == list(each(late, range(20)))


def test_parts_are_made_as_threads_become_free():
    use_threads(2)
    made = []

    def parts():
        for number in range(100):
            made.append(number)
            yield number

    found = each(lambda number: number, parts())
    next(found)
    assert len(made) <= 4


def test_what_one_part_raises_is_raised():
    use_threads(2)
    with pytest.raises(ZeroDivisionError):
        do_each(lambda number: 1 // number, [1, 0, 1])


def test_an_operation_within_a_thread_uses_that_one():
    use_threads(2)

    def inner(_):
        return list(each(lambda _: threading.get_ident(), range(3)))

    for idents in each(inner, range(4)):
        assert len(set(idents)) == 1


@pytest.mark.filterwarnings("error")
def test_an_overflow_in_a_thread_warns_nobody():
    use_threads(2)
    assert [np.inf] == list(each(np.exp, [np.float64(1e6)]))
