"""What is required of a comparison, and what another unit of hardware does to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench_compare.comparison.compare import compare
from bench_compare.comparison.reasons import conclude
from bench_compare.model import Verdict
from bench_compare.policy import Policy, UnclearLimit
from tests.bench_compare.build import case, document, engine, machine, round_, side, steady

BASE = [case(f"g{n}", steady(np.random.default_rng(n), 1e6)) for n in range(12)]


def held(cases, policy=None, **changes):
    sides = side("a", document(BASE, run_id="a")), side("b", document(cases, run_id="b", **changes))
    return compare(sides[0], [sides[1]], policy or Policy())


def moved(factor, seed=50):
    """The cases of base, the first one moved."""
    return [
        case(f"g{n}", steady(np.random.default_rng(seed + n), 1e6 * (factor if n == 0 else 1)))
        for n in range(12)
    ]


def noisy(seed):
    """Rounds that differ by half of their length."""
    random = np.random.default_rng(seed)
    rounds = 1e6 * np.exp(random.normal(0, 0.5, (5, 1))) * np.ones((5, 20))
    return [case(f"g{n}", rounds.astype(np.int64)) for n in range(12)]


def test_required_sensitivity_makes_a_blind_comparison_fail():
    policy = Policy(required_sensitivity_ratio=0.05)
    assert (
        conclude(held(noisy(1), policy)).exit_code,
        conclude(held(moved(1.0), replace(policy, floor_sd=0.001))).exit_code,
    ) == (1, 0)


def test_what_must_be_seen_is_asked_of_all_cases_whatever_decides_them():
    """Six cases that device time decides are quiet, five that have none are blind."""
    seen = [
        case(
            one.graph.name, [round_(r.index, {"device_ns": r.series["e2e_ns"]}) for r in one.rounds]
        )
        for one in BASE[:6]
    ]
    sides = [
        side(
            name,
            document(
                [
                    *seen,
                    *(
                        replace(b, graph=replace(b.graph, fingerprint=f"b{n}"))
                        for n, b in enumerate(noisy(seed)[:5])
                    ),
                ],
                run_id=name,
            ),
        )
        for name, seed in (("a", 1), ("b", 2))
    ]
    found = compare(sides[0], [sides[1]], Policy(required_sensitivity_ratio=0.05))
    assert (found.gate, conclude(found).exit_code) == ("device_ns", 1)


def test_rounds_of_few_samples_are_no_silent_pass():
    base = side("a", document([case("g", [[int(1e6)] * 10])], run_id="a"))
    other = side("b", document([case("g", [[int(1e8)] * 10])], run_id="b"))
    assert conclude(compare(base, [other], Policy())).exit_code == 2


@pytest.mark.parametrize(
    ("limit", "expected"), [(UnclearLimit(12), 0), (UnclearLimit(share=0.5), 1)]
)
def test_more_unclear_cases_than_allowed_are_no_answer(limit, expected):
    assert len(held(noisy(1), Policy(max_unclear=limit)).problems) == expected


def on_unit(uuid, cases, run_id):
    where = [engine(device=uuid, device_kind="NVIDIA H200")]
    return document(cases, run_id=run_id, engines=where)


def test_another_unit_of_hardware_is_provisional_and_said():
    base = side("a", on_unit("GPU-1", BASE, "a"))
    other = side("b", on_unit("GPU-2", moved(0.8), "b"))
    found = compare(base, [other], Policy())
    metric = found.cases[0].gate_metric
    assert (metric.verdict, metric.provisional) == (Verdict.FASTER, True)
    assert "different units of hardware" in metric.reason
    assert any("another unit of hardware" in text for text in found.warnings)


def test_the_same_unit_is_nothing_to_say():
    sides = on_unit("GPU-1", BASE, "a"), on_unit("GPU-1", moved(1), "b")
    found = compare(side("a", sides[0]), [side("b", sides[1])], Policy())
    assert not found.cases[0].gate_metric.provisional
    assert found.warnings == ()


def test_another_host_is_another_unit():
    other = document(moved(1.0), run_id="b", machine=replace(machine(), host="elsewhere"))
    found = compare(side("a", document(BASE, run_id="a")), [side("b", other)], Policy())
    assert found.cases[0].gate_metric.provisional
