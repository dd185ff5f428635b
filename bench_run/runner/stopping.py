"""Stopping rules: they add rounds to the requested ones until a case is decided."""

from __future__ import annotations

import glob
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from bench_schema import files
from bench_schema.estimate import MIN_ROUNDS_FOR_T, Counted, counted, looks, main_series, time_of
from bench_schema.units import count_text

from bench_run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from bench_schema.document import Case

    from bench_run.plan.cases import PlannedCase
    from bench_run.progress import Progress


# Which cases are decided so far: what ``--until decided`` asks bench-compare between rounds.
#
# The two commands share nothing but documents, and there is one comparison: bench-compare reads the
# results so far as in the finished document, so the verdicts at the end are those
# that it will give for ever.

SHOWN = 300
"""Characters of bench-compare's complaint that are repeated."""
DECIDED = ("faster", "slower", "same", "clock")


@dataclass(frozen=True)
class Decisions:
    """The result of one look."""

    counts: Mapping[str, int]
    """Verdicts that are decided."""
    decided: frozenset[str]
    """Ids of cases in decided pairs; they may be in open ones, too."""
    open: frozenset[str]
    """Ids of cases that more rounds may decide."""
    unclear: int
    """Pairs that are open."""
    without: Mapping[str, int]
    """Pairs that rounds cannot decide, by the reason."""

    def sentence(self, what: str) -> str:
        """Return a sentence such as ``5 of 7 pairs decided (3 faster, 2 same), 1 open, 1 needs more
        documents``; `what`: the word for pairs."""
        decided = sum(self.counts.values())
        total = decided + self.unclear + sum(self.without.values())
        listed = ", ".join(f"{number} {verdict}" for verdict, number in self.counts.items())
        parts = [f"{decided} of {total} {what} decided" + (f" ({listed})" if listed else "")]
        parts += [f"{self.unclear} open"] if self.unclear else []
        parts += [f"{number} {reason}" for reason, number in self.without.items()]
        return ", ".join(parts)


def check_until_decided(against: str | None, engines: int) -> None:
    """Raise `UsageError` or `DocumentError` if nothing could be decided. `against`: documents of an
    earlier run; None: the engines of this run against each other."""
    if against is None:
        if engines < 2:
            raise UsageError(
                "--until decided compares engines: give --a and --b, several --engine, "
                "or --against FILE"
            )
        return
    path = Path(against)
    if path.is_file():
        files.read(path)
    elif not path.is_dir() and not glob.glob(against, recursive=True):
        raise UsageError(f"--against: {against}: no such file")


class Referee:
    """Asks bench-compare. `save` writes the results so far to a file and returns its path."""

    def __init__(
        self, against: str | None, threshold_ratio: float, save: Callable[[Path], Path]
    ) -> None:
        self._against, self._threshold_ratio, self._save = against, threshold_ratio, save

    @property
    def what(self) -> str:
        """Return a phrase for the items to decide: ``pairs``, or ``cases against`` a name."""
        return "pairs" if self._against is None else f"cases against {self._against}"

    def look(self) -> Decisions:
        """Look at the results. Raises `UsageError` if nothing can be compared."""
        with tempfile.TemporaryDirectory(prefix="bench-run-") as folder:
            path = str(self._save(Path(folder)))
            sides = (
                [path, "--group-by", "engine"]
                if self._against is None
                else ["--a", self._against, "--b", path]
            )
            record = comparison_record(sides, self._threshold_ratio, "--until decided")
        decisions = read_decisions(record, self._against is None)
        if not decisions.decided and not decisions.open and record["problems"]:
            raise UsageError(f"--until decided: {record['problems'][0]}")
        return decisions


def comparison_record(sides: Sequence[str], threshold_ratio: float, asked: str) -> dict[str, Any]:
    """Return the JSON of bench-compare on `sides`, words of its command line. Raises `UsageError`,
    which begins with `asked`, if nothing can be compared."""
    words = [*sides, "--threshold", repr(threshold_ratio), "--json", "-"]
    done = subprocess.run(  # noqa: S603 - our own command, no shell
        [sys.executable, "-m", "bench_compare", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    try:
        record: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        text = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        last = text.splitlines()[-1][:SHOWN].removeprefix("bench-compare: ")
        raise UsageError(f"{asked}: {last}") from None
    return record


def read_decisions(record: Mapping[str, Any], paired: bool) -> Decisions:
    """Count the verdicts of a record of ``bench-compare --json``, with the ids of decided and of
    open cases. `paired`: both sides are in this run, so both ids of a pair count."""
    counts: Counter[str] = Counter()
    without: Counter[str] = Counter()
    decided: set[str] = set()
    still: set[str] = set()
    unclear = 0
    sides = ("base", "other") if paired else ("other",)
    for case in record["cases"]:
        ids = [case[name]["case"] for name in sides if case[name] is not None]
        metric = case["metrics"].get(case["gate"])
        if metric is None:
            without["not comparable"] += 1
        elif metric["verdict"] in DECIDED:
            counts[metric["verdict"]] += 1
            decided.update(ids)
        elif metric["needed_unit"] == "document":
            without["open that only more documents decide"] += 1
        else:
            unclear += 1
            still.update(ids)
    return Decisions(dict(counts), frozenset(decided), frozenset(still), unclear, dict(without))


MAX_ROUNDS = "max rounds"


Rule: TypeAlias = "Callable[[Sampling, Progress], None]"
"""Adds rounds after those that every case has (`fewest`), up to `most` of each case."""


class Sampling(Protocol):
    """Properties of the run that a rule needs."""

    def open_states(self) -> Iterator[CaseState]:
        """Yield the cases that nothing ended."""

    def measure(self, count: int, cases: Sequence[PlannedCase]) -> None:
        """Measure the missing ones of the first `count` rounds of these cases."""

    def note_end(self, states: Sequence[CaseState], rule: str) -> None:
        """Put on record which rule ended the sampling of these cases."""


def until_precise(rounds: Sampling, target_ratio: float, fewest: int, most: int) -> None:
    """Run more rounds for the cases whose median is not known precisely enough."""
    due = [state for state in rounds.open_states() if state.rounds]
    for index in range(fewest, most):
        due = [s for s in _note_precise(rounds, due, target_ratio) if s.ended is None]
        rounds.measure(index + 1, [state.case for state in due])
    rounds.note_end(_note_precise(rounds, due, target_ratio), MAX_ROUNDS)


def _note_precise(
    rounds: Sampling, due: Sequence[CaseState], target_ratio: float
) -> list[CaseState]:
    """Return the cases that are not precise yet; record the reason that ended the others."""
    split: dict[bool, list[CaseState]] = {True: [], False: []}
    for state in due:
        split[state.is_precise(target_ratio)].append(state)
    rounds.note_end(split[True], "precision")
    return split[False]


def until_decided(
    rounds: Sampling, progress: Progress, referee: Referee, fewest: int, most: int
) -> None:
    """Run more rounds for the cases that are in no decided pair, up to the next look at all of
    them. A decided case is judged again at each look, with its rounds. Raises `UsageError` if
    nothing can be compared."""
    states = [state for state in rounds.open_states() if state.rounds]
    due = states
    decided: list[CaseState] = []
    for until in looks(fewest, most):
        rounds.measure(until, [state.case for state in due])
        decisions = referee.look()
        due = [state for state in states if state.case.id in decisions.open]
        done = decisions.decided - decisions.open
        decided = [state for state in states if state.case.id in done]
        progress.say(f"after {until} rounds: {decisions.sentence(referee.what)}")
        if not due:
            break
    rounds.note_end(decided, "decided")
    rounds.note_end(due, MAX_ROUNDS)


def until_settled(
    rounds: Sampling,
    progress: Progress,
    find_open: Callable[[Mapping[str, CaseState]], frozenset[str]],
    fewest: int,
    most: int,
) -> None:
    """Run more rounds for the cases that `find_open` returns by id, up to the next look. A case
    that it does not return at a look is done."""
    states = {state.case.id: state for state in rounds.open_states() if state.rounds}
    due = list(states.values())
    for until in looks(fewest, most):
        rounds.measure(until, [state.case for state in due])
        open_ids = find_open(states)
        due = [state for state in due if state.ended is None]
        rounds.note_end([state for state in due if state.case.id not in open_ids], "settled")
        due = [state for state in due if state.case.id in open_ids]
        done = len(states) - len(due)
        progress.say(f"after {until} rounds: {done} of {count_text(len(states), 'case')} settled")
        if not due:
            return
    rounds.note_end(due, MAX_ROUNDS)


UNGATED_ELSEWHERE = "another round of this case had to do without the gate"


class RoundSamples(NamedTuple):
    """Times of a case in a round."""

    counted: Counted
    energy_j: float | None = None
    """Energy of an iteration."""


@dataclass
class CaseState:
    """Results of a case until now."""

    case: PlannedCase
    ended: str | None = None
    """The status that ended it, if it did not complete."""
    last: Case | None = None
    measured: dict[int, RoundSamples] = field(default_factory=dict)
    """Samples by round: an earlier run may have lost one between others, and they end in any
    order."""
    is_wrong: bool = False
    """True if its outputs were wrong in a round."""
    timing: str | None = None
    """Method that measured the device times of these rounds."""

    @property
    def rounds(self) -> int:
        return len(self.measured)

    @property
    def no_gate(self) -> str | None:
        """Why further rounds are to do without a gate."""
        return UNGATED_ELSEWHERE if self.timing == "events" else None

    def take(self, result: Case) -> None:
        self.last = result
        if result.outcome.status != "completed":
            self.ended = result.outcome.status
        for each in result.rounds:
            if each.device_timing == "gated events" and self.timing == "events":
                continue  # it was under way when another one had to do without the gate
            if each.device_timing == "events" and self.timing == "gated events":
                self.measured.clear()  # measured again: unlike samples share no series
            self.timing = each.device_timing
            name = main_series(each.series)
            assert name is not None, "a round has samples"
            found = counted(each, name)
            assert found is not None, "some of them count"
            self.measured[each.index] = RoundSamples(found, each.energy_j_per_iteration)
        if result.validation is not None and result.validation.status == "failed":
            self.is_wrong = True

    def forget(self, rounds: Collection[int]) -> None:
        """Discard these rounds, which are void and will be measured again."""
        for index in rounds:
            self.measured.pop(index, None)

    def in_order(self) -> list[RoundSamples]:
        """Return the samples in the order of the rounds."""
        return [self.measured[index] for index in sorted(self.measured)]

    def bare(self) -> Case:
        """Return a part without measurements, for what is put on record later."""
        assert self.last is not None, "something was measured"
        return replace(
            self.last, init={}, rounds=(), summary={}, validation=None, memory=None, notes=()
        )

    def is_precise(self, target_ratio: float) -> bool:
        width = self.half_width_ratio()
        return width is not None and width <= target_ratio

    def half_width_ratio(self) -> float | None:
        """Return the half width of the time's interval; None below three rounds."""
        if self.rounds < MIN_ROUNDS_FOR_T:
            return None
        return time_of([each.counted for each in self.in_order()]).half_width_ratio
