"""Comparisons with real samples, for pages."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from bench_schema.document import Summary

from bench_compare.comparison.compare import compare
from bench_compare.model import Side, Source, Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import (
    case,
    document,
    gpu_case,
    gpu_document,
    gpu_round,
    round_,
    steady,
)


def imported():
    """Two documents of another tool, which stores a median, a mean and no samples."""
    unknown = math.nan
    sides = []
    for label, median in (("a", 1e6), ("b", 1.5e6)):
        numbers = (unknown,) * 2 + (median,) + (unknown,) * 5
        told = Summary(0, 1.01 * median, None, *numbers, None, None)
        cases = [case(name, summary={"device_ns": told}, family="unknown") for name in "gh"]
        one = document(cases, run_id=label, settings={"iterations": 0, "duty": "unknown"})
        sides.append(Side(label, (Source(f"{label}.json", one, "another tool"),), ("numpy",)))
    return compare(sides[0], sides[1:], Policy())


def side(label, documents, factor, *, seed, plan="8"):
    """Documents of three cases in three rounds each, the second of them moved by a factor."""
    random = np.random.default_rng(seed)
    held = []
    for number in range(documents):
        cases = [
            case(
                f"graph_{index}",
                [
                    replace(round_(at, {"e2e_ns": row}), cut={"e2e_ns": 3})
                    for at, row in enumerate(
                        steady(random, 1e6 * (factor if index == 1 else 1), rounds=3)
                    )
                ],
                plan={"engine id": plan if index == 1 else "8"},
            )
            for index in range(3)
        ]
        one = document(cases, label, run_id=f"{label} {number}")
        held.append(Source(f"{label}_{number}.json", one, "bench"))
    return Side(label, tuple(held), ("numpy",))


def powered():
    """Cases of five rounds each, one only in base, one only in other, each side at a power of its
    own: of case n 110, 120, … W in base, 210, 220, … W in other."""
    told = gpu_round(0, {}, ()).telemetry_after
    found = []
    for label, first, missing in (("base", 100.0, 2), ("other", 200.0, 3)):
        cases = []
        for number in set(range(1, 5)) - {missing}:
            random = np.random.default_rng(number)
            after = replace(told, power_w=first + 10 * number)
            rounds = [
                gpu_round(at, {"device_ns": row}, row[:5], telemetry_after=after)
                for at, row in enumerate(steady(random, 1e6))
            ]
            cases.append(gpu_case(f"g{number}", rounds, 1e6))
        one = gpu_document(label, cases, ["cudnn"], hour=8, driver="570")
        found.append(Side(label, (Source(f"{label}.json", one, "bench"),), ("cudnn",)))
    return compare(found[0], found[1:], Policy())


def several():
    """Two documents a side."""
    return compare(side("old", 2, 1.0, seed=1), [side("new", 2, 1.3, seed=2)], Policy())


def three():
    others = [side("new", 1, 1.3, seed=2, plan="57"), side("newest", 1, 0.7, seed=3)]
    return compare(side("old", 1, 1.0, seed=1), others, Policy())


def blind():
    """Rounds that scatter by a half: nothing can be seen."""
    random = np.random.default_rng(3)
    sides = []
    for label in ("before", "after"):
        cases = [
            case(
                f"g{n}",
                (1e6 * np.exp(random.normal(0, 0.5, (5, 1)) + np.zeros((5, 20)))).astype(int),
            )
            for n in range(6)
        ]
        one = document(cases, run_id=label)
        sides.append(Side(label, (Source(f"{label}.json", one, "bench"),), ("numpy",)))
    return compare(sides[0], sides[1:], Policy())


def many_bad(make, count=60):
    """More bad news than a page shows at once."""
    cases = [make.row(i, f"slow_{i:02}", Verdict.SLOWER, 1.2 + i / 100) for i in range(count)]
    bad = tuple(make.bad(item, make.SLOWER) for item in cases)
    return make.comparison(cases, bad_news=bad)
