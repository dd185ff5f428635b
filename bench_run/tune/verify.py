"""Default against winner, nothing else: whether what a record says holds here and now."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench_schema.identity import variant_key

from bench_run.errors import EngineUnavailableError, UsageError
from bench_run.machine.devices import devices
from bench_run.options import names_graphs
from bench_run.plan.cases import PlannedCase
from bench_run.plan.tuned import (
    Here,
    Record,
    default_engine,
    files_of,
    find_entry,
    read_record,
    record_engines,
    tuned_cases,
)
from bench_run.runner.benchmark import run_planned
from bench_run.runner.planning import Planned, open_engines, outline_run, plan_run
from bench_run.runner.rounds import engines_of
from bench_run.tune.known import logs_of
from bench_run.tune.race import Contender, ratio
from bench_run.worker.life import Launcher
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Case
    from bench_schema.tuning import Ratio

    from bench_run.options import Options

TURNED = " (tuned)"


@dataclass(frozen=True)
class Verified:
    """One entry whose winner is not the default."""

    name: str
    recorded: Ratio | None
    measured: Ratio | None
    """Ratio of the default's time to the winner's; None if one of them did not complete."""
    problem: str | None = None

    @property
    def holds(self) -> bool:
        """True if the winner is shown to be faster; or not shown to be slower than recorded, if it
        won by keeping a limit."""
        gain, said = self.measured, self.recorded
        if gain is None or gain.low is None or gain.high is None:
            return False
        if said is not None and said.low is not None and said.low <= 1:
            return gain.high >= said.low
        return gain.low > 1


def verify(path: str, options: Options, command: Sequence[str] = ()) -> list[Verified]:
    """Measure the winner and the default of every entry with a winner of its own; return an empty
    list if no entry has one. Raises `UsageError` if nothing of the record holds here."""
    record = read_record(path, "--verify")
    moved = [entry for entry in record.tuned.entries if entry.winner]
    if not moved:
        return []
    if not names_graphs(options):
        options = replace(options, graphs=files_of(path, moved))
    settings = record.document.run.settings
    options = replace(
        options,
        engine=options.engine or (default_engine(record),),
        cache=settings.cache,
        math=settings.math or options.math,
    )
    outline = outline_run(options)
    launcher = Launcher(options.worker_start, options.timeout_s)
    pool = WorkerPool(options.timeout_s, launcher)
    try:
        plain = plan_run(outline, open_engines(outline, pool), {})
        engines = record_engines(record, outline.chosen)
        facts = {}
        for key, engine in engines.items():
            with suppress(EngineUnavailableError):
                facts[key] = pool.facts(engine)
        here = Here(facts, devices(), outline.chosen)
        tuned, notes = tuned_cases(record, plain.cases, engines, here)
        pairs = [
            (default, PlannedCase(won.id + TURNED, won.graph, won.engine, won.variant))
            for default, won in zip(plain.cases, tuned, strict=True)
            if _meaning(default) != _meaning(won)
        ]
        if not pairs:
            reasons = [note for note in notes if "by default: " in note]
            why = f": {reasons[0].partition('by default: ')[2]}" if reasons else ""
            raise UsageError(
                f"--verify: {path}: no entry has a winner that differs from the "
                f"default and can run here{why}"
            )
        cases = tuple(case for pair in pairs for case in pair)
        planned = Planned(engines_of(cases), cases, replace(outline.gathered, failures=()))
        document = run_planned(options, planned, pool, command)
    finally:
        pool.close()
        pool.kill()
        launcher.close()
    known = {case.id: case for case in document.cases}
    return [_verified(record, default, known[default.id], known[won.id]) for default, won in pairs]


def _meaning(case: PlannedCase) -> tuple[object, ...]:
    return case.graph.id.fingerprint, case.engine.key, variant_key(case.variant)


def _verified(record: Record, planned: PlannedCase, default: Case, winner: Case) -> Verified:
    entry = find_entry(record, planned)
    said, name = None if entry is None else entry.gain, planned.graph.id.name
    for case in (default, winner):
        if case.outcome.status != "completed":
            return Verified(name, said, None, f"{case.id}: {case.outcome.reason}")
    if winner.validation is not None and winner.validation.status == "failed":
        return Verified(name, said, None, "the winner's outputs are wrong")
    base, other = (Contender(i, i, logs_of(case)) for i, case in enumerate((default, winner)))
    return Verified(name, said, ratio(base, other))
