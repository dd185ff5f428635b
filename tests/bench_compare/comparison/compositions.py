"""Random compositions of bad news: documents, how they stand together, and what befell one case.

Of one case a kind of trouble has a larger share of one side's documents than of base's. Everything
else may stay, improve, be allowed by name, or be another side's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from bench_schema.document import Outcome
from bench_schema.summary import summarize

from bench_compare.comparison.compare import compare
from bench_compare.comparison.reasons import conclude
from bench_compare.input.sides import Grouping, group
from bench_compare.model import Source, Verdict
from bench_compare.policy import Allowance, GraphRule, Policy
from tests.bench_compare.build import (
    H200,
    case,
    document,
    engine,
    machine,
    round_,
    validation,
)

LEVEL_NS = 1e6
ROUNDS, ITERATIONS = 5, 12
VICTIM = "g0"
MANY = 12
"""Cases of a suite that has a common movement."""


def ended(status):
    return lambda one: replace(
        one, outcome=Outcome(status, "it went wrong"), rounds=(), summary={}, validation=None
    )


def validated(**changes):
    return lambda one: replace(one, validation=replace(one.validation, **changes))


def output(**changes):
    def befall(one):
        outputs = tuple(replace(o, **changes) for o in one.validation.outputs)
        return replace(one, validation=replace(one.validation, outputs=outputs))

    return befall


def first_output_only(one):
    outputs = one.validation.outputs[:1]
    return replace(one, validation=replace(one.validation, outputs=outputs))


def without_device_time(one):
    rounds = tuple(replace(r, series={"e2e_ns": r.series["e2e_ns"]}) for r in one.rounds)
    summary = {name: row for name, row in one.summary.items() if name == "e2e_ns"}
    return replace(one, rounds=rounds, summary=summary)


def without_samples(one):
    return replace(one, rounds=(), summary={})


def with_empty_rounds(one):
    rounds = tuple(replace(r, series={}) for r in one.rounds)
    return replace(one, rounds=rounds, summary={})


def another_meaning(one):
    return replace(one, graph=replace(one.graph, fingerprint="f" * 64))


SHARED = {
    "missing": lambda one: None,
    "crashed": ended("crashed"),
    "timed out": ended("timed out"),
    "failed": ended("failed"),
    "skipped": ended("skipped"),
    "unsupported": ended("unsupported"),
    "wrong": validated(status="failed", reason="3 of 10 elements differ"),
    "implausible": lambda one: replace(one, implausible="faster than its memory"),
    "iterations differ": validated(iterations_mismatched=2),
    "inputs changed": validated(inputs_unchanged=False),
    "not checked": validated(status="not checked", outputs=()),
    "never checked": lambda one: replace(one, validation=None),
    "an output not checked": first_output_only,
    "old outputs may pass": validated(iterations_poisoned=0),
    "nondeterministic": validated(deterministic=False),
    "without device time": without_device_time,
    "without samples": without_samples,
    "with empty rounds": with_empty_rounds,
}
"""What may befall a case in some documents of a side."""
IN_ALL = {
    "slower": None,
    "inaccurate": output(max_abs=1e-2, atol=1e-2),
    "looser tolerance": output(rtol=1e-2, atol=1e-3),
    "error is no number": output(max_abs="NaN"),
    "another meaning": another_meaning,
}
"""What befalls it in all documents of a side."""
LIMITS = {
    "power limit": {"power_limit_w": 450.0},
    "clocks": {"max_sm_clock_mhz": 1200.0},
    "memory clocks": {"max_memory_clock_mhz": 1600.0},
}
FROM_TO = {
    "declined, then crashed": ("unsupported", "crashed"),
    "new and wrong": ("missing", "wrong"),
}
"""What befalls it in all documents of the other sides, and of one side."""
WHOLE = (*LIMITS, *FROM_TO, "wrong on both sides", "no case", "all slower", "unfinished")
"""What befalls a whole side, or base too."""
TROUBLES = (*SHARED, *IN_ALL, *WHOLE)
BY_LIST = frozenset({"slower", "unsupported"})
"""Bad news that a policy may leave out of its list."""
OF_ONE_ENGINE = frozenset(
    {
        "not checked",
        "never checked",
        "an output not checked",
        "old outputs may pass",
        "nondeterministic",
        "without device time",
        "inaccurate",
        "looser tolerance",
        "error is no number",
    }
)
"""No news where engines are what is compared: they may differ in this."""
NEEDS_SAMPLES = frozenset(
    {"slower", "all slower", "without device time", "without samples", "with empty rounds"}
)
POLICIES = (
    Policy(),
    Policy(fail_on=frozenset()),
    Policy(fail_on=frozenset({"slower"})),
    Policy(fail_on=frozenset({"e2e_ns"})),
    Policy(fail_on=frozenset({"faster", "clock"})),
)


@dataclass(frozen=True)
class Plan:
    """How a composition is put together."""

    trouble: str
    sizes: tuple[int, ...]
    """Documents of each side, base first."""
    victim: int
    """Side."""
    names: tuple[str, ...]
    layout: str
    """``labels``, ``engines`` of the same documents, ``imported`` summaries, ``twins``, or
    ``two engines`` in each document."""

    @property
    def text(self):
        return f"{self.trouble}, {self.layout}, documents {self.sizes}, side {self.victim}"


def drawn(random, trouble=None):
    trouble = str(random.choice(TROUBLES)) if trouble is None else trouble
    layout = str(random.choice(("labels", "labels", "engines", "imported", "twins", "two engines")))
    if layout == "two engines" and trouble == "all slower":
        layout = "labels"  # half of the cases have no common movement
    if layout == "engines" and trouble in (OF_ONE_ENGINE | set(LIMITS) | {"another meaning"}):
        layout = "labels"
    if layout == "imported" and trouble in NEEDS_SAMPLES:
        layout = "labels"
    others = int(random.choice((1, 1, 1, 2, 3)))
    sizes = random.integers(1, 4, 1 + others)
    if layout == "engines":
        sizes[:] = sizes[0]
    count = MANY if trouble == "all slower" else random.integers(2, 4)
    names = tuple(f"g{n}" for n in range(count))
    victim = int(random.integers(1, 1 + others))
    if trouble == "slower" and sizes[0] + sizes[victim] == 3:
        sizes[victim] = sizes[0]  # one degree of freedom in all: unclear, which is true
    return Plan(trouble, tuple(map(int, sizes)), victim, names, layout)


def counts(random, plan):
    """Documents with the trouble of base and of the side: a larger share of the side's."""
    base, other = plan.sizes[0], plan.sizes[plan.victim]
    pairs = [(b, o) for b in range(base) for o in range(1, other + 1) if o * base > b * other]
    return pairs[random.integers(len(pairs))]


def befallen(random, plan):
    """What befalls the victim in each document of each side."""
    found = {(s, n): [] for s, size in enumerate(plan.sizes) for n in range(size)}
    trouble = "missing" if plan.trouble == "unfinished" else plan.trouble
    if trouble in SHARED:
        for s, many in zip((0, plan.victim), counts(random, plan), strict=True):
            for n in random.permutation(plan.sizes[s])[:many]:
                found[s, n].append(SHARED[trouble])
    for (s, _), befalls in found.items():
        if IN_ALL.get(trouble) is not None and s == plan.victim:
            befalls.append(IN_ALL[trouble])
        if trouble in FROM_TO:
            befalls.append(SHARED[FROM_TO[trouble][s == plan.victim]])
        if trouble == "wrong on both sides" and s in (0, plan.victim):
            befalls.append(SHARED["wrong"])
    if trouble == "slower" and plan.sizes[0] > 1 and random.random() < 0.5:
        found[0, 0].append(SHARED["crashed"])  # and what was broken is fixed
    return found


def measured(random, name, key, factor):
    """A case of which all is well."""
    level = LEVEL_NS * factor * np.exp(random.normal(0, 0.002, (ROUNDS, 1)))
    times = np.rint(level * np.exp(random.normal(0, 0.003, (ROUNDS, ITERATIONS)))).astype(np.int64)
    rounds = [round_(n, {"device_ns": row, "e2e_ns": row + 9000}) for n, row in enumerate(times)]
    sound = validation()
    outputs = (*sound.outputs, replace(sound.outputs[0], uid=2, name="z"))
    sound = replace(
        sound, outputs=outputs, deterministic=True, iterations_poisoned=5, inputs_unchanged=True
    )
    return case(name, rounds, engine=key, validation=sound)


def imported(one):
    """Only what a summary tells."""
    rows = {
        name: summarize([r.series[name] for r in one.rounds], [0] * len(one.rounds))
        for name in ("device_ns", "e2e_ns")
    }
    return replace(one, rounds=(), summary=rows)


def made(random, plan, place, befalls, better):
    """The victim's and the other cases of one side in one document; some are `better`."""
    s, _ = place
    key = f"planner:{s}" if plan.layout == "engines" else "planner"
    for name in plan.names:
        worse = s == plan.victim and (
            (plan.trouble == "slower" and name == VICTIM) or plan.trouble == "all slower"
        )
        factor = 1.5 if worse else 0.7 if (s, name) in better else 1.0
        one = measured(random, name, key, factor)
        if plan.layout == "imported":
            one = imported(one)
        if place == (0, 0) and name == plan.names[-1] and random.random() < 0.3:
            one = SHARED["crashed"](one)
        for befall in befalls if name == VICTIM else ():
            one = befall(one) if one is not None and one.outcome.status == "completed" else one
        if plan.trouble == "no case" and s == plan.victim:
            continue
        if one is not None:
            yield one
        if plan.layout == "two engines":
            yield measured(random, name, "sound", 1.0)
        if plan.layout == "twins" and name == VICTIM:
            yield case(
                name,
                measured(random, name, key, 1.0).rounds,
                engine=key,
                path=f"elsewhere/{name}.json",
                validation=measured(random, name, key, 1.0).validation,
            )


def with_limits(plan, s):
    found = LIMITS.get(plan.trouble, {}) if s == plan.victim else {}
    return replace(machine(), devices=(replace(H200, **found),))


def engines_of(cases, keys):
    return [
        engine(key, device="GPU-1", device_kind="NVIDIA H200")
        for key in dict.fromkeys([*keys, *(one.engine for one in cases)])
    ]


def sources(random, plan):
    """The documents, in the order they would be named."""
    hit = befallen(random, plan)
    places = [(s, name) for s in range(1, len(plan.sizes)) for name in plan.names[1:]]
    better = {place for place in places if random.random() < 0.5}
    if plan.layout == "engines":
        for n in range(plan.sizes[0]):
            sides = range(len(plan.sizes))
            cases = [one for s in sides for one in made(random, plan, (s, n), hit[s, n], better)]
            one = document(
                cases,
                run_id=f"run {n}",
                engines=engines_of(cases, [f"planner:{s}" for s in sides]),
                machine=with_limits(plan, 0),
                complete=plan.trouble != "unfinished",
            )
            yield Source(f"{n}.json", one, "bench")
        return
    for s, n in hit:
        cases = list(made(random, plan, (s, n), hit[s, n], better))
        one = document(
            cases,
            label=f"side {s}",
            run_id=f"run {s} {n}",
            engines=engines_of(cases, ["planner"]),
            machine=with_limits(plan, s),
            complete=not (plan.trouble == "unfinished" and s == plan.victim),
        )
        yield Source(f"{s} {n}.json", one, "dnn" if plan.layout == "imported" else "bench")


def asked(random, plan):
    """A policy that has no right to hide the trouble."""
    policy = POLICIES[0 if plan.trouble in BY_LIST else random.integers(len(POLICIES))]
    allow = [Allowance("g1"), Allowance("g1*", Verdict.SLOWER), Allowance(f"{VICTIM}x")]
    if plan.trouble in SHARED:
        allow += [Allowance(VICTIM, Verdict.SLOWER), Allowance("suite")]
    if plan.trouble not in ("all slower", "no case", *LIMITS):
        allow.append(Allowance("g[1-9]*"))
    kept = [one for one in allow if random.random() < 0.3]
    threshold = [None, 0.0, 0.2, 0.4][random.integers(4)]
    rules = (GraphRule("g[1-9]*", 0.9),) if random.random() < 0.2 else ()
    if plan.trouble == "all slower":
        kept, rules = [], ()
    return replace(policy, allow=tuple(kept), threshold_ratio=threshold, rules=rules)


def composed(seed, trouble=None):
    """A composition and what is said of it."""
    random = np.random.default_rng(seed)
    plan = drawn(random, trouble)
    by = "engine" if plan.layout == "engines" else "label"
    base, others = group(list(sources(random, plan)), Grouping(by))
    return plan, compare(base, others, asked(random, plan))


def silent(seeds, trouble=None):
    """What was done in the compositions that exit 0."""
    found = []
    for seed in seeds:
        plan, comparison = composed(seed, trouble)
        if conclude(comparison).exit_code == 0:
            found.append(f"seed {seed}: {plan.text}")
    return found
