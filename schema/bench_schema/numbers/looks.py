"""When a run that stops as soon as its pairs are decided looks at its results.

A run that looks often and stops when it likes what it sees errs more often than its intervals say.
So it looks a few times, at numbers of rounds that are fixed beforehand, and the looks share the
error that is allowed: each may spend its part (Lan and DeMets 1983, alpha spending), all parts the
same, added up by Bonferroni's inequality. That holds for Student's t at any number of rounds and
for looks that depend on each other in any way; the exact joint distribution would make intervals
about 5 % narrower (Jennison and Turnbull 2000, Group sequential methods, table 2.1). The intervals
hold at all looks together (Jennison and Turnbull 1989, repeated confidence intervals), so whoever
reads the document later may use them whatever ended the run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_schema.provenance import Settings

GROWTH = 1.3
"""Rounds at one look over those at the look before."""
LEAST_ROUNDS = 3
"""Below it the spread of rounds is a guess."""


def looks(rounds: int, max_rounds: int) -> tuple[int, ...]:
    """Numbers of rounds after which is looked, the last one `max_rounds`."""
    found = [max(rounds, LEAST_ROUNDS)]
    while found[-1] < max_rounds:
        found.append(min(math.ceil(GROWTH * found[-1]), max_rounds))
    return tuple(found)


def look_count(settings: Settings) -> int:
    """How many looks share the error of a run with these settings; 1: it did not look."""
    if settings.until is None or settings.max_rounds is None:
        return 1
    return len(looks(settings.rounds, settings.max_rounds))
