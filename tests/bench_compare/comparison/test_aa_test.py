"""A/A: how often verdicts on one build are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from bench_compare.comparison.aa_test import MOST_SPLITS, aa_test, threshold_for
from bench_compare.errors import InputError
from bench_compare.model import Source
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, steady


def source(name, random, rounds=5, factor=1.0):
    cases = [case(f"g{n}", steady(random, factor * 1e6, rounds)) for n in range(40)]
    return Source(name, document(cases, run_id=name), "bench")


@pytest.mark.long
def test_the_rounds_of_one_document_are_halved_in_every_way():
    found = aa_test([source("a", np.random.default_rng(0), 6)], Policy())
    assert (found.splits, found.judged, found.metric) == (10, 400, "e2e_ns")
    assert not found.trusted  # they do not show what differs between documents


@pytest.mark.long
def test_splits_are_limited():
    found = aa_test([source("a", np.random.default_rng(0), 12)], Policy())
    assert found.splits == MOST_SPLITS


def test_two_documents_of_one_build_are_compared():
    random = np.random.default_rng(1)
    found = aa_test([source("a", random), source("b", random)], Policy())
    assert (found.splits, found.alarms) == (1, 0)


def test_a_copy_of_a_document_is_no_second_one():
    one = source("a", np.random.default_rng(1))
    with pytest.raises(InputError, match="copy: the same run as a; it must not count twice"):
        aa_test([one, Source("copy", one.document, "bench")], Policy())


def test_a_machine_that_moved_between_documents_may_not_gate():
    random = np.random.default_rng(2)
    found = aa_test([source("a", random), source("b", random, factor=1.03)], Policy())
    assert not found.trusted
    assert "Do not gate" in found.sentence


def test_a_quiet_machine_may_gate():
    random = np.random.default_rng(1)
    found = aa_test([source("a", random), source("b", random)], Policy(floor_sd=0.001))
    assert "This machine may gate. On this machine use `--threshold 1%` with 3" in found.sentence


def documents(count, scatter):
    random = np.random.default_rng(count)
    return [
        source(f"d{n}", random, factor=float(random.lognormal(0, scatter))) for n in range(count)
    ]


@pytest.mark.long
@pytest.mark.parametrize(("scatter", "least", "most"), [(0.0, 0.01, 0.02), (0.02, 0.04, 0.15)])
def test_the_advice_is_a_threshold_for_three_documents_a_side(scatter, least, most):
    found = aa_test(documents(6, scatter), Policy())
    assert least <= found.threshold_ratio <= most
    assert found.sentence.endswith("%` with 3 documents a side.")


@pytest.mark.long
def test_more_documents_a_side_do_not_change_the_advice_for_three():
    few, many = (aa_test(documents(n, 0.02), Policy()).threshold_ratio for n in (4, 8))
    assert 0.4 <= few / many <= 2.5


@pytest.mark.long
def test_one_document_advises_with_its_reservation():
    found = aa_test([source("a", np.random.default_rng(0), 6)], Policy())
    assert "use at least `--threshold 1%` with 3 documents a side; --aa with" in found.sentence


def test_no_threshold_holds_on_a_machine_that_tells_nothing():
    assert threshold_for([2.0, 3.0, 0.01]) is None
    assert threshold_for([0.021, 0.07, 0.3]) == 0.08


def test_a_machine_that_tells_nothing_is_not_praised():
    def restless(name, seed):
        random = np.random.default_rng(seed)
        levels = 1e6 * np.exp(random.normal(0, 0.15, (5, 1)))
        samples = np.rint(levels * np.exp(random.normal(0, 0.01, (5, 20)))).astype(np.int64)
        return Source(name, document([case("g", samples)], run_id=name), "bench")

    found = aa_test([restless("a", 1), restless("b", 2)], Policy())
    assert not found.trusted
    assert "1 of them are unclear" in found.sentence
    assert "may gate" not in found.sentence


def test_too_few_rounds_are_refused_with_the_remedy():
    with pytest.raises(InputError, match="needs four of them, it has 3; give two documents"):
        aa_test([source("a", np.random.default_rng(0), 3)], Policy())


def test_nothing_measured_is_refused():
    empty = Source("a", document([case("g", status="failed")]), "bench")
    other = Source("b", document([case("g", status="failed")], run_id="b"), "bench")
    with pytest.raises(InputError, match="no case was measured in both halves"):
        aa_test([empty, other], Policy())
