"""Estimates of how long a run takes: at its beginning by what this machine remembers of earlier
runs, after its first round by that round.

The memory is a JSON file of seconds in a round by graph, engine and effort. It decides nothing
else: a file that cannot be read or written costs the estimate only.
"""

from __future__ import annotations

import hashlib
import json
import platform
import statistics
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from bench_schema.units import count_text

from bench_run.files import cache_folder, replacing
from bench_run.options import Sampling, grouped
from bench_run.plan.engines import lists_variants

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from bench_run.measure.time_breakdown import TimeBreakdown
    from bench_run.options import Options
    from bench_run.plan.cases import PlannedCase, PlannedGraph
    from bench_run.plan.engines import PlannedEngine

MOST_REMEMBERED = 20_000
"""Pairs of graph and engine; those that ran longest ago are forgotten."""
MEANINGLESS = ("rounds", "max_rounds", "seed", "companions")
"""Settings that do not change how long a round takes."""


def memory_path() -> Path | None:
    """Return the file of this machine; None without a home."""
    base = cache_folder()
    if base is None:
        return None
    host = "".join(c if c.isalnum() or c in "._-" else "_" for c in platform.node())
    return base / f"durations-{host}.json"


def about(seconds: float) -> str:
    """Format a duration that is not known exactly: ``about 40 s``, ``about 2 min 10 s``."""
    if seconds < 60:
        return f"about {max(1, round(seconds))} s"
    if seconds < 600:
        minutes, rest = divmod(10 * round(seconds / 10), 60)
        return f"about {minutes} min {rest} s" if rest else f"about {minutes} min"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"


class Forecast:
    """The estimates of one run, and what it adds to the memory."""

    def __init__(
        self, options: Options, graphs: Iterable[PlannedGraph], engines: Sequence[PlannedEngine]
    ) -> None:
        sampling = asdict(grouped(Sampling, options))
        self._effort = {name: sampling[name] for name in sampling if name not in MEANINGLESS}
        asked = options.iterations
        self._effort["iterations"] = None if asked is None else asked / options.rounds
        self._rounds, self._adds = options.rounds, options.adds_rounds
        self._resumes = options.resume
        self._all = f"all {sorted(engine.key for engine in engines)}"
        self._pairs = [(graph.id.fingerprint, engine) for graph in graphs for engine in engines]
        rounds = count_text(options.rounds, "round")
        each = f"{rounds} each"
        if asked is not None:
            each = f"{count_text(asked, 'iteration')} in {each}"
        least = "at least " if any(lists_variants(engine.spec) for engine in engines) else ""
        self.size = f"{least}{count_text(len(self._pairs), 'case')}, {each}"
        self._begin = time.monotonic()
        self._start_s = 0.0
        self._took: dict[str, list[float]] = defaultdict(list)
        self._batch: list[tuple[str, float]] = []
        self._cases = self._finished = 0

    def _key(self, fingerprint: str, engine: PlannedEngine) -> str:
        settings = {**self._effort, **asdict(engine.options), "reference": engine.reference}
        text = json.dumps([fingerprint, engine.key, settings], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def first_line(self) -> str:
        """Return the number of cases, and how long the run will take as far as that is known."""
        return f"{self.size}: {self._whole()}"

    def _whole(self) -> str:
        if self._resumes:
            return "how long is not known, a part has been measured"
        memory = _read()
        seconds = [memory.get(self._key(*pair)) for pair in self._pairs]
        known = [each for each in seconds if each is not None]
        lacking = len(seconds) - len(known)
        if lacking:
            which = f"{lacking} of them did not" if known else "it did not"
            return f"how long is unknown, {which} run here before"
        whole_s = memory.get(self._all, 0.0) + self._rounds * sum(known)
        least = "at least " if self._adds else ""
        return f"{least}{about(whole_s)}, as earlier runs took here"

    def begin(self, cases: int) -> None:
        """Count from here: engines are open, and this many cases are measured in each round."""
        self._cases, self._start_s = cases, time.monotonic() - self._begin
        self._begin = time.monotonic()

    def took(self, case: PlannedCase, seconds: float) -> None:
        """Note the time of a case in a round. Thread-safe."""
        self._batch.append((self._key(case.graph.id.fingerprint, case.engine), seconds))

    def end_batch(self, rounds: int, wall_s: float) -> None:
        """Share the time of one round, or of several side by side, among their cases."""
        total_s = sum(seconds for _, seconds in self._batch)
        by_pair: dict[str, float] = defaultdict(float)
        for key, seconds in self._batch:
            by_pair[key] += seconds
        for key, seconds in by_pair.items():
            self._took[key].append(wall_s * seconds / total_s / rounds if total_s else 0.0)
        self._batch = []

    def left(self, breakdown: TimeBreakdown) -> str | None:
        """Count a case as measured; after as many as a round has, return a line on the rest."""
        self._finished += 1
        if self._finished != self._cases or self._rounds < 2 or self._resumes:
            return None
        references_s = breakdown.seconds().get("reference", 0.0)
        round_s = max(0.0, time.monotonic() - self._begin - references_s)
        return f"{about((self._rounds - 1) * round_s)} left"

    def remember(self) -> None:
        """Write the mean of what the rounds took: the first checks more than the others do."""
        path = memory_path()
        if path is None or not self._took:
            return
        new = {key: round(statistics.fmean(took), 4) for key, took in self._took.items()}
        new[self._all] = round(self._start_s, 2)
        old = {key: seconds for key, seconds in _read().items() if key not in new}
        kept = dict([*old.items(), *new.items()][-MOST_REMEMBERED:])
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(path) as part:
                part.write_text(json.dumps(kept), encoding="utf-8")


def _read() -> Mapping[str, float]:
    path = memory_path()
    with suppress(OSError, ValueError):
        found = json.loads(path.read_bytes()) if path is not None else {}
        if isinstance(found, dict):
            return {key: float(s) for key, s in found.items() if isinstance(s, (int, float))}
    return {}
