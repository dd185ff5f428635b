"""Random compositions of bad news over one to three documents a side: none of them exits 0."""

from __future__ import annotations

import pytest

from tests.bench_compare.comparison.compositions import TROUBLES, silent


@pytest.mark.parametrize("trouble", TROUBLES)
def test_bad_news_is_not_silent(trouble):
    assert [] == silent(range(4), trouble)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_none_of_ten_thousand_compositions_of_bad_news_exits_zero():
    assert [] == silent(range(10_000))
