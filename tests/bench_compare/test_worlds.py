"""Random worlds through the whole command: bad news never exits 0, and no news never exits 2.

Both ten thousands are those of ``python -m tests.benchmarks.compare_compositions``.
"""

from __future__ import annotations

import pytest

from tests.bench_compare.worlds import BAD, violations

SHARE = 1000


@pytest.mark.long
@pytest.mark.parametrize("trouble", BAD)
def test_bad_news_never_exits_zero(tmp_path, trouble):
    assert [] == violations(range(2), True, tmp_path / "world", trouble)


@pytest.mark.long
def test_no_news_never_exits_two(tmp_path):
    assert [] == violations(range(20), False, tmp_path / "world")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bad", [True, False])
@pytest.mark.parametrize("first", range(0, 10_000, SHARE))
def test_none_of_ten_thousand_worlds_is_answered_wrongly(tmp_path, bad, first):
    assert [] == violations(range(first, first + SHARE), bad, tmp_path / "world")
