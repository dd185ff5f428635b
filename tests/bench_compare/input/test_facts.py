"""What a comparison asks of rounds is put together once for each case."""

from bench_compare.comparison.circumstances import facts
from tests.bench_compare.build import round_


def test_cases_that_are_asked_for_one_after_another_are_looked_at_once(monkeypatch):
    cases = [(round_(0, {"e2e_ns": [10, 11]}, cut=None),) for _ in range(2000)]
    for rounds in cases:
        facts.facts(rounds)
    monkeypatch.setattr(facts, "of_round", None)
    found = [facts.facts(rounds) for rounds in cases]
    assert all(one is found[0] for one in found)
