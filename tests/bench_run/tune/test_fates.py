"""What breaks a limit, what is built in vain, and how long a race may go on."""

from __future__ import annotations

import time

import pytest
from bench_schema.tuning import Limits

from bench_run.tune.building import within_limits
from bench_run.tune.races import Clock
from bench_run.tune.racing import Fate

KNOWN = Fate("ok", error=1e-3, deterministic=True, workspace_bytes=100)


@pytest.mark.parametrize(
    "limits",
    [Limits(), Limits(error=1e-3), Limits(workspace_bytes=100), Limits(deterministic=True)],
)
def test_what_is_within_a_limit_stays(limits):
    assert KNOWN == within_limits(KNOWN, limits)


@pytest.mark.parametrize(
    ("limits", "fate", "said"),
    [
        (Limits(error=1e-4), KNOWN, "error 0.001, at most 0.0001 is allowed"),
        (Limits(workspace_bytes=99), KNOWN, "workspace 100 bytes, at most 99 are allowed"),
        (Limits(error=1.0), Fate("ok"), "error not known, at most 1 is allowed"),
        (
            Limits(workspace_bytes=0),
            Fate("ok"),
            "its workspace is not known, at most 0 bytes are allowed",
        ),
        (
            Limits(deterministic=True),
            Fate("ok", deterministic=False),
            "not deterministic: two runs gave other bytes",
        ),
        (
            Limits(deterministic=True),
            Fate("ok"),
            "not known to be deterministic: its outputs were not compared",
        ),
    ],
)
def test_what_is_beyond_a_limit_or_not_known_is_out_and_says_why(limits, fate, said):
    found = within_limits(fate, limits)
    assert ("over a limit", said) == (found.status, found.reason)


def test_what_took_long_to_build_may_race_though_its_share_is_used_up():
    clock = Clock(budget_s=1000.0)
    assert not clock.with_grace(lambda: True, took_s=10.0)()


def test_no_race_goes_on_when_the_whole_budget_is_gone():
    clock = Clock(budget_s=1.0, began=time.monotonic() - 2)
    assert clock.with_grace(lambda: False, took_s=10.0)()


def test_without_a_budget_no_race_is_over():
    clock = Clock(None)
    assert not clock.with_grace(clock.race_end(1), took_s=0.0)()
