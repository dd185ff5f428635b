"""``--parallel measure``: devices of a host measure at the same time, where that changes nothing.

Devices share power, bus and host, so each case is watched: round 0, and every `EVERY`-th after it,
is measured while no other device measures, and the others are held against it (`trials.py`).
"""

from __future__ import annotations

import math
import statistics
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench_schema.document import Surroundings
from bench_schema.estimate import counting, main_series, round_log, two_sided
from bench_schema.merge import MEASURED_ALONE

from bench_run.machine.device_lock import DeviceLock
from bench_run.measure.kernel_pass import STEP_NS
from bench_run.runner.parallel.baton import Baton, HostTurn, Overlaps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bench_schema.document import Case, Round

    from bench_run.measure.time_breakdown import TimeBreakdown
    from bench_run.runner.parallel.baton import CaseRun, CaseTurn, Group


HOST = "host"
"""Name of the lock of all devices: shared by those that measure side by side."""


class DeviceBatons:
    """A baton for each device, in place of one for all of them."""

    def __init__(
        self,
        devices: Mapping[str, str],
        is_beside: Callable[[CaseRun], bool],
        tell: Callable[[str], object] | None = None,
    ) -> None:
        """`devices`: that of each engine, by its key; `is_beside`: whether others may measure
        while a case does; `tell` hears that another run is waited for."""
        self._devices = devices
        self._is_beside = is_beside
        self._overlaps = Overlaps()
        host = HostTurn(DeviceLock([HOST], tell=tell))
        self._batons = {
            device: Baton(DeviceLock([device], tell=tell), host)
            for device in sorted(set(devices.values()))
        }

    @property
    def problem(self) -> str | None:
        """Why other runs are not kept away; None where they are."""
        return next((b.problem for b in self._batons.values() if b.problem is not None), None)

    @property
    def times(self) -> dict[str, TimeBreakdown]:
        """What each device did."""
        return {device: baton.time for device, baton in self._batons.items()}

    def shares(self, rounds: Sequence[Sequence[CaseRun]]) -> list[list[list[CaseRun]]]:
        """The rounds of each device: none waits for what another one prepares."""
        shares = [
            [
                [v for v in case_runs if self._devices[v.case.engine.key] == device]
                for case_runs in rounds
            ]
            for device in self._batons
        ]
        return [[case_runs for case_runs in share if case_runs] for share in shares if any(share)]

    def turns(self, case_runs: Sequence[CaseRun]) -> list[CaseTurn]:
        """One for each run of a case; those of one device follow each other."""
        places = [(self._devices[v.case.engine.key], self._is_beside(v)) for v in case_runs]
        groups: dict[tuple[str, bool], Group] = {}
        for place in dict.fromkeys(places):
            mine = [v.case.id for v, at in zip(case_runs, places, strict=True) if at == place]
            groups[place] = self._batons[place[0]].group(mine, beside=place[1])
        turns = [groups[at].turn(v.case.id) for v, at in zip(case_runs, places, strict=True)]
        for turn, (device, _) in zip(turns, places, strict=True):
            turn.watch(self._overlaps, device)
        return turns

    @contextmanager
    def touching(self) -> Iterator[None]:
        """While somebody who is no case of a round works on any of the devices: on all at once,
        since whoever has one and waits for another may keep the other waiting."""
        batons = list(self._batons.values())
        with batons[0].changing():  # the state of all: they share the turn of the host
            batons[0].wait(lambda: all(baton.may_touch() for baton in batons))
            for baton in batons:
                baton.begin_to_touch()
        with ExitStack() as held:
            for baton in batons:
                held.callback(baton.touched)
            for baton in batons:
                held.callback(baton.hold(alone=False).release)
            yield

    def stop(self) -> None:
        for baton in self._batons.values():
            baton.stop()


# Whether devices that measure at the same time change the times of a case.
#
# A round beside others is kept at once. When the rounds that were asked for are there, those beside
# others are held against those alone. A difference counts where it is larger than `LIMIT_RATIO` and
# than rounds of the case differ among themselves; then the rounds beside others are void. A step of
# the clock is no difference either.

EVERY = 5
LIMIT_RATIO = 1.01
"""How far medians beside others may lie from those alone."""
MOST_RATIO = 1.05
"""Beyond this it counts however much rounds scatter: that may be the others' doing too."""
SCATTER_RATIO, SCATTER_DEGREES = 0.005, 6
"""How much rounds of a GPU's cases usually scatter, and for how many degrees of freedom this stands
beside those of the case itself: a few rounds can be alike by chance."""
LOOKS = 3
"""A run judges dozens of cases, and one that moved by chance is measured again at its end: limits
are those of three looks that share the error. (With those of one look, 7 of 13 runs of 38 cases had
such a case, and nothing was to be found.)"""


def with_companions(case: Case, companions: Iterable[str]) -> Case:
    """The case whose rounds name the devices that measured meanwhile."""
    found = tuple(sorted(companions))
    rounds = []
    for each in case.rounds:
        known = each.surroundings or Surroundings()
        rounds.append(replace(each, surroundings=replace(known, companions=found)))
    return replace(case, rounds=tuple(rounds))


def companions_of(each: Round) -> tuple[str, ...]:
    known = each.surroundings
    return () if known is None or known.companions is None else known.companions


@dataclass
class Trial:
    """What is known of one case, alone and beside others: locations of its rounds."""

    alone: dict[int, float] = field(default_factory=dict)
    beside: dict[int, float] = field(default_factory=dict)
    step: float = 0.0
    """Of the clock, relative to the shortest median."""
    news: bool = False
    """Whether rounds came since it was judged."""
    is_described: bool = False
    """Whether the document says what the others do to it."""

    def note(self, each: Round) -> None:
        name = main_series(each.series)
        assert name is not None, "a round has samples"
        location = round_log(counting(each, name))
        logs = self.beside if companions_of(each) else self.alone
        logs[each.index] = location
        if each.device_timing == "kernel records":
            self.step = max(self.step, STEP_NS / math.exp(location))
        self.news = True

    @property
    def ratio(self) -> float | None:
        """Of medians beside others to those alone; None where one of the two is missing."""
        if not (self.alone and self.beside):
            return None
        means = [statistics.fmean(logs.values()) for logs in (self.beside, self.alone)]
        return math.exp(means[0] - means[1])

    def scatter(self) -> float:
        """What the ratio may differ from 1 by chance: 98.3 % limit of its logarithm."""
        groups = [list(self.alone.values()), list(self.beside.values())]
        degrees = sum(map(len, groups)) - len(groups) + SCATTER_DEGREES
        squares = 0.0
        for group in groups:
            centre = statistics.fmean(group)
            squares += math.fsum((value - centre) ** 2 for value in group)
        squares += SCATTER_DEGREES * SCATTER_RATIO**2
        share = sum(1 / len(group) for group in groups)
        return two_sided(degrees, LOOKS) * math.sqrt(squares / degrees * share)

    @property
    def is_moved(self) -> bool:
        ratio = self.ratio
        if ratio is None:
            return False
        limit = min(math.log(MOST_RATIO), max(math.log(LIMIT_RATIO), self.step, self.scatter()))
        return abs(math.log(ratio)) > limit


@dataclass(frozen=True)
class Judged:
    """What the others do to a case."""

    name: str
    note: str | None
    """For the document; None where it says so already."""
    void: frozenset[int]
    """Rounds beside others that do not count."""


class BesideTrials:
    """Which cases may be measured beside others."""

    def __init__(self) -> None:
        self._trials: dict[str, Trial] = {}
        self._fallen: dict[str, float] = {}
        """Cases that are measured alone, and the ratio for which they are."""

    def measures_beside(self, name: str, index: int) -> bool:
        return index % EVERY != 0 and name not in self._fallen

    def take(self, case: Case) -> None:
        """A result, or what an earlier run measured of a case."""
        trial = self._trials.setdefault(case.id, Trial())
        for each in case.rounds:
            trial.note(each)
        trial.is_described |= any(note.startswith(BESIDE) for note in case.notes)
        for found in filter(None, map(MEASURED_ALONE.fullmatch, case.notes)):
            self._fallen.setdefault(case.id, float(found[1]))

    def judge(self, names: Iterable[str] | None = None) -> Iterator[Judged]:
        """What came of these cases, or of all, that have new rounds, where it is to be acted on."""
        for name in list(self._trials) if names is None else names:
            trial = self._trials[name]
            ratio = trial.ratio
            if not trial.news or ratio is None:
                continue
            trial.news = False
            known = name in self._fallen
            void = frozenset(trial.beside) if known or trial.is_moved else frozenset()
            note = None
            if not trial.is_described:
                chance = math.exp(trial.scatter()) - 1
                counts = f"{len(trial.beside)} and {len(trial.alone)} rounds"
                note = (
                    f"{BESIDE}{ratio:.4f} of alone ({counts}, by chance up to {100 * chance:.1f} %)"
                )
            if void and not known:
                self._fallen[name] = ratio
                note = _reason(ratio)
            if void:
                trial.beside.clear()
            trial.is_described = True
            if void or note is not None:
                yield Judged(name, note, void)

    def describe(self, case: Case, companions: Iterable[str]) -> Case:
        """A result with the devices that measured meanwhile, and why it was measured alone."""
        case = with_companions(case, companions)
        if case.id not in self._fallen:
            return case
        return replace(case, notes=(*case.notes, _reason(self._fallen[case.id])))

    def sentence(self) -> str:
        """What came of it, over all cases."""
        ratios = [ratio for t in self._trials.values() if (ratio := t.ratio) is not None]
        ratios += self._fallen.values()
        if not ratios:
            return "devices side by side: no two measured at the same time"
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        return (
            f"devices side by side: {mean:.4f} of alone over {len(ratios)} cases; "
            f"{len(self._fallen)} cases were measured alone"
        )


BESIDE = "beside other devices "


def _reason(ratio: float) -> str:
    return f"{BESIDE}{ratio:.4f} of alone: measured alone"
