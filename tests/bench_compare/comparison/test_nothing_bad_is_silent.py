"""Random compositions of bad news over one to three documents a side: none of them exits 0.

Each composition has a few cases. Of one of them, at least, a kind of trouble has a larger share of
the other side's documents than of base's; everything else may stay, improve or be allowed by name.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bench_schema.document import Outcome

from bench_compare.comparison.compare import compare
from bench_compare.model import exit_code
from bench_compare.policy.values import Allowance, Policy
from tests.bench_compare.build import (
    H200,
    case,
    document,
    engine,
    machine,
    round_,
    side,
    validation,
)

LEVEL_NS = 1e6
POLICIES = (
    Policy(),
    Policy(fail_on=frozenset()),
    Policy(fail_on=frozenset({"slower"})),
    Policy(fail_on=frozenset({"e2e_ns"})),
)


def measured(random, name, factor=1.0):
    level = LEVEL_NS * factor * np.exp(random.normal(0, 0.002, (5, 1)))
    times = np.rint(level * np.exp(random.normal(0, 0.003, (5, 12)))).astype(np.int64)
    rounds = [round_(n, {"device_ns": row, "e2e_ns": row + 9000}) for n, row in enumerate(times)]
    return case(name, rounds, validation=replace(validation(), deterministic=True))


def ended(status):
    return lambda one: replace(
        one, outcome=Outcome(status, "it went wrong"), rounds=(), validation=None
    )


def validated(**changes):
    return lambda one: replace(one, validation=replace(one.validation, **changes))


def erring(one):
    outputs = tuple(replace(o, max_abs=1e-2, atol=1e-2) for o in one.validation.outputs)
    return replace(one, validation=replace(one.validation, outputs=outputs))


def without_device_time(one):
    rounds = tuple(replace(r, series={"e2e_ns": r.series["e2e_ns"]}) for r in one.rounds)
    return replace(one, rounds=rounds)


TROUBLES = {
    "missing": lambda one: None,
    "crashed": ended("crashed"),
    "timed out": ended("timed out"),
    "failed": ended("failed"),
    "unsupported": ended("unsupported"),
    "wrong": validated(status="failed", reason="3 of 10 elements differ"),
    "not checked": validated(status="not checked", outputs=()),
    "never checked": lambda one: replace(one, validation=None),
    "nondeterministic": validated(deterministic=False),
    "without device time": without_device_time,
}
"""What may befall a case in a document."""
OF_ALL = ("slower", "inaccurate", "another meaning", "power limit", "clocks", "wrong on both sides")
"""What befalls a case, or all of them, in every document of the other side."""
ONLY_BY_LIST = ("slower", "unsupported")
"""Bad news that a policy may leave out of its list."""


def counts(random, sizes):
    """Documents with the trouble, of each side: a larger share of other's."""
    pairs = [
        (b, o)
        for b in range(sizes[0])
        for o in range(1, sizes[1] + 1)
        if o * sizes[0] > b * sizes[1]
    ]
    return pairs[random.integers(len(pairs))]


def another_meaning(one):
    return replace(one, graph=replace(one.graph, fingerprint="f" * 64))


IN_EVERY_DOCUMENT = {"inaccurate": erring, "another meaning": another_meaning}
LIMITS = {"power limit": {"power_limit_w": 450.0}, "clocks": {"max_sm_clock_mhz": 1200.0}}
BROKEN = ended("crashed")


def plan(random, trouble, sizes, names):
    """What befalls each (side, document, name), in order."""
    befallen = {(s, n, name): [] for s in (0, 1) for n in range(sizes[s]) for name in names}
    if trouble in TROUBLES:
        for s, many in enumerate(counts(random, sizes)):
            for n in random.permutation(sizes[s])[:many]:
                befallen[s, n, "g0"].append(TROUBLES[trouble])
    for n in range(sizes[1]) if trouble in IN_EVERY_DOCUMENT else ():
        befallen[1, n, "g0"].append(IN_EVERY_DOCUMENT[trouble])
    for place in befallen if trouble == "wrong on both sides" else ():
        befallen[place] += [TROUBLES["wrong"]] * (place[2] == "g0")
    if trouble == "slower" and sizes[0] > 1 and random.random() < 0.5:
        befallen[0, 0, "g0"].append(BROKEN)  # and what was broken is fixed
    if random.random() < 0.3:
        befallen[0, 0, names[-1]].append(BROKEN)
    return befallen


def made(random, name, factor, befallen):
    one = measured(random, name, factor)
    for befall in befallen:
        one = befall(one)
        if one is None or one.outcome.status != "completed":
            return one
    return one


def one_document(cases, run_id, **limits):
    return document(
        [one for one in cases if one is not None],
        run_id=run_id,
        engines=[engine(device="GPU-1", device_kind="NVIDIA H200")],
        machine=replace(machine(), devices=(replace(H200, **limits),)),
    )


def composition(random):
    """(base, other, policy, what was done)."""
    sizes = random.integers(1, 4, 2)
    names = [f"g{n}" for n in range(random.integers(2, 4))]
    trouble = str(random.choice([*TROUBLES, *OF_ALL]))
    factor = {name: float(random.choice([0.7, 1.0])) for name in names}
    factor["g0"] = 1.5 if trouble == "slower" else factor["g0"]
    befallen = plan(random, trouble, sizes, names)
    sides = []
    for s, label in enumerate("ab"):
        limits = LIMITS.get(trouble, {}) if s else {}
        documents = [
            one_document(
                [made(random, m, factor[m] if s else 1.0, befallen[s, n, m]) for m in names],
                f"{label}{n}",
                **limits,
            )
            for n in range(sizes[s])
        ]
        sides.append(side(label, *documents))
    policy = POLICIES[0 if trouble in ONLY_BY_LIST else random.integers(len(POLICIES))]
    if len(names) > 2 and random.random() < 0.3:
        policy = replace(policy, allow=(Allowance("g1"),))
    return *sides, policy, f"{trouble}, {sizes} documents"


def silent(seeds):
    """What was done in the compositions that exit 0."""
    found = []
    for seed in seeds:
        base, other, policy, done = composition(np.random.default_rng(seed))
        if exit_code(compare(base, [other], policy)) == 0:
            found.append(f"seed {seed}: {done}")
    return found


def test_no_composition_of_bad_news_exits_zero():
    assert [] == silent(range(120))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_none_of_ten_thousand_compositions_of_bad_news_exits_zero():
    assert [] == silent(range(10_000))
