"""``--parallel measure``: devices of a host measure at the same time, where that changes nothing.

Devices share power, bus and host, so each case is watched: round 0, and every `EVERY`-th after it,
is measured while no other device measures. A round beside others is kept back until it can be held
against those alone. Where its median is beyond `LIMIT_RATIO` of theirs it does not count, and the
case is measured alone from then on.
"""

from __future__ import annotations

import math
import statistics
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.document import Surroundings
from bench_schema.summary import main_series

from bench_run.machine.device_lock import DeviceLock
from bench_run.runner.parallel.baton import Baton
from bench_run.runner.parallel.overlaps import Overlaps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bench_schema.document import Case, Round

    from bench_run.runner.parallel.baton import CaseTurn, Group
    from bench_run.runner.parallel.visit import Visit

EVERY = 5
LIMIT_RATIO = 1.01
"""How far a median beside others may lie from that alone."""
HOST = "host"
"""Name of the lock of all devices: shared by those that measure side by side."""


class DeviceBatons:
    """A baton for each device, in place of one for all of them."""

    def __init__(self, devices: Mapping[str, str], is_beside: Callable[[Visit], bool]) -> None:
        """`devices`: that of each engine, by its key; `is_beside`: whether others may measure
        while a case does."""
        self._devices = devices
        self._is_beside = is_beside
        self._overlaps = Overlaps()
        self._batons = {
            device: Baton(DeviceLock([device]), DeviceLock([HOST]))
            for device in sorted(set(devices.values()))
        }

    def turns(self, visits: Sequence[Visit]) -> list[CaseTurn]:
        """One for each visit; those of one device follow each other."""
        places = [(self._devices[v.case.engine.key], self._is_beside(v)) for v in visits]
        groups: dict[tuple[str, bool], Group] = {}
        for place in dict.fromkeys(places):
            mine = [v.case.id for v, at in zip(visits, places, strict=True) if at == place]
            groups[place] = self._batons[place[0]].group(mine, beside=place[1])
        turns = [groups[at].turn(v.case.id) for v, at in zip(visits, places, strict=True)]
        for turn, (device, _) in zip(turns, places, strict=True):
            turn.watch(self._overlaps, device)
        return turns

    @contextmanager
    def touching(self) -> Iterator[None]:
        """While somebody who is no case of a round works on any of the devices."""
        with ExitStack() as held:
            for baton in self._batons.values():
                held.enter_context(baton.touching())
            yield

    def stop(self) -> None:
        for baton in self._batons.values():
            baton.stop()


def with_companions(case: Case, companions: Iterable[str]) -> Case:
    """The case whose rounds name the devices that measured meanwhile."""
    found = tuple(sorted(companions))
    return replace(case, rounds=tuple(_beside(each, found) for each in case.rounds))


def _beside(each: Round, companions: tuple[str, ...]) -> Round:
    known = each.surroundings or Surroundings()
    return replace(each, surroundings=replace(known, companions=companions))


def companions_of(each: Round) -> tuple[str, ...]:
    known = each.surroundings
    return () if known is None or known.companions is None else known.companions


@dataclass
class Trial:
    """What is known of one case, alone and beside others."""

    alone_ns: list[float] = field(default_factory=list)
    beside_ns: list[float] = field(default_factory=list)
    held: list[Case] = field(default_factory=list)
    """Measured beside others, and not yet judged."""
    told: bool = False
    """Whether a result says what the others did to it."""

    def note(self, each: Round) -> None:
        beside = bool(companions_of(each))
        (self.beside_ns if beside else self.alone_ns).append(_median(each))

    def ratio_of(self, each: Round) -> float | None:
        """Of a round beside others to those alone."""
        return _median(each) / statistics.median(self.alone_ns) if self.alone_ns else None

    @property
    def ratio(self) -> float | None:
        if not (self.alone_ns and self.beside_ns):
            return None
        return statistics.median(self.beside_ns) / statistics.median(self.alone_ns)


class BesideTrials:
    """Which cases may be measured beside others."""

    def __init__(self) -> None:
        self._trials: dict[str, Trial] = {}
        self._fallen: dict[str, float] = {}
        """Cases that are measured alone, and the ratio for which they are."""

    def _trial(self, name: str) -> Trial:
        return self._trials.setdefault(name, Trial())

    def measures_beside(self, name: str, index: int) -> bool:
        return index % EVERY != 0 and name not in self._fallen

    def resume(self, case: Case) -> None:
        """What an earlier run measured of a case."""
        for each in case.rounds:
            self._trial(case.id).note(each)
        self._is_unmoved(case.id, self._trial(case.id).ratio)

    def take(self, case: Case) -> list[Case]:
        """What may be kept now that this result is there."""
        trial = self._trial(case.id)
        for each in case.rounds:
            trial.note(each)
        if not any(map(companions_of, case.rounds)):
            return [case, *self._judged(case.id)]
        trial.held.append(case)
        return self._judged(case.id) if trial.alone_ns else []

    def _judged(self, name: str) -> list[Case]:
        """Those of the results kept back that count."""
        trial = self._trial(name)
        held, trial.held = trial.held, []
        kept = [(one, trial.ratio_of(one.rounds[0])) for one in held]
        return [self._noted(one, ratio) for one, ratio in kept if self._is_unmoved(name, ratio)]

    def _noted(self, case: Case, ratio: float | None) -> Case:
        """With the first ratio that is known of the case."""
        trial = self._trial(case.id)
        if ratio is None or trial.told:
            return case
        trial.told = True
        note = f"round {case.rounds[0].index + 1} beside other devices {ratio:.4f} of alone"
        return replace(case, notes=(*case.notes, note))

    def release(self) -> Iterator[Case]:
        """At the end: results of cases that no round alone can be held against."""
        for name in self._trials:
            yield from self._judged(name)

    def _is_unmoved(self, name: str, ratio: float | None) -> bool:
        """Whether others changed the case's time by less than matters; else it is alone from now
        on."""
        if ratio is None or abs(math.log(ratio)) <= math.log(LIMIT_RATIO):
            return True
        self._fallen.setdefault(name, ratio)
        return False

    def describe(self, case: Case, companions: Iterable[str]) -> Case:
        """A result with the devices that measured meanwhile, and why it was measured alone."""
        case = with_companions(case, companions)
        if case.id not in self._fallen:
            return case
        reason = f"beside other devices {self._fallen[case.id]:.4f} of alone: measured alone"
        return replace(case, notes=(*case.notes, reason))

    def sentence(self) -> str:
        """What came of it, over all cases."""
        ratios = [r for t in self._trials.values() if (r := t.ratio) is not None]
        if not ratios:
            return "devices side by side: no two measured at the same time"
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        return (
            f"devices side by side: {mean:.4f} of alone over {len(ratios)} cases; "
            f"{len(self._fallen)} cases were measured alone"
        )


def _median(each: Round) -> float:
    name = main_series(each.series)
    assert name is not None, "a round has samples"
    return float(np.median(each.series[name]))
