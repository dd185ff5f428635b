"""The rules of sampling: which cases get how many rounds next, and why the others ended.

A rule is a generator of moves, asked again once the last move is done: it looks at the states of
the cases in between. Rules follow one another (`one_by_one`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from bench_schema.estimate import looks

if TYPE_CHECKING:
    from bench_run.runner.referee import Referee
    from bench_run.runner.states import CaseState

MAX_ROUNDS = "max rounds"


class Step(NamedTuple):
    """Measure the missing ones of the first `rounds` rounds of these cases."""

    rounds: int
    due: Sequence[CaseState]


class End(NamedTuple):
    """Put on record which rule ended the sampling of these cases."""

    states: Sequence[CaseState]
    rule: str


Moves: TypeAlias = Iterator[Step | End]


class Sampled(Protocol):
    """The cases of a run, as rules see them."""

    def open_states(self) -> Iterator[CaseState]:
        """Yield the cases that nothing ended."""

    def say(self, line: str) -> None:
        """Print a line."""


Rule: TypeAlias = Callable[[Sampled], Moves]


def one_by_one(*rules: Rule) -> Rule:
    """Return the rule of one rule after the other."""

    def rule(sampled: Sampled) -> Moves:
        for each in rules:
            yield from each(sampled)

    return rule


def fixed(rounds: int) -> Rule:
    """Return the rule that gives every case so many rounds."""
    return lambda sampled: iter([Step(rounds, list(sampled.open_states()))])


def precise(target_ratio: float, fewest: int, most: int) -> Rule:
    """Return the rule that gives more rounds to cases whose time is not known so precisely."""

    def rule(sampled: Sampled) -> Moves:
        due = [state for state in sampled.open_states() if state.rounds]
        for rounds in range(fewest + 1, most + 2):
            known = [state for state in due if state.is_precise(target_ratio)]
            yield End(known, "precision")
            due = [state for state in due if state not in known]
            if rounds > most:
                yield End(due, MAX_ROUNDS)
                return
            due = [state for state in due if state.ended is None]
            yield Step(rounds, due)

    return rule


def decided(referee: Referee, fewest: int, most: int) -> Rule:
    """Return the rule that gives more rounds to cases in no decided pair, up to the next look at
    all of them. A decided case is judged again at each look, with its rounds. The rule raises
    `UsageError` if nothing can be compared."""

    def rule(sampled: Sampled) -> Moves:
        states = [state for state in sampled.open_states() if state.rounds]
        due: list[CaseState] = states
        done: list[CaseState] = []
        for rounds in looks(fewest, most):
            yield Step(rounds, due)
            found = referee.look()
            due = [state for state in states if state.case.id in found.open]
            closed = found.decided - found.open
            done = [state for state in states if state.case.id in closed]
            sampled.say(f"after {rounds} rounds: {found.sentence(referee.what)}")
            if not due:
                break
        yield End(done, "decided")
        yield End(due, MAX_ROUNDS)

    return rule
