"""Kernel and base in turns, in fresh processes, until it is known or the time is used up.

Both come through one door: a base that is a framework is called as a kernel of a file is. The
kernel is tried on adversarial inputs right after the first round, and one that is wrong, dishonest
or failed takes no further round.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bench_schema.estimate import looks

from bench_run.errors import UsageError
from bench_run.runner.benchmark import run_benchmark
from bench_run.runner.extra_passes import attack
from bench_run.runner.referee import Referee
from bench_run.runner.rules import MAX_ROUNDS, End, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bench_schema.document import Case, Document

    from bench_run.judge.question import Question
    from bench_run.plan.cases import PlannedCase
    from bench_run.runner.rounds import Rounds
    from bench_run.runner.rules import Moves
    from bench_run.worker.life import Launcher

LOOK_S = 2.0
"""Time of a comparison of the results so far, and of the answer."""


@dataclass(frozen=True)
class Failing:
    """A case whose outputs were wrong, and on which inputs."""

    case: PlannedCase
    data: Any
    kind: str | None
    """Kind of adversarial inputs; None: the usual ones, or those of samples."""


@dataclass
class Jury:
    """The rule of the rounds: which follow, and whether any does."""

    question: Question
    end_s: float
    """Instant of the monotonic clock at which the answer is due."""
    referee: Referee | None = None
    failing: list[Failing] = field(default_factory=list)
    ran_out: bool = False
    """True if more rounds would have followed, had there been time."""

    def __call__(self, rounds: Any) -> Moves:
        yield Step(1, list(rounds.open_states()))
        self._check_base(rounds)
        kernels = [s.case for s in rounds.states.values() if s.case.engine.key == self._key(rounds)]
        for case in kernels:
            state = rounds.states[case.id]
            if state.is_wrong:
                self.failing.append(Failing(case, rounds.data(case), None))
        if self._is_unfit(rounds, kernels):
            return
        for case, found in zip(kernels, attack(rounds, kernels, rounds.say), strict=True):
            if found.validation is not None and found.validation.status == "failed":
                kind = (found.validation.reason or "").removeprefix("adversarial: ").split(": ")[0]
                self.failing.append(Failing(case, rounds.data(case), kind))
        if not self.failing:
            yield from self._until_decided(rounds, kernels)

    def _key(self, rounds: Rounds) -> str:
        return list(rounds.states.values())[-1].case.engine.key

    def _is_unfit(self, rounds: Rounds, kernels: Sequence[PlannedCase]) -> bool:
        """Return True if a kernel is known to be failed, wrong or dishonest."""
        states = [rounds.states[case.id] for case in kernels]
        return any(
            s.ended is not None or s.is_wrong or (s.last and s.last.implausible) for s in states
        )

    def _check_base(self, rounds: Rounds) -> None:
        """Raise `UsageError` if the base completed no case: then nothing has a speed."""
        key = self._key(rounds)
        states = [s for s in rounds.states.values() if s.case.engine.key != key]
        if states and all(state.ended is not None for state in states):
            last = states[0].last
            why = None if last is None else last.outcome.reason
            raise UsageError(
                f"judge: the base {self.question.base} does not run "
                f"{states[0].case.graph.id.name} ({why}); name another engine: --base torch, or "
                "--base numpy"
            )

    def _until_decided(self, rounds: Rounds, kernels: Sequence[PlannedCase]) -> Moves:
        """Measure round after round, and compare at numbers of rounds that are fixed before."""
        assert self.referee is not None
        states = [state for state in rounds.open_states() if state.rounds]
        due, done = states, 1
        options = self.question.options()
        each_s = 0.0
        for planned in looks(options.rounds, options.max_rounds):
            until = min(planned, options.max_rounds)
            while done < until:
                # Several at once where they fit: a device's are prepared side by side.
                left_s = self.end_s - LOOK_S - time.monotonic()
                fit = int(left_s / each_s) if each_s else 1
                if left_s < each_s:
                    self.ran_out = True
                    yield End(due, "budget")
                    return
                began, more = time.monotonic(), min(max(1, fit), until - done)
                done += more
                yield Step(done, due)
                each_s = (time.monotonic() - began) / more
                if self._is_unfit(rounds, kernels):
                    return
            decisions = self.referee.look()
            due = [state for state in states if state.case.id in decisions.open]
            rounds.say(f"after {until} rounds: {decisions.sentence(self.referee.what)}")
            if not due:
                yield End(states, "decided")
                return
        yield End(due, MAX_ROUNDS)


@dataclass(frozen=True)
class Trial:
    document: Document
    failing: tuple[Failing, ...]
    ran_out: bool


def try_kernel(
    question: Question, end_s: float, command: Sequence[str], launcher: Launcher
) -> Trial:
    """Run kernel and base. `end_s`: instant at which the answer is due, by the monotonic clock.
    Raises `UsageError` and what a run raises before it measures."""
    jury = Jury(question, end_s)

    def rule_of(save: Callable[[Path], Path]) -> Jury:
        jury.referee = Referee(None, question.threshold_ratio, save)
        return jury

    document = run_benchmark(question.options(), command, launcher, rule_of)
    return Trial(document, tuple(jury.failing), jury.ran_out)


def cases_of(document: Document) -> list[Case]:
    """Return the cases of the last engine, which is the kernel."""
    key = document.engines[-1].key
    return [case for case in document.cases if case.engine == key]


def joined(named: Mapping[str, Document]) -> Document:
    """Return the cases of several trials, each with its name before those of its cases, as one
    document, whose run is the first one's."""
    documents = list(named.values())
    first = documents[0]
    engines = {engine.key: engine for document in documents for engine in document.engines}
    cases = tuple(
        replace(
            case,
            id=f"{name}/{case.id}",
            graph=replace(case.graph, name=f"{name}/{case.graph.name}"),
        )
        for name, document in named.items()
        for case in document.cases
    )
    run = replace(first.run, finished=documents[-1].run.finished)
    return replace(first, run=run, engines=tuple(engines.values()), cases=cases)
