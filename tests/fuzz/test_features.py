"""Combinations of features of both commands: what must hold of each (`features.py`)."""

from __future__ import annotations

import itertools

import pytest

from tests.fuzz import features

QUICK, MANY = 40, 1000
SIZE = 8
"""Features of a combination where every pair is met."""
COVERING = tuple(features.covering(SIZE))


def shown(names):
    return " + ".join(names)


@pytest.mark.parametrize("number", range(QUICK))
def test_some_features_go_together(number, tmp_path):
    assert [] == features.problems(features.drawn(0, number), number, tmp_path)


@pytest.mark.parametrize("names", features.REFUSED, ids=shown)
def test_features_that_do_not_go_together_are_refused_in_a_sentence(names, tmp_path):
    assert [] == features.problems(names, 0, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("names", COVERING, ids=shown)
def test_every_pair_goes_together(names, tmp_path):
    assert [] == features.problems(names, len(names), tmp_path)


def test_every_pair_of_the_table_is_met():
    met = {pair for names in COVERING for pair in itertools.combinations(names, 2)}
    met = {features.ordered(*pair) for pair in met}
    assert set() == set(features.pairs()) - met


@pytest.mark.slow
@pytest.mark.parametrize("number", range(QUICK, MANY))
def test_a_thousand_combinations_go_together(number, tmp_path):
    assert [] == features.problems(features.drawn(0, number), number, tmp_path)


def test_a_feature_without_effect_is_a_finding(monkeypatch, tmp_path):
    row = features.Feature("label", ("--label=mine",), lambda tree: False)
    monkeypatch.setitem(features.FEATURES, "label", row)
    (found,) = features.problems(("label",), 0, tmp_path)
    assert "label has had no effect" in found
