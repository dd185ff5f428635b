"""Rounds beside which the host did other work: named, so that a reader knows which to repeat.

No verdict depends on it: what a disturbance does to a time is in the spread of the rounds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from bench_compare.model import Note
from bench_compare.rounds.facts import OTHERS_S, STEAL_S, SWITCHES
from bench_compare.rounds.lazy import facts, indices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench_schema.document import Case, Document, Surroundings

    from bench_compare.model import CaseSide, Side, SideName
    from bench_compare.rounds.facts import Disturber

OTHERS_SHARE = 0.1
"""Of the host's processors: so much work of others is felt through caches and clocks, and sooner or
later on the measuring processor."""
STEAL_SHARE = 0.02
SWITCHES_PER_S = 100.0
"""Involuntary: somebody else waits for this processor in every slice of time."""
MOST_SHARE = 0.5
"""Of the cases of a round: then the round as a whole was disturbed."""


def disturbance(found: Surroundings | Disturber, processors: int | None) -> str | None:
    """What disturbed, in words; None: nothing that is known of."""
    window_s = found.window_s
    if not window_s:
        return None
    others_s, steal_s = found.others_cpu_s or 0.0, found.steal_s or 0.0
    if steal_s >= STEAL_S and steal_s >= STEAL_SHARE * window_s:
        return "time was stolen by other guests"
    if others_s >= OTHERS_S and others_s >= OTHERS_SHARE * window_s * (processors or 1):
        return "other processes were at work"
    switches = found.involuntary_switches or 0
    if switches >= SWITCHES and switches >= SWITCHES_PER_S * window_s:
        return "other processes were at work"
    return None


def disturbed_rounds(case: Case, document: Document) -> dict[int, str]:
    """What disturbed each round, by its index."""
    found = {}
    for one in facts(case.rounds).disturbed:
        what = disturbance(one, document.machine.cpu.threads) if one.exposed else None
        if one.device_processes:
            what = "other processes were on the device"
        if what is not None:
            found[one.index] = what
    return found


def disturbed_notes(side: CaseSide, owner: Side, name: SideName) -> Iterator[Note]:
    """A note that names the rounds of a case; with several documents it counts them."""
    if not any(facts(case.rounds).disturbed for case in side.cases):
        return
    every = [
        disturbed_rounds(case, owner.sources[number].document)
        for case, number in zip(side.cases, side.sources, strict=True)
    ]
    if not any(every):
        return
    what = " and ".join(dict.fromkeys(text for found in every for text in found.values()))
    if len(every) == 1:
        total = len(side.cases[0].rounds)
        yield Note("disturbed", name, f"{_rounds(list(every[0]), total)}: {what}")
    else:
        count, total = sum(map(len, every)), sum(len(case.rounds) for case in side.cases)
        yield Note("disturbed", name, f"{count} of {total} rounds: {what}")


def _rounds(indices: Sequence[int], total: int) -> str:
    """``rounds 2 and 4 of 5``, counted from 1 as a run tells its progress."""
    if len(indices) == total:
        return "all rounds"
    numbers = [str(index + 1) for index in sorted(indices)]
    if len(numbers) == 1:
        return f"round {numbers[0]} of {total}"
    return f"rounds {', '.join(numbers[:-1])} and {numbers[-1]} of {total}"


def disturbed_warnings(sides: Iterable[Side]) -> list[str]:
    """A sentence for each document that has rounds in which most cases were disturbed."""
    found = []
    for source in dict.fromkeys(source for side in sides for source in side.sources):
        rounds = _disturbed_as_a_whole(source.document)
        if rounds:
            total = max(len(case.rounds) for case in source.document.cases)
            what = Counter(rounds.values()).most_common(1)[0][0]
            found.append(f"{source.path}: {_rounds(list(rounds), total)} disturbed: {what}")
    return found


def _disturbed_as_a_whole(document: Document) -> dict[int, str]:
    disturbed: dict[int, list[str]] = defaultdict(list)
    for case in document.cases:
        for index, what in disturbed_rounds(case, document).items():
            disturbed[index].append(what)
    if not disturbed:
        return {}
    visits = Counter(index for case in document.cases for index in indices(case.rounds))
    return {
        index: Counter(texts).most_common(1)[0][0]
        for index, texts in disturbed.items()
        if len(texts) > MOST_SHARE * visits[index]
    }
