"""Tests of what the suite is fast by: workers of usual runs are forked, not started afresh."""

from __future__ import annotations

import bench_run
from bench_run.worker import life as start


def test_no_worker_of_a_usual_run_starts_afresh(small_graph, monkeypatch):
    fresh = []
    workers = start.start_module.__self__
    monkeypatch.setattr(workers, "_start_afresh", lambda *given: fresh.append(given[:2]))
    document = bench_run.run([str(small_graph)], engine=["numpy"], rounds=2, iterations=2)
    assert ([], "completed") == (fresh, document.cases[0].outcome.status)
