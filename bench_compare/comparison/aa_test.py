"""A/A: the rate of false alarms on results that are known to be of one build."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.units import share_text

from bench_compare.comparison.compare import compare
from bench_compare.errors import InputError
from bench_compare.input.sides import refuse_twice
from bench_compare.metrics import GATES
from bench_compare.model import FalseAlarms, Side, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.model import Comparison, Source
    from bench_compare.policy import Policy

LIMIT_RATIO = 0.01
"""Rate of false verdicts above which a machine's verdicts should not fail a build."""
MOST_SPLITS = 20
SEED = 1
ALARMS = frozenset({Verdict.FASTER, Verdict.SLOWER})
JUDGED = frozenset({*ALARMS, Verdict.SAME, Verdict.UNCLEAR, Verdict.CLOCK})


def aa_test(
    sources: Sequence[Source], policy: Policy, sides: Sequence[tuple[Side, Side]] | None = None
) -> FalseAlarms:
    """Compare halves of one build and count verdicts that cannot be true.

    Several documents are split among themselves, a single one by its rounds; splits that are the
    same with the sides swapped count once. `sides` are compared in place of halves, such as copies
    of an engine that took turns. Raises `InputError` if there is nothing to split.
    """
    policy = replace(policy, metrics=GATES)
    judged = alarms = unclear = splits = 0
    gate: str | None = None
    needed: list[float] = []
    for base, other in _splits(sources) if sides is None else sides:
        found = compare(base, [other], policy)
        judged += sum(found.counts[verdict] for verdict in JUDGED)
        alarms += sum(found.counts[verdict] for verdict in ALARMS)
        unclear += found.counts[Verdict.UNCLEAR]
        splits += 1
        gate = found.gate or gate
        needed.append(_least_threshold(found))
    if not judged or gate is None:
        raise InputError("--aa: no case was measured in both halves")
    rate = alarms / judged
    sentence = (
        f"{alarms} of {judged} verdicts on {splits} {'split' if splits == 1 else 'splits'} of one "
        f"build are false alarms: {share_text(rate)} ({gate}; the limit is "
        f"{share_text(LIMIT_RATIO)}). "
    )
    if rate > LIMIT_RATIO:
        sentence += "Do not gate on this machine: add rounds or documents, or fix its clocks."
    elif sides is None and len(sources) == 1:
        sentence += "Halves of one document do not show what differs between documents."
    elif 2 * unclear <= judged:
        sentence += "This machine may gate."
    else:
        sentence += (
            f"But {unclear} of them are unclear: no false alarms does not imply sensitivity, small "
            "changes are missed; give several documents a side, or quieten the machine."
        )
    threshold = threshold_for(needed)
    sentence += f" {_advice(threshold, None if sides else len(sources))}"
    shows_runs = sides is not None or len(sources) > 1
    return FalseAlarms(
        gate, splits, judged, alarms, unclear, rate, LIMIT_RATIO, sentence, threshold, shows_runs
    )


DOCUMENTS = 3
"""A side, as advised."""
SAME_FACTOR = 1.5
"""Half of a 95 % interval times this: so far from 1 lie the intervals of most cases that are the
same (normal quantiles of 95 % and 90 % over that of 97.5 %)."""
MOST_CASES, MOST_RATIOS = 0.9, 0.99
STEPS = (0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Thresholds that people write."""


def _least_threshold(found: Comparison) -> float:
    """Return the logarithm within which nine of ten cases of a split are the same, and nearly all
    of their ratios lie, with `DOCUMENTS` a side; infinite where no case has an interval."""
    gates = [case.gate_metric for case in found.cases if case.gate_metric is not None]
    numbers = np.array([(one.ratio, one.ci_low, one.ci_high) for one in gates], float)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios, low, high = np.log(numbers.reshape(-1, 3).T)
    known = np.isfinite(low + high)
    if not known.any():
        return math.inf
    width = SAME_FACTOR * float(np.quantile((high - low)[known] / 2, MOST_CASES))
    least = max(width, float(np.quantile(np.abs(ratios[known]), MOST_RATIOS)))
    counts = [len(side.sources) for side in (found.base, found.others[0])]
    paths = {source.path for side in (found.base, found.others[0]) for source in side.sources}
    if len(paths) == 1:  # halves of one document
        return least
    return least * math.sqrt(2 / DOCUMENTS / sum(1 / count for count in counts))


def threshold_for(needed: Sequence[float]) -> float | None:
    """Return the step that the middle split allows, as a ratio; None if that is none of them."""
    least = math.expm1(min(float(np.median(needed)), 1.0))
    return next((step for step in STEPS if step >= least), None)


def _advice(threshold: float | None, documents: int | None) -> str:
    """Return a sentence about the threshold to use; `documents`: those that were split, None of
    sides in one document."""
    if documents is None:
        if threshold is None:
            return f"No threshold up to {share_text(STEPS[-1])} holds here: measure longer."
        flag = share_text(threshold).replace(" ", "")
        return f"On this machine use `--threshold {flag}` for pairs in one run."
    if threshold is None:
        return (
            f"On this machine no threshold up to {share_text(STEPS[-1])} holds with {DOCUMENTS} "
            "documents a side: quieten it, or measure longer."
        )
    least = "" if documents > 1 else "at least "
    flag = f"--threshold {share_text(threshold).replace(' ', '')}"
    text = f"On this machine use {least}`{flag}` with {DOCUMENTS} documents a side"
    if documents > 1:
        return f"{text}."
    return f"{text}; --aa with several documents shows whether it holds between runs."


def _splits(sources: Sequence[Source]) -> Iterator[tuple[Side, Side]]:
    if not sources:
        raise InputError("--aa: no documents")
    refuse_twice(sources)
    if len(sources) > 1:
        for chosen in _halves(len(sources)):
            first = [source for n, source in enumerate(sources) if n in chosen]
            second = [source for n, source in enumerate(sources) if n not in chosen]
            yield _side("one half", first), _side("other half", second)
        return
    source = sources[0]
    indices = sorted({one.index for case in source.document.cases for one in case.rounds})
    if len(indices) < 4:
        raise InputError(
            f"{source.path}: --aa splits a document by its rounds and needs four of them, "
            f"it has {len(indices)}; give two documents of one build, or more rounds"
        )
    for chosen in _halves(len(indices)):
        first_half = {indices[n] for n in chosen}
        yield (
            _side("one half", [_only(source, first_half)]),
            _side("other half", [_only(source, set(indices) - first_half)]),
        )


def _halves(count: int) -> list[tuple[int, ...]]:
    """Return at most `MOST_SPLITS` halvings, drawn with a fixed seed, without mirrored ones."""
    half = count // 2
    if count > 16:
        random = np.random.default_rng(SEED)
        drawn = (random.choice(count, half, replace=False) for _ in range(MOST_SPLITS))
        return [tuple(sorted(one.tolist())) for one in drawn]
    ways = list(combinations(range(count), half))
    if 2 * half == count:
        ways = [way for way in ways if 0 in way]
    if len(ways) <= MOST_SPLITS:
        return ways
    chosen = np.random.default_rng(SEED).choice(len(ways), MOST_SPLITS, replace=False)
    return [ways[place] for place in sorted(chosen.tolist())]


def _side(label: str, sources: Sequence[Source]) -> Side:
    keys = dict.fromkeys(e.key for source in sources for e in source.document.engines)
    return Side(label, tuple(sources), tuple(keys))


def _only(source: Source, indices: set[int]) -> Source:
    """Return the document with some of its rounds."""
    cases = []
    for case in source.document.cases:
        rounds = tuple(one for one in case.rounds if one.index in indices)
        cases.append(replace(case, rounds=rounds))
    return replace(source, document=replace(source.document, cases=tuple(cases)))
