"""A/A: the rate of false alarms on results that are known to be of one build."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.comparison.compare import compare
from bench_compare.errors import InputError
from bench_compare.input.sides import refuse_twice
from bench_compare.metrics import GATES
from bench_compare.model import FalseAlarms, Side, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.model import Source
    from bench_compare.policy import Policy

LIMIT_RATIO = 0.01
"""Above this rate a machine's verdicts are no reason to fail a build."""
MOST_SPLITS = 20
SEED = 1
ALARMS = frozenset({Verdict.FASTER, Verdict.SLOWER})
JUDGED = frozenset({*ALARMS, Verdict.SAME, Verdict.UNCLEAR, Verdict.CLOCK})


def aa_test(sources: Sequence[Source], policy: Policy) -> FalseAlarms:
    """Compare halves of one build and count verdicts that cannot be true.

    Several documents are split among themselves, a single one by its rounds; splits that are the
    same with the sides swapped count once. Raises `InputError` where there is nothing to split.
    """
    policy = replace(policy, metrics=GATES, details=0)
    judged = alarms = unclear = splits = 0
    gate: str | None = None
    for base, other in _splits(sources):
        found = compare(base, [other], policy)
        judged += sum(found.counts[verdict] for verdict in JUDGED)
        alarms += sum(found.counts[verdict] for verdict in ALARMS)
        unclear += found.counts[Verdict.UNCLEAR]
        splits += 1
        gate = found.gate or gate
    if not judged or gate is None:
        raise InputError("--aa: no case was measured in both halves")
    rate = alarms / judged
    sentence = (
        f"{alarms} of {judged} verdicts on {splits} {'split' if splits == 1 else 'splits'} of one "
        f"build are false alarms: {100 * rate:.2f} % ({gate}; the limit is "
        f"{100 * LIMIT_RATIO:.0f} %). "
    )
    if rate > LIMIT_RATIO:
        sentence += "Do not gate on this machine: add rounds or documents, or fix its clocks."
    elif 2 * unclear <= judged:
        sentence += "This machine may gate."
    else:
        sentence += (
            f"But {unclear} of them are unclear: no false alarms does not imply sensitivity, small "
            "changes are missed; give several documents a side, or quieten the machine."
        )
    return FalseAlarms(gate, splits, judged, alarms, rate, LIMIT_RATIO, sentence)


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
    """At most `MOST_SPLITS` ways to halve, drawn with a fixed seed; mirrored ones left out."""
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
    """The document with some of its rounds."""
    cases = []
    for case in source.document.cases:
        rounds = tuple(one for one in case.rounds if one.index in indices)
        cases.append(replace(case, rounds=rounds))
    return replace(source, document=replace(source.document, cases=tuple(cases)))
