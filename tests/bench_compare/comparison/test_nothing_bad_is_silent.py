"""Random compositions of bad news over one to three documents a side: none of them exits 0.

All ten thousand take 7 minutes of one processor; a share of them is chosen by name:
``pytest -m slow -k "2000 or 3000" tests/bench_compare/comparison/test_nothing_bad_is_silent.py``.
"""

from __future__ import annotations

import pytest

from tests.bench_compare.comparison.compositions import TROUBLES, silent

SHARE = 1000


@pytest.mark.long
@pytest.mark.parametrize("trouble", TROUBLES)
def test_bad_news_is_not_silent(trouble):
    assert [] == silent(range(4), trouble)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, 10_000, SHARE))
def test_none_of_ten_thousand_compositions_of_bad_news_exits_zero(first):
    assert [] == silent(range(first, first + SHARE))
