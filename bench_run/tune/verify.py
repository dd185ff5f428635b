"""Default against winner, nothing else: whether what a record says holds here and now."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench_schema.identity import variant_key

from bench_run.errors import EngineUnavailableError, UsageError
from bench_run.machine.devices import devices
from bench_run.plan.cases import PlannedCase
from bench_run.plan.tuned import (
    Here,
    default_engine,
    files_of,
    find_entry,
    read_record,
    record_engines,
    tuned_cases,
)
from bench_run.runner.benchmark import run_planned
from bench_run.runner.planning import Planned, open_engines, outline_run, plan_run
from bench_run.tune.choosing import Finalist, ratio
from bench_run.tune.record import confirmed_cases
from bench_run.worker.life import Launcher
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Document
    from bench_schema.tuning import Ratio, TunedRecord

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
    record = read_record(path)
    if record.settings.objective != "time":
        what = f"was tuned for {record.settings.objective}, and time is what is verified"
        raise UsageError(f"--verify: {path} {what}: tune again")
    if all(entry.winner == entry.default for entry in record.entries):
        return []
    if not (options.graphs or options.op or options.miopen_driver):
        moved = [entry for entry in record.entries if entry.winner != entry.default]
        options = replace(options, graphs=files_of(path, moved))
    options = replace(
        options,
        engine=options.engine or (default_engine(record),),
        cache=record.environment.cache,
        math=record.environment.math,
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
        tuned, notes = tuned_cases(
            record, plain.cases, engines, Here(facts, devices(), outline.chosen)
        )

        def meaning(case: PlannedCase) -> tuple[object, ...]:
            return case.graph.id.fingerprint, case.engine.key, variant_key(case.variant)

        pairs = [
            (a, PlannedCase(b.id + TURNED, b.graph, b.engine, b.variant))
            for a, b in zip(plain.cases, tuned, strict=True)
            if meaning(a) != meaning(b)
        ]
        if not pairs:
            reasons = [note for note in notes if "by default: " in note]
            why = f": {reasons[0].partition('by default: ')[2]}" if reasons else ""
            raise UsageError(
                f"--verify: {path}: no entry has a winner that differs from the "
                f"default and can run here{why}"
            )
        cases = tuple(case for pair in pairs for case in pair)
        used = tuple({case.engine.key: case.engine for case in cases}.values())
        planned = Planned(used, cases, replace(outline.gathered, failures=()))
        document = run_planned(options, planned, pool, command)
    finally:
        pool.close()
        pool.kill()
        launcher.close()
    return _results(record, pairs, document)


def _results(
    record: TunedRecord,
    pairs: Sequence[tuple[PlannedCase, PlannedCase]],
    document: Document,
) -> list[Verified]:
    confirmed = confirmed_cases(document)
    status = {case.id: case.outcome for case in document.cases}
    results = []
    for default, winner in pairs:
        entry = find_entry(record, default)
        said = None if entry is None else entry.gain
        name = default.graph.id.name
        if default.id not in confirmed or winner.id not in confirmed:
            failed = next(c.id for c in (default, winner) if c.id not in confirmed)
            reason = status[failed].reason if failed in status else "it was not run"
            results.append(Verified(name, said, None, f"{failed}: {reason}"))
            continue
        logs = [confirmed[each.id].logs for each in (default, winner)]
        gain = ratio(Finalist(0, 0, logs[0]), Finalist(1, 1, logs[1]))
        problem = None if confirmed[winner.id].is_right else "the winner's outputs are wrong"
        results.append(Verified(name, said, None if problem else gain, problem))
    return results
