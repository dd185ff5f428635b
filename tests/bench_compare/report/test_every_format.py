"""What nobody may overlook stands in every format."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench_compare.comparison.compare import compare
from bench_compare.comparison.reasons import conclude
from bench_compare.model import View
from bench_compare.policy import Allowance, Policy
from bench_compare.report import FORMATS
from tests.bench_compare.build import (
    H200,
    case,
    document,
    engine,
    machine,
    round_,
    side,
    steady,
    validation,
)
from tests.bench_compare.report.shown import render

WIDE = View(width=400, all=True)


def quiet(name="g", seed=0, **changes):
    times = steady(np.random.default_rng(seed), 1e6)
    rounds = [round_(n, {"device_ns": row, "e2e_ns": row}) for n, row in enumerate(times)]
    return case(name, rounds, **{"validation": validation(), **changes})


def held(base, other, policy=None, limits=None, **changes):
    def one(cases, run_id, device, **changes):
        on = [engine(device="GPU-1", device_kind="NVIDIA H200")]
        where = replace(machine(), devices=(device,))
        return document(cases, run_id=run_id, engines=on, machine=where, **changes)

    sides = one(base, "a", H200), one(other, "b", replace(H200, **(limits or {})), **changes)
    return compare(side("a", sides[0]), [side("b", sides[1])], policy or Policy())


def unchecked():
    return quiet(seed=1, validation=validation("not checked"))


def end_to_end_only():
    return case("g", steady(np.random.default_rng(1), 1e6), validation=validation())


def wrong(seed=0):
    return quiet(seed=seed, validation=validation("failed", 3))


COMPARISONS = {
    "no longer checked": lambda: held([quiet()], [unchecked()]),
    "device time is no longer measured": lambda: held([quiet()], [end_to_end_only()]),
    "wrong on both sides": lambda: held([wrong()], [wrong(1)]),
    "power limit": lambda: held([quiet()], [quiet(seed=1)], limits={"power_limit_w": 450.0}),
    "memory clocks": lambda: held([quiet()], [quiet(seed=1)], limits={"max_memory_clock_mhz": 1.0}),
    "another meaning": lambda: held(
        [quiet(), quiet("h")], [quiet(seed=1, fingerprint="f" * 64), quiet("h", 2)]
    ),
    "the run was not finished": lambda: held([quiet()], [quiet(seed=1)], complete=False),
    "driver": lambda: held([quiet()], [quiet(seed=1)], limits={"driver": "570.1"}),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("sentence", COMPARISONS)
def test_every_format_says_it(name, sentence):
    text = render(name, COMPARISONS[sentence](), WIDE)
    assert sentence in text.replace("\\", "")


CODES = dict.fromkeys(COMPARISONS, 2) | {
    "another meaning": 1,
    "the run was not finished": 0,
    "driver": 0,
}


@pytest.mark.parametrize("sentence", COMPARISONS)
def test_the_exit_code_says_it_too(sentence):
    assert conclude(COMPARISONS[sentence]()).exit_code == CODES[sentence]


@pytest.mark.parametrize("name", ["power limit", "g=incomparable"])
def test_what_is_known_can_be_allowed_by_name(name):
    pattern = name.split("=")[0]
    policy = Policy(allow=(Allowance(pattern),))
    other = [quiet(seed=1, fingerprint="f" * 64), quiet("h", 2)]
    limited = held([quiet()], [quiet(seed=1)], policy, {"power_limit_w": 450.0})
    found = limited if name == "power limit" else held([quiet(), quiet("h")], other, policy)
    assert conclude(found).exit_code == 0
