"""When the rounds of a case end: rules that add some to those that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from bench_schema.numbers.looks import looks

from bench_run.runner.decisions import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_run.options import Options
    from bench_run.plan.cases import PlannedCase
    from bench_run.progress import Progress
    from bench_run.runner.case_state import CaseState
    from bench_run.runner.decisions import Referee

MAX_ROUNDS = "max rounds"


Rule: TypeAlias = "Callable[[Sampling, Progress], None]"
"""Adds rounds to those that were asked for, after these."""


class Sampling(Protocol):
    """What a rule needs of the run."""

    def open_states(self) -> Iterator[CaseState]:
        """The cases that nothing ended."""

    def measure(self, count: int, cases: Sequence[PlannedCase]) -> None:
        """The first `count` rounds of these cases, as far as they are not measured yet."""

    def note_end(self, states: Sequence[CaseState], rule: str) -> None:
        """Put on record which rule ended the sampling of these cases."""


def until_precise(rounds: Sampling, options: Options) -> None:
    """More rounds for the cases whose median is not known well enough yet."""
    target = options.precision_ratio
    assert target is not None
    due = [state for state in rounds.open_states() if state.rounds]
    for index in range(options.rounds, options.max_rounds):
        precise = [state for state in due if state.is_precise(target)]
        rounds.note_end(precise, "precision")
        due = [state for state in due if state not in precise and state.ended is None]
        rounds.measure(index + 1, [state.case for state in due])
    precise = [state for state in due if state.is_precise(target)]
    rounds.note_end(precise, "precision")
    rounds.note_end([state for state in due if state not in precise], MAX_ROUNDS)


def until_decided(rounds: Sampling, progress: Progress, options: Options, referee: Referee) -> None:
    """More rounds for the cases that are in no decided pair, up to the next look at all of them. A
    case that was decided is judged again at each look, with the rounds that it has. Raises
    `UsageError` where nothing can be compared."""
    states = [state for state in rounds.open_states() if state.rounds]
    due = states
    decided: list[CaseState] = []
    for until in looks(options.rounds, options.max_rounds):
        rounds.measure(until, [state.case for state in due])
        found = referee.look()
        due = [state for state in states if key_of(state.case) in found.open]
        decided = [state for state in states if key_of(state.case) in found.decided - found.open]
        progress.say(f"after {until} rounds: {found.sentence(referee.what)}")
        if not due:
            break
    rounds.note_end(decided, "decided")
    rounds.note_end(due, MAX_ROUNDS)


def until_settled(
    rounds: Sampling,
    progress: Progress,
    options: Options,
    find_open: Callable[[Mapping[str, CaseState]], frozenset[str]],
) -> None:
    """More rounds for the cases that `find_open` names by id, up to the next look. One that it does
    not name at a look is done."""
    states = {state.case.id: state for state in rounds.open_states() if state.rounds}
    due = list(states.values())
    for until in looks(options.rounds, options.max_rounds):
        rounds.measure(until, [state.case for state in due])
        found = find_open(states)
        due = [state for state in due if state.ended is None]
        rounds.note_end([state for state in due if state.case.id not in found], "settled")
        due = [state for state in due if state.case.id in found]
        done = len(states) - len(due)
        progress.say(f"after {until} rounds: {done} of {len(states)} cases settled")
        if not due:
            return
    rounds.note_end(due, MAX_ROUNDS)
