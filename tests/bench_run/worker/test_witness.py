"""The library's own clock is a witness: what it does wrong costs nothing that was measured."""

from __future__ import annotations

from types import SimpleNamespace

from bench_run.engines.base import PlanAbilities
from bench_run.engines.reported import Reports
from bench_run.errors import EngineError
from bench_run.worker.run_case import ask_witness


def fail():
    raise EngineError("hipdnn 1.4: execute_timed_ext: it returned None")


def plan(**abilities):
    return SimpleNamespace(abilities=PlanAbilities(**abilities))


def test_a_witness_that_fails_is_told_and_loses_nothing():
    assert {"witness": "failed: hipdnn 1.4: execute_timed_ext: it returned None"} == ask_witness(
        plan(witness=fail), Reports("hipdnn")
    )


def test_a_plan_without_one_says_nothing():
    assert {} == ask_witness(plan(), Reports("hipdnn"))
