"""A unit of a fleet runs its block as an ordinary run does; no Ray is needed for it."""

from __future__ import annotations

import pytest

from bench_run.fleet import unit as units
from bench_run.fleet.dispatch import UnitBlock
from bench_run.fleet.unit import Unit
from bench_run.options import Options
from bench_run.runner.planning import outline_run, plan_run

OPS = tuple(f"relu: n={n} c=4 h=8 w=8" for n in (1, 2, 3))
LANES = 6


@pytest.fixture
def results(twins, monkeypatch):
    """What a unit sends of a block whose rounds are prepared side by side."""
    monkeypatch.setattr(units, "undo_inherited_limits", lambda: None)
    options = Options(
        op=OPS,
        engine=("twin",),
        rounds=3,
        iterations=150,
        warmup=1,
        reference="none",
        prepare=LANES,
    )
    outline = outline_run(options)
    unit = Unit(options)
    unit.open(outline.engines)
    unit.start(UnitBlock(1, plan_run(outline, outline.engines, {}).cases, (), 0))
    found, received = [], 0
    while True:
        news = unit.poll(received, 1)
        found += news.results[received - news.first :]
        received = news.first + len(news.results)
        if news.finished is not None:
            return found


@pytest.mark.slow  # tests/bench_run/worker/test_ahead.py has the cause
def test_no_worker_ends_with_the_lane_that_was_the_first_to_ask_for_one(results):
    """Two lanes share a round of three graphs: one of them is done earlier."""
    ends = [(each.outcome.status, each.outcome.reason) for each in results]
    assert [("completed", None)] * 9 == ends
    assert [0, 1, 2] == sorted({each.rounds[0].index for each in results})
