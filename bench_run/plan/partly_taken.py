"""Options that some engines of a run take and others cannot: a line for each says which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.engines import engine_module
from bench_run.engines.base import SupportsKnobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_run.options import Options
    from bench_run.plan.engines import PlannedEngine


def partly_taken(
    options: Options,
    engines: Sequence[PlannedEngine],
    devices: Mapping[str, int | None],
    clocks: Mapping[str, str],
) -> Iterator[str]:
    """Notes. `devices`: how many each engine can choose from, None for no choice; `clocks` by which
    each is timed. An option that no engine takes was refused before."""
    if options.knob:
        without = [e for e in engines if not isinstance(engine_module(e.spec.name), SupportsKnobs)]
        yield from _note("--knob", without, "without knobs")
    if options.devices != (0,):
        without = [e for e in engines if devices[e.key] is None]
        yield from _note("--device", without, "without a choice of devices")
    if options.timer in ("events", "cupti"):
        without = [e for e in engines if clocks[e.key] == "host"]
        yield from _note(f"--timer {options.timer}", without, "timed by the host's clock")


def _note(flag: str, engines: Sequence[PlannedEngine], what: str) -> Iterator[str]:
    if engines:
        names = ", ".join(engine.key for engine in engines)
        yield f"{flag} does not hold for {names}: {what}"
