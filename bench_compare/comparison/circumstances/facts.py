"""Properties of a case's rounds other than their numbers, collected once for each case.

Nearly all cases of a document have equal facts, which are then one object.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bench_schema.rounds import StoredRounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_schema.document import Round, Surroundings, Telemetry

T = TypeVar("T")

DEVICE = "device_ns"
OTHERS_S = 0.05
"""Processor time of others that may count: the kernel counts in steps of 0.01 s."""
STEAL_S = 0.02
SWITCHES = 3
"""Involuntary ones."""
KEPT = 1 << 12
"""Cases of no stored document whose facts are remembered."""
KINDS = 1024
"""Unlike facts that are kept as one object each."""


@dataclass(frozen=True, slots=True)
class Disturber:
    """A round beside which something happened that may count; names as in `Surroundings`."""

    index: int
    exposed: bool
    """True if its times include work of the host; those of a device behind a gate do not."""
    window_s: float | None
    others_cpu_s: float | None
    steal_s: float | None
    involuntary_switches: int | None
    device_processes: int | None


class Facts(NamedTuple):
    """Timing methods, clocks, disturbances and checks of one round, or of all rounds of a case
    together."""

    places: tuple[tuple[str | None, str | None], ...] = ()
    """Host and device, as far as rounds tell; each once."""
    timings: frozenset[str | None] = frozenset()
    """Methods that measured `device_ns`."""
    series: frozenset[str] = frozenset()
    sampled: frozenset[str] = frozenset()
    """Series with a sample at least."""
    bound_ns: float = 0.0
    """The largest systematic error of `device_ns`."""
    throttled: tuple[str, ...] = ()
    """Why the device did while a round was measured."""
    notes: tuple[str, ...] = ()
    disturbed: tuple[Disturber, ...] = ()
    mismatched: bool = False
    """True if a checked iteration had elements outside of the tolerance."""


def facts(rounds: Sequence[Round]) -> Facts:
    """Return the facts of the rounds of a case, which are put together once."""
    if not isinstance(rounds, StoredRounds):
        return _of_tuple(tuple(rounds))
    if not isinstance(rounds.facts, Facts):
        rounds.facts = _facts(rounds)
    return rounds.facts


def _facts(rounds: Sequence[Round]) -> Facts:
    return _shared(joined([of_round(one) for one in rounds]))


@lru_cache(KEPT)
def _of_tuple(rounds: tuple[Round, ...]) -> Facts:
    return _facts(rounds)


@lru_cache(KINDS)
def _shared(found: Facts) -> Facts:
    """Return one object for equal ones."""
    return found


def of_round(one: Round) -> Facts:
    beside = one.surroundings
    return Facts(
        ((one.host, one.device_uuid),),
        frozenset((one.device_timing,)),
        frozenset(one.series),
        frozenset(name for name, samples in one.series.items() if samples.size),
        one.device_bound_ns or 0.0,
        throttled(one),
        tuple(one.notes),
        () if beside is None or is_quiet(beside) else (_disturber(one, beside),),
        one.checks is not None and any(one.checks.mismatched),
    )


def throttled(one: Round) -> tuple[str, ...]:
    """Return the reasons why the device was throttled. The driver's report alone, which may concern
    the case before, does not count if the clock was measured on both sides of the round and nothing
    was noted."""
    before, after = one.telemetry_before, one.telemetry_after
    if after is None:
        return ()
    measured = before is not None and before.probed_clock_mhz and after.probed_clock_mhz
    return () if measured and not one.notes else tuple(after.throttle)


def joined(parts: Sequence[Facts]) -> Facts:
    """Return the facts of a case from those of its rounds."""
    if not parts:
        return Facts()
    columns = list(zip(*parts, strict=True))
    places, timings, series, sampled, bounds, throttles, notes, disturbed, wrong = columns
    return Facts(
        _each_once(places),
        frozenset().union(*timings),
        frozenset().union(*series),
        frozenset().union(*sampled),
        max(bounds),
        _each_once(throttles),
        tuple(chain.from_iterable(notes)),
        tuple(chain.from_iterable(disturbed)),
        any(wrong),
    )


def _each_once(parts: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(parts)))


def is_quiet(found: Surroundings) -> bool:
    """Return True if nothing in it can count, however short the round. This holds for nearly all of
    100,000 rounds."""
    return (
        (found.others_cpu_s or 0.0) < OTHERS_S
        and (found.steal_s or 0.0) < STEAL_S
        and (found.involuntary_switches or 0) < SWITCHES
        and not found.device_processes
    )


def _disturber(one: Round, beside: Surroundings) -> Disturber:
    return Disturber(
        one.index,
        DEVICE not in one.series or one.device_timing == "events",
        beside.window_s,
        beside.others_cpu_s,
        beside.steal_s,
        beside.involuntary_switches,
        beside.device_processes,
    )


def clock_mhz(telemetry: Telemetry | None) -> float | None:
    """Return the measured clock if there is one, otherwise that which the device reports."""
    if telemetry is None:
        return None
    probed = telemetry.probed_clock_mhz
    return telemetry.sm_clock_mhz if probed is None else probed
