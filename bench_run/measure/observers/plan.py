"""Reports of a plan after its samples: algorithm, memory, the library's own clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema.document import Memory

from bench_run.engines.reported import Bytes, Reports, Words
from bench_run.errors import EngineError, message_of
from bench_run.measure.observers.base import Observer, Results, Round

if TYPE_CHECKING:
    from collections.abc import Mapping


class PlanFacts(Observer):
    def __init__(self, this: Round) -> None:
        super().__init__(this)
        self._witness: Mapping[str, str] = {}
        self._reports = Reports(this.engine)

    def after_round(self) -> None:
        """Ask the library's own clock; if that fails, the reason is its result."""
        witness = self.this.prepared.plan.abilities.witness
        if witness is None:
            return

        def ask() -> Mapping[str, str]:
            try:
                return witness()
            except EngineError as error:
                return {"witness": f"failed: {message_of(error)}"}

        self._witness = self._reports.read("witness()", ask, Words, {})

    def results(self) -> Results:
        engine, plan = self.this.prepared.engine, self.this.prepared.plan
        # The device allocator's peak where there is one, the process's where the processor works.
        peak_bytes = self._reports.read("peak_bytes()", engine.peak_bytes, Bytes | None, None)
        facts = self._reports.plan_facts(plan)
        if peak_bytes is None and engine.facts.device == "cpu":
            peak_bytes = self.this.peak_bytes
        memory = Memory(peak_bytes, facts.workspace_bytes, facts.buffer_bytes)
        chosen = {**facts.chosen, **self._witness}
        notes = tuple(self._reports.notes)
        return Results(case={"memory": memory, "plan": chosen, "notes": notes})
